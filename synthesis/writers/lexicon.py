"""Words the offline query writer varies: how office people ask, whom and what they name, and word families.

A family holds words that may stand for each other in a signal without changing which case of a rule holds: either
synonyms (invoice, bill) or members of one kind (Lisbon, Madrid). Written from general office language.
"""

# given names and how people speak of somebody they know
PEOPLE = ["Dana Ruiz", "Tom Becker", "Aisha Noor", "Luca Moretti", "Mei Tan", "Jonas Falk",
    "Priya Nair", "Omar Haddad",
    "Ella Brandt", "Kofi Mensah", "Sara Lund", "Victor Pinto", "Nina Petrov", "Hugo Alvarez",
    "Grace Obi", "Paul Weber", "Ines Duarte", "Karl Lindqvist", "Fatima Zahra", "Ben Ashworth", "Yuki Mori",
    "Rosa Campos", "Ivan Kral", "Leah Stern", "Marek Nowak", "Chloe Durand", "Amir Rahimi", "Jill Tanaka",
    "my colleague", "someone on my team", "my direct report", "the new guy", "Ms. Keller",
    "Mr. Okafor"]  # fmt: skip
COMPANIES = ["Halden Foods", "Brightwave", "Corvo Tools", "Nordlicht AG", "Tamarind Ltd",
"Fenwick & Sons", "Ostrava Steel",
    "Blue Heron", "Quillon", "Maris Freight", "Pinecrest", "Solvane", "Varga Motors", "Delphi Paper",
    "Kestner",
    "Alder & Roe", "Sandpiper Hotels", "Tidewater Labs", "Oxbow Cycles", "Lumen Dairy", "Redgate Print",
    "Hollis Clinic", "Castor Travel", "Juniper Bakery", "Norrland Timber", "Bellweather", "Zephyr Ferries",
    "one of our customers", "the client"]  # fmt: skip
FIRST_NAMES = """Dana Tom Aisha Luca Mei Jonas Priya Omar Ella Kofi Sara Victor Nina Hugo Grace Paul Ines Karl Fatima
    Ben Yuki Rosa Ivan Leah Marek Chloe Amir Jill Samuel Petra Noah Lena Diego Anika Sven Maya Felix
    Ruth Tariq Elena Boris Celia Milan Greta Pavel Nadia Oscar Irene Viktor Salma
    Anna Bruno Clara Daniel Emma Farid Gina Henrik Isabel Jakub Kira Leon Marta Nils Olga Pedro Rania Simon Tessa
    Ulrich Vera Wendy Xenia Yara Zoe Andre Bianca Carlos Dimitri Esther""".split()  # noqa: SIM905
LAST_NAMES = """Ruiz Becker Noor Moretti Tan Falk Nair Haddad Brandt Mensah Lund Pinto Petrov Alvarez Obi Weber
    Duarte Lindqvist Zahra Ashworth Mori Campos Kral Stern Nowak Durand Rahimi Tanaka Keller Okafor
    Silva Novak Jansen Costa Meyer Khan Rossi Berg Fischer Molina Adeyemi Larsen Horvat Quinn Sato
    Ferrer Dahl Popov Walsh Ahmed Baker Carter Dubois Evans Fontaine Garcia Hansen Ito Jensen Kumar Lopez Murphy
    Nielsen Olsen Patel Quist Romano Schmidt Tran Ueda Vogel Wagner Young Ziegler Bianchi Cooper Dawson""".split()  # noqa: SIM905
FIRMS = """Halden Brightwave Corvo Nordlicht Tamarind Fenwick Ostrava Heron Quillon Maris Pinecrest Solvane
    Varga Delphi Kestner Alder Sandpiper Tidewater Oxbow Lumen Redgate Hollis Castor Juniper
    Norrland Bellweather Zephyr Calder Mirador Thornbury Velana Arctos Lindholm Casa Marwick Osprey
    Kettle Amberley Rowan Stellan Ashford Bramwell Corvina Drayton Everest Falcon Gladstone Harrow Ivory Jasper
    Keswick Larkspur Meridian Newbury Oakfield Palmer Quayside Ridley Sterling Thistle Upland Vantage Westbrook
    Yarrow Zenith Belmont Crestview Dunmore""".split()  # noqa: SIM905
