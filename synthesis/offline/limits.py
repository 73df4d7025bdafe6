"""Limits in a condition (`in 2024 or later`, `above one million`, `after the third workday`, `in europe`), and on which
side of them a query lies.

In: a condition and a query. Out: +1 the query keeps the limit, -1 it breaks it, 0 nothing to compare.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from synthesis.core.words import spaced, words

# Where a place lies: countries, their people's adjectives and large cities by region, as a person reads them.
#
# In: a text. Out: the regions of the places it names. The table is general knowledge, not complete: a place it does not
# know decides nothing.


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


MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_SMALL = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINAL = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"]
_SCALE = {
    "hundred": 100,
    "thousand": 1_000,
    "k": 1_000,
    "million": 1_000_000,
    "m": 1_000_000,
    "mio": 1_000_000,
}
VALUE = {word: n for n, word in enumerate(_SMALL, 1)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
DATE = re.compile(
    rf"\b(?P<year>(?:19|20)\d\d)[-/.](?P<month>0?[1-9]|1[0-2])\b|\b(?P<month2>0?[1-9]|1[0-2])[-/.](?P<year2>(?:19|20)\d\d)\b"
    rf"|\b(?:(?P<name>{_MONTH})\s+(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s+)?)?(?P<year3>(?:19|20)\d\d)\b|\bfy\s?'?(?P<short>\d\d)\b",
    re.IGNORECASE,
)
LATER = re.compile(
    r"\b(?:or|and)\s(?:later|after|newer)|\bonwards?\b|\b(?:since|from|after|as\sof|starting)\b",
    re.IGNORECASE,
)
EARLIER = re.compile(
    r"\b(?:or|and)\s(?:earlier|before|older)|\b(?:before|until|up\sto|prior\sto|till)\b", re.IGNORECASE
)
ABOVE = re.compile(
    r"\b(?:above|over|exceed\w*|more\sthan|greater\sthan|beyond)\s+(?P<rest>.+)", re.IGNORECASE
)
BELOW = re.compile(r"\b(?:below|under|less\sthan|up\sto|at\smost)\s+(?P<rest>.+)", re.IGNORECASE)
AMOUNT = re.compile(
    r"(?<![\w.])(?P<digits>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s?(?P<scale>k|m|mio|thousand|million)?\b(?!\s?%)",
    re.IGNORECASE,
)
NUMBER_WORDS = re.compile(
    rf"\b(?:{'|'.join([*VALUE, *_SCALE])})(?:[\s-]+(?:and\s)?(?:{'|'.join([*VALUE, *_SCALE])}))*\b"
)
WORKDAY = re.compile(
    rf"\b(?:(?P<nth>{'|'.join(_ORDINAL)}|\d(?:st|nd|rd|th))\s(?:work(?:ing)?\s?)?day|(?:work(?:ing)?\s?day|wd)\s?(?P<day>\d+))\b",
    re.IGNORECASE,
)


def side(condition: str, query: str) -> int:
    """+1 the query keeps a limit of the condition, -1 it breaks one, 0 nothing to compare."""
    found = {check(condition, query) for check in _checks(condition)}
    return -1 if -1 in found else max(found, default=0)


@lru_cache(maxsize=4096)
def _checks(condition: str) -> tuple[Callable[[str, str], int], ...]:
    """The comparisons that a condition gives an edge for."""
    edges = {
        _dates: dates(condition),
        _amounts: ABOVE.search(condition) or BELOW.search(condition),
        _workdays: _workday(condition) is not None,
        _regions: named_regions(condition),
    }
    return tuple(check for check, edge in edges.items() if edge)


def same_side(condition: str, statement: str) -> int:
    """+1 a statement sets the condition's date limit in the same direction, -1 in the other, 0 not comparable."""
    edges = dates(condition)
    said = dates(statement) if edges else ()
    if not said or not {year for year, _ in edges} & {year for year, _ in said}:
        return 0
    here, there = _direction(condition), _direction(statement)
    return 0 if not here or not there else 1 if here == there else -1


