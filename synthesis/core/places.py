"""Where a place lies: countries, their people's adjectives and large cities by region, as a person reads them.

In: a text. Out: the regions of the places it names. The table is general knowledge, not complete: a place it does not
know decides nothing.
"""

from functools import lru_cache

from synthesis.core.words import spaced, words

_TABLE = {
    "united states": """united states|usa|u s|us payroll|american|alabama|alaska|arizona|arkansas|california|colorado|
        connecticut|delaware|florida|georgia|hawaii|idaho|illinois|indiana|iowa|kansas|kentucky|louisiana|maine|
        maryland|massachusetts|michigan|minnesota|mississippi|missouri|montana|nebraska|nevada|new hampshire|
        new jersey|new mexico|new york|north carolina|north dakota|ohio|oklahoma|oregon|pennsylvania|
        rhode island|south carolina|south dakota|tennessee|texas|utah|vermont|virginia|washington|wisconsin|
        wyoming|los angeles|chicago|houston|phoenix|dallas|philadelphia|san antonio|san diego|austin|san jose|
        columbus|charlotte|indianapolis|san francisco|seattle|denver|nashville|boston|detroit|portland|
        las vegas|memphis|baltimore|milwaukee|atlanta|miami|tampa|minneapolis|cleveland|pittsburgh|cincinnati|
        st louis|salt lake city|thanksgiving|fourth of july""",
    "americas": """americas|america|canada|canadian|toronto|montreal|vancouver|calgary|ottawa|quebec|ontario|alberta|
        mexico|mexican|mexico city|monterrey|guadalajara|brazil|brazilian|sao paulo|rio de janeiro|brasilia|
        argentina|buenos aires|cordoba|chile|chilean|santiago|colombia|colombian|bogota|medellin|peru|lima|
        ecuador|quito|uruguay|montevideo|paraguay|bolivia|venezuela|caracas|panama|costa rica|guatemala|
        honduras|cuba|jamaica|dominican""",
    "european union": """european union|eu|austria|austrian|
        vienna|graz|linz|salzburg|belgium|belgian|brussels|ghent|antwerp|
        bruges|bulgaria|sofia|croatia|zagreb|cyprus|nicosia|czech|prague|brno|denmark|danish|copenhagen|aarhus|
        estonia|tallinn|finland|finnish|helsinki|france|french|paris|lyon|marseille|toulouse|lille|nantes|
        bordeaux|germany|german|berlin|munich|hamburg|cologne|frankfurt|stuttgart|dusseldorf|leipzig|bonn|
        greece|greek|athens|hungary|hungarian|budapest|ireland|irish|dublin|italy|italian|rome|milan|turin|
        naples|florence|latvia|riga|lithuania|vilnius|luxembourg|malta|netherlands|dutch|amsterdam|rotterdam|
        utrecht|the hague|poland|polish|warsaw|krakow|gdansk|wroclaw|portugal|portuguese|lisbon|porto|romania|
        romanian|bucharest|cluj|slovakia|bratislava|slovenia|ljubljana|spain|spanish|madrid|barcelona|valencia|
        seville|sweden|swedish|stockholm|gothenburg|malmo""",
    "europe": """europe|european|united kingdom|uk|britain|british|england|scotland|wales|london|manchester|birmingham|
        leeds|glasgow|edinburgh|switzerland|swiss|zurich|geneva|basel|bern|norway|norwegian|oslo|bergen|iceland|
        reykjavik|serbia|belgrade|ukraine|kyiv|turkey|istanbul|albania|bosnia|moldova""",
    "africa": """africa|african|egypt|egyptian|cairo|nigeria|lagos|abuja|kenya|kenyan|nairobi|south africa|johannesburg|
        cape town|durban|morocco|casablanca|rabat|tunisia|tunis|algeria|algiers|ghana|accra|ethiopia|
        addis ababa|uganda|kampala|tanzania|senegal|dakar|rwanda|kigali|angola|luanda|mozambique|zambia|
        zimbabwe|namibia|botswana""",
    "asia": """asia|asian|china|chinese|beijing|shanghai|shenzhen|hong kong|taiwan|taipei|japan|japanese|tokyo|osaka|
        korea|korean|seoul|busan|india|indian|mumbai|delhi|bangalore|chennai|pune|singapore|malaysia|
        kuala lumpur|thailand|bangkok|vietnam|hanoi|indonesia|jakarta|philippines|manila|pakistan|karachi|
        bangladesh|dhaka|dubai|emirates|abu dhabi|saudi|riyadh|qatar|doha|oman|kuwait|israel|tel aviv|
        kazakhstan""",
    "oceania": "oceania|australia|australian|sydney|melbourne|brisbane|perth|new zealand|auckland|wellington",
}
_WITHIN = {"united states": ("americas",), "european union": ("europe",)}
_PLACES = {
    words(place): region for region, names in _TABLE.items() for place in " ".join(names.split()).split("|")
}
_BY_FIRST = {
    first: [(place, region) for place, region in _PLACES.items() if place[0] == first]
    for first in {place[0] for place in _PLACES}
}


@lru_cache(maxsize=20_000)
def regions(text: str) -> frozenset[str]:
    """The regions of the places a text names, with the wider ones they lie in."""
    said = words(text)
    found = {
        region
        for at, word in enumerate(said)
        for place, region in _BY_FIRST.get(word, ())
        if said[at : at + len(place)] == place
    }
    return frozenset(found | {wider for region in found for wider in _WITHIN.get(region, ())})


@lru_cache(maxsize=4096)
def named_regions(condition: str) -> frozenset[str]:
    """The regions a condition names outright: `employed in europe or africa`."""
    said = spaced(condition)
    return frozenset(region for region in _TABLE if spaced(region) in said)