TRADES = """Foods Dairy Print Bakery Timber AG Ltd Group Textiles Energy Pharma Partners Brothers Holdings
    Ceramics Glass Organics Optics Logistics Media Hotels Motors Clinics Studios Tools Paper Farms Systems""".split()  # noqa: SIM905
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September",
"October", "November",
    "December"]  # fmt: skip
# the first SYNONYMS families hold words that mean the same anywhere
SYNONYMS = 6
FAMILIES: list[list[str]] = [
    ["payslip", "pay slip", "salary slip", "pay stub", "wage slip", "pay sheet", "salary statement"],
    ["employee", "worker", "staff member", "team member"],
    ["supplier", "vendor"],
    ["candidate", "applicant"],
    ["timesheet", "time card", "time sheet"],
    ["customer", "client"],
    ["time off", "leave", "days off", "vacation", "holiday"],
    ["timesheet", "working hours", "hours worked"],
    ["worker", "employee", "staff member", "colleague", "team member", "associate"],
    ["manager", "supervisor", "boss", "team lead", "line manager"],
    ["invoice", "bill"],
    ["customer", "client", "buyer"],
    ["purchase order", "PO"],
    ["receipt", "slip", "proof of purchase"],
    ["expense report", "expense claim", "expenses"],
    ["absence", "time away"],
    ["position", "role", "job"],
    ["job opening", "vacancy", "opening", "requisition"],
    ["training", "course", "class"],
    ["bank account", "bank details", "account details"],
    ["refund", "money back", "repayment"],
    ["journal entry", "ledger entry"],
    ["exchange rate", "currency rate", "conversion rate", "fx rate"],
    ["budget", "funds", "remaining budget"],
    ["fixed asset", "asset", "equipment"],
    ["salary", "base pay", "compensation"],
    ["benefits", "benefit plan", "coverage"],
    ["health plan", "medical plan", "insurance plan"],
    ["dependent", "child", "spouse", "family member"],
    ["address", "home address", "street address"],
    ["contract", "agreement"],
    ["cost center", "department", "cost centre"],
    ["credit memo", "credit note"],
    ["discount", "rebate", "price reduction"],
    ["shipment", "delivery", "consignment"],
    ["approval", "sign-off"],
    ["warehouse", "depot", "distribution center", "store room"],
    ["plant", "factory", "production site"],
    ["forklift driver", "reach truck driver", "warehouse operative", "dock worker", "loader",
        "picker", "packer",
        "machine operator", "line operator", "welder", "assembler", "press operator"],
    ["night shift", "late shift", "early shift", "weekend shift", "late crew", "night crew"],
    ["contractor", "freelancer", "external consultant", "subcontractor"],
    ["intern", "trainee", "apprentice", "working student"],
    ["director", "vice president", "senior manager"],
    ["auditor", "external auditor", "audit firm"],
    ["labor inspector", "labour inspector", "labor authority", "inspectorate"],
    ["landlord", "letting agent", "property manager"],
    ["mortgage", "home loan", "bank loan", "car loan"],
    ["visa office", "embassy", "consulate", "immigration office"],
    ["ministry", "city council", "federal agency", "government agency", "public school",
        "county office", "town hall",
        "state university", "municipal hospital", "public library", "fire department"],
    ["maternity", "paternity", "parental", "adoption"],
    ["flu", "fever", "migraine", "stomach bug", "bad back", "a cold", "food poisoning"],
    ["called in sick", "reported sick", "is ill", "woke up sick", "fell ill"],
    ["doctor's note", "sick certificate", "medical certificate", "note from the doctor"],
    ["jury duty", "military service", "reserve duty"],
    ["PTO", "personal day", "vacation day", "day off", "floating holiday"],
    ["Denver", "Chicago", "Texas", "Boston", "Seattle", "Atlanta", "Miami", "Phoenix", "Toronto",
        "Montreal", "Vancouver",
        "Mexico City", "Sao Paulo", "Bogota", "Lima", "Santiago", "Buenos Aires"],
    ["Lisbon", "Madrid", "Milan", "Rome", "Dublin", "Munich", "Vienna", "Warsaw", "Prague", "Paris",
        "Lyon", "Brussels",
        "Stockholm", "Oslo", "Zurich", "Porto", "Krakow"],
    ["Nairobi", "Lagos", "Cairo", "Accra", "Johannesburg", "Cape Town", "Casablanca"],
    ["Tokyo", "Singapore", "Mumbai", "Shanghai", "Seoul", "Bangkok", "Manila", "Sydney", "Melbourne",
        "Jakarta"],
    ["Germany", "Spain", "France", "Italy", "Poland", "Sweden", "Netherlands", "Portugal", "Austria",
        "Belgium", "Ireland"],
    ["German", "Spanish", "French", "Italian", "Polish", "Swedish", "Dutch", "Portuguese", "Austrian",
        "Belgian"],
    ["Canada", "Brazil", "Mexico", "Chile", "Colombia", "Argentina", "Peru"],
    ["Japan", "India", "China", "Korea", "Thailand", "Vietnam", "Malaysia", "Australia"],
    ["hotel", "hotel night", "lodging", "overnight stay", "room booking"],
    ["flight", "plane ticket", "airfare", "train ticket", "rail ticket"],
    ["taxi", "cab", "ride share", "rental car", "car hire"],
    ["lunch", "dinner", "meal", "team dinner", "client lunch"],
    ["mileage", "own car", "private car", "driving my own car"],
    ["laptop", "monitor", "phone", "docking station", "headset"],
    ["server", "router", "switch", "printer", "scanner"],
    ["truck", "van", "forklift", "company car", "delivery van"],
    ["software license", "user license", "subscription seat", "SaaS seat"],
    ["wire", "bank transfer", "wire transfer"],
    ["direct debit", "autopay", "pull payment", "bank debit"],
    ["cheque", "mailed check", "paper check"],
    ["credit card", "corporate card", "company card"],
    ["short payment", "underpayment", "partial payment", "paid too little", "paid less"],
    ["damaged goods", "broken items", "faulty goods", "defective parts"],
    ["late fee", "penalty", "late charge"],
    ["missed clock-out", "forgot to clock out", "no clock-out", "missing punch"],
    ["lawsuit", "legal case", "court case", "claim in court"],
    ["grant", "research grant", "funding program", "innovation subsidy"],
    ["month end", "month-end close", "period close"],
    ["quarter end", "end of quarter", "quarterly close"],
    ["year end", "annual close", "end of year"],
    ["subsidiary", "affiliate", "group company", "sister company"],
    ["headquarters", "head office", "parent company", "holding"],
    ["overtime", "extra hours", "extra shift"],
    ["night allowance", "shift allowance", "weekend premium"],
    ["parking", "lunch vouchers", "gym", "bike leasing"],
    ["union dues", "union fee"],
    ["termination", "leaving", "last day", "resignation", "exit"],
    ["promotion", "new grade", "step up"],
    ["relocation", "moving house", "transfer abroad"],
    ["merger", "acquisition", "takeover"],
    ["pension", "retirement plan", "retirement savings"],
    ["euro", "dollar", "pound", "yen", "franc"],
    ["scrap metal", "old furniture", "used van", "old machines", "surplus stock"],
    ["intercompany", "between our own companies", "within the group"],
    ["wrong", "incorrect", "mistaken"],
    ["urgent", "rush", "same-day"],
]  # fmt: skip
ROLE = r"\b(?:\w+(?:er|or|ist|ant|ee|man|eer)s?|temp|staff|crew|team|people|colleagues?|apprentice|intern|nurse)$"