def _direction(text: str) -> int:
    earlier, later = EARLIER.search(text) is not None, LATER.search(text) is not None
    return 0 if earlier == later else -1 if earlier else 1


@lru_cache(maxsize=20_000)
def dates(text: str) -> tuple[tuple[int, int], ...]:
    """(year, month) of each date, month 0 where only a year is said."""
    found = []
    for match in DATE.finditer(text):
        part = match.groupdict()
        if part["short"]:
            found.append((2000 + int(part["short"]), 0))
            continue
        month = part["month"] or part["month2"] or 0
        if part["name"]:
            month = MONTHS.index(part["name"][:3].lower()) + 1
        found.append((int(part["year"] or part["year2"] or part["year3"]), int(month)))
    return tuple(found)


def _dates(condition: str, query: str) -> int:
    edges, said = dates(condition), dates(query)
    if not edges or not said:
        return 0
    edge = edges[0]
    if EARLIER.search(condition):
        inclusive = re.search(r"\bor\searlier|up\sto|until", condition) is not None
        return 1 if _before(said[0], edge, inclusive) else -1
    if LATER.search(condition):
        return -1 if _before(said[0], edge, inclusive=False) else 1
    return 1 if any(date[0] == edge[0] for date in said) else -1


def _before(date: tuple[int, int], edge: tuple[int, int], inclusive: bool) -> bool:
    if not date[1] or not edge[1]:
        return date[0] <= edge[0] if inclusive else date[0] < edge[0]
    return date <= edge if inclusive else date < edge


def _amounts(condition: str, query: str) -> int:
    compared: list[tuple[re.Pattern[str], Callable[[float, float], bool]]] = [
        (ABOVE, lambda amount, edge: amount > edge),
        (BELOW, lambda amount, edge: amount <= edge),
    ]
    for wording, keeps in compared:
        if match := wording.search(condition):
            edges, said = _numbers(match["rest"]), _numbers(query)
            if edges and edges[0] >= 1_000 and said:
                return 1 if any(keeps(amount, edges[0]) for amount in said) else -1
    return 0


@lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[float, ...]:
    """Amounts: with a scale, with thousands marked, or in words; a bare number may be anything."""
    found = []
    for match in AMOUNT.finditer(text):
        digits, scale = match["digits"], match["scale"]
        if scale or "," in digits:
            found.append(float(digits.replace(",", "")) * _SCALE.get((scale or "").lower(), 1))
    for match in NUMBER_WORDS.finditer(text.casefold()):
        value = spelled(match.group())
        if value >= 1_000:
            found.append(value)
    return tuple(found)


def spelled(text: str) -> float:
    """`two hundred fifty thousand` -> 250000."""
    total = part = 0.0
    for word in re.findall(r"[a-z]+", text):
        if word in VALUE:
            part += VALUE[word]
        elif word == "hundred":
            part = (part or 1) * 100
        elif word in _SCALE:
            total, part = total + (part or 1) * _SCALE[word], 0.0
    return total + part


def _workdays(condition: str, query: str) -> int:
    edge, said = _workday(condition), _workday(query)
    if edge is None or said is None or not re.search(r"\b(?:after|from)\b", condition):
        return 0
    return 1 if said > edge else -1


@lru_cache(maxsize=4096)
def _workday(text: str) -> int | None:
    """The number of the workday that a text names."""
    match = WORKDAY.search(text)
    if not match:
        return None
    nth = (match["nth"] or "").lower()
    return _ORDINAL.index(nth) + 1 if nth in _ORDINAL else int(re.sub(r"\D", "", nth or match["day"]))


def _regions(condition: str, query: str) -> int:
    wanted = named_regions(condition)
    said = regions(query)
    if not wanted or not said:
        return 0
    return 1 if wanted & said else -1
