"""What points at a person and has a form: ids, accounts, cards, addresses of the net, secrets, phones, births.

In: a text on one line. Out: pieces of it; they may overlap.
"""

import importlib
import ipaddress
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, product
from typing import Any

import phonenumbers
from phonenumbers import Leniency, PhoneNumberMatcher
from stdnum import iban, numdb

# kind -> what is written instead; a kind named first wins where two overlap
STAND_INS = {
    "link": "[link]",
    "e-mail": "[e-mail]",
    "IBAN": "[IBAN]",
    "card": "[card]",
    "secret": "[secret]",
    "IP address": "[IP address]",
    "id number": "[id number]",
    "date of birth": "[date of birth]",
    "employee number": "[employee number]",
    "phone": "[phone]",
    "name": "[name]",
}


@dataclass(frozen=True, slots=True)
class PersonalSpan:
    """text[start:end] is personal; offsets in characters."""

    kind: str
    start: int
    end: int

    @property
    def stand_in(self) -> str:
        return STAND_INS[self.kind]


SSN = re.compile(r"(?<![\w-])\d{3}[- ]\d{2}[- ]\d{4}(?![\w-])")
NINO = re.compile(r"(?<!\w)[A-Z]{2}[ -]?\d\d[ -]?\d\d[ -]?\d\d[ -]?[A-D](?!\w)", re.I)
# python-stdnum's checks, each behind the shape in which it may stand alone
CHECKED: list[tuple[str, str]] = [
    ("it.codicefiscale", r"[A-Z]{6}[ ]?\d{2}[A-Z]\d{2}[ ]?[A-Z]\d{3}[A-Z]"),
    ("es.dni", r"\d{8}[ -]?[A-Z]"),
    ("es.nie", r"[XYZ][ -]?\d{7}[ -]?[A-Z]"),
    ("fr.nir", r"[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}"),
    ("pl.pesel", r"\d{11}"),
    ("de.idnr", r"\d{2} ?\d{3} ?\d{3} ?\d{3}"),
    ("ch.ssn", r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}"),
    ("br.cpf", r"\d{3}\.\d{3}\.\d{3}-\d{2}"),
    ("in_.aadhaar", r"\d{4}[ -]\d{4}[ -]\d{4}"),
    ("in_.pan", r"[A-Z]{5}\d{4}[A-Z]"),
    ("se.personnummer", r"(?:\d{2})?\d{6}[-+]\d{4}"),
    ("dk.cpr", r"\d{6}-\d{4}"),
    ("fi.hetu", r"\d{6}[-+A]\d{3}[0-9A-Y]"),
    ("no.fodselsnummer", r"\d{6} ?\d{5}"),
    ("be.nn", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"),
    ("cn.ric", r"\d{17}[\dX]"),
    ("ca.sin", r"\d{3}[ -]\d{3}[ -]\d{3}"),
    ("ro.cnp", r"\d{13}"),
    ("kr.rrn", r"\d{6}-\d{7}"),
    ("mx.curp", r"[A-Z]{4}\d{6}[A-Z]{6}[A-Z\d]\d"),
    ("tr.tckimlik", r"\d{11}"),
    ("za.idnr", r"\d{13}"),
    ("ie.pps", r"\d{7}[A-W][A-IW]?"),
]
_JOIN = (
    r"(?:\s+(?:number|num|no|nr|id|is|was|code|card|of|my|his|her|their|the|ends?|starts?|with)\b\.?){0,8}"
    r"\s*[:#=.]?\s*"
)
# the first group holds a digit, all of it at least four, and only groups with a digit follow a blank
_TOKEN = (
    r"((?=[A-Z]{0,4}[./-]?\d)(?=(?:[A-Z ./-]*\d){4})[A-Z0-9](?:[./-]?[A-Z0-9]|\s(?=[A-Z0-9]*\d)[A-Z0-9]){4,24})"
    r"(?!\w)"
)
SAID = re.compile(
    r"\b(?:ssn|sozialversicherungsnummer|social\s+security|social\s+insurance|national\s+id(?:entity|entification)?|"
    r"nat(?:ional)?\.?\s+insurance|ni|nino|identity\s+card|id\s+card|government\s+id|passport|residence\s+permit|"
    r"work\s+permit|driv(?:er'?s?|ing)\s+licen[cs]e|tax(?:payer)?\s+id(?:entification)?|personal\s+tax|itin|tin|"
    r"steuer-?id|aadhaar|pesel|bsn|cpf|curp|dni|nie|nif|nir|personnummer|cpr|hetu|ahv|codice\s+fiscale|fiscal\s+code|"
    r"nhs|medicare|medicaid|(?:health\s+)?insurance\s+(?:number|no|id))\b" + _JOIN + _TOKEN,
    re.I,
)
EMPLOYEE = [
    re.compile(
        r"\b(?:employees?|emp|personnel|staff|workers?|worker|badge|payroll|pers|person|associate|clock|user)\b\.?"
        r"(?:[\s/-]*(?:id|no|nr|num|number|code|#)\b\.?|\s*#)(?:\s+is\b)?\s*[:#=]?\s*"
        r"([A-Z]{0,4}[-_]?\d(?:[-_./]?\w){1,15})(?!\w)",
        re.I,
    ),
    re.compile(
        r"\b(?:employees?|emp|personnel|pers|staff|workers?|badge|associate)\b\.?\s+"
        r"(?!(?:19|20)\d{2}\b)([A-Z]{0,3}-?\d{4,12})\b(?![.,]\d|\s?(?:eur|usd|gbp|%|hours|days))",
        re.I,
    ),
    re.compile(r"(?<!\w)((?:EMP|EMPL|EE|PERNR|WD|PN)[-_]?\d{3,12})(?!\w)", re.I),
]
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = (
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/. ]+\d{1,2}[-/. ]+\d{2,4}"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{2,4}})?"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{2,4}})?|\d{{6}}(?:\d{{2}})?)"
)
BORN = re.compile(
    r"\b(?:born|d\.?\s?o\.?\s?b|date\s+of\s+birth|birth\s?date|birth\s?day|b'?day|geb(?:oren|\.)?|geburtsdatum|"
    rf"n[ée]e?|nacid[oa]|nat[oa])\b\.?(?:\s+(?:on|is|was|the|am|le|el|il|in)\b)*\s*[:=]?\s*({_DATE})(?!\d)",
    re.I,
)


@cache
def _checks() -> list[tuple[re.Pattern[str], Any]]:
    around = r"(?<![\w.,-])%s(?![\w-]|[.,]\d)"
    modules = {name: importlib.import_module(f"stdnum.{name}") for name, _ in CHECKED}
    return [(re.compile(around % shape, re.I), modules[name]) for name, shape in CHECKED]


def checked_ids(text: str) -> Iterator[PersonalSpan]:
    if any(letter.isdigit() for letter in text):
        for pattern, module in _checks():
            for match in pattern.finditer(text):
                if module.is_valid(match.group()):
                    yield PersonalSpan("id number", match.start(), match.end())


# characters of an IBAN, by country (ISO 13616)
LENGTHS = {
    country: 4 + sum(map(int, re.findall(r"\d+", facts["bban"])))
    for _, country, _, facts, _ in numdb.get("iban").prefixes
}
DIGITS = 10  # a mistyped IBAN is personal too: after its country it has at least so many
IBAN_START = re.compile(r"(?<![^\W\d_])([A-Z]{2})[\s./-]?(\d[\s./-]?\d)", re.I)
SEPARATORS = " \t\u00a0\u2009\u202f./-_"
CARD_RUN = re.compile(r"(?<!\d)\d(?:[\s\u00a0./_-]{0,3}\d){12,30}(?!\d)")
BOOK = re.compile(r"\bisbn\W*$", re.I)
NEAR = 60  # characters before a number in which words that explain it stand
TWICE = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)  # what a digit that counts twice adds to a check sum


def ibans(text: str) -> Iterator[PersonalSpan]:
    for match in IBAN_START.finditer(text):
        length = LENGTHS.get(match[1].upper())
        end = _end_of(text, match.start(), length) if length else None
        if end is None:
            continue
        digits = sum(letter.isdigit() for letter in text[match.end() : end])
        joined = text[match.start() + 2].isdigit()  # "at 20 ..." is no country
        letters = "".join(letter for letter in text[match.start() : end] if letter.isalnum())
        if (joined and digits >= DIGITS) or iban.is_valid(letters):
            yield PersonalSpan("IBAN", match.start(), end)


def _end_of(text: str, start: int, length: int) -> int | None:
    """Where `length` letters and digits from `start` on end, with at most two separators between two of them."""
    count = gap = 0
    for place in range(start, len(text)):
        letter = text[place]
        if letter.isascii() and letter.isalnum():
            count, gap = count + 1, 0
            if count == length:
                return place + 1
        elif letter in SEPARATORS and gap < 2:
            gap += 1
        else:
            break
    return None


def cards(text: str) -> Iterator[PersonalSpan]:
    """13 to 19 digits whose check digit is right, also inside a longer row of groups."""
    for run in CARD_RUN.finditer(text):
        if BOOK.search(text, max(0, run.start() - NEAR), run.start()):
            continue
        places = [run.start() + one.start() for one in re.finditer(r"\d", run.group())]
        digits = [int(text[place]) for place in places]
        # check sums of all digits before one, where those at even places count twice, or those at odd ones
        weighed = ([TWICE[one] if at % 2 == odd else one for at, one in enumerate(digits)] for odd in (0, 1))
        sums = [list(accumulate(of, initial=0)) for of in weighed]
        ends = [at for at, place in enumerate(places[1:], 1) if place > places[at - 1] + 1] + [len(places)]
        for first, end in product([0, *ends], ends):
            fits = 13 <= end - first <= 19 and (sums[end % 2][end] - sums[end % 2][first]) % 10 == 0
            if fits and len(set(digits[first:end])) > 1:
                yield PersonalSpan("card", places[first], places[end - 1] + 1)


# lengths as RFC 5321 bounds them, without which a long word would be read again from each of its letters
_AT = r"\s*[\[({<]\s*(?:at|@|ät)\s*[\])}>]\s*"
_LOCAL = rf"(?:\"[^\"]{{1,64}}\"|[\w+](?:(?:[\w!#$%&'*+/=?^`|}}~.-]|(?!{_AT})[{{]){{0,63}}+(?<!['.]))?)"
_HOST = r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}"
_DOT = r"(?:\s*[\[({<]\s*(?:dot|punkt|\.)\s*[\])}>]\s*|\s+(?:dot|punkt)\s+|\.)"
EMAIL = [
    re.compile(rf"{_LOCAL}\s?[@＠]\s?{_HOST}"),
    re.compile(rf"(?<!\w){_LOCAL}[@＠][\w.\[\]:-]{{0,255}}[^\W\d_][\w-]*(?:\.\w+)*"),
    re.compile(rf"(?<!\w){_LOCAL}{_AT}[\w-]+(?:{_DOT}[\w-]+)+", re.I),
    re.compile(r"(?<!\w)[\w.+-]{1,64}\s+at\s+[\w-]+(?:\s+(?:dot|punkt)\s+[\w-]+)+", re.I),
]
_PARAMETER = r"[?&#;](?=[\w-]*(?:token|key|secret|passw|pwd|auth|session|sig))[\w-]++=(?=\S)"
LINK = [
    re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@]*+:[^\s/@]*+@\S+", re.I),
    # one without a secret is read once to its end, and not again from each address inside it
    re.compile(
        rf"(\b[a-z][a-z0-9+.-]{{0,30}}://(?:[^\s?&#;]++|(?!{_PARAMETER})\S)*+{_PARAMETER}\S+)"
        r"|\b[a-z][a-z0-9+.-]{0,30}://\S+",
        re.I,
    ),
]
SECRET = [
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    re.compile(r"\b(?:sk|pk|rk|gh[opsu]|xox[abposr]|AKIA|ASIA|AIza|glpat|hf)[-_]?(?=\w*\d)[\w-]{14,}"),
    re.compile(r"\bbearer\s+(?=\S*\d)([\w.~+/=-]{16,})", re.I),
    re.compile(
        r"\b(?:passwords?|passwd|pwd|passcode|passphrase|pass|pin|otp|api[ _-]?key|secret)(?:\s+code)?"
        r"(?:\s+(?:is|was|=)\s+|\s*[:=]\s*|\s+)[\"']?(?=\S{0,100}\d)(?!\d{4}[-/])([^\s,;\"']{3,}[^\s,;\"'.!?])",
        re.I,
    ),
]
IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w])(?!\.\d)")
IPV6 = re.compile(r"(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?:%\w+)?(?![\w:])", re.I)


# kind -> patterns; what is personal is the first group of one, or all of it; a match without its first group is none
PATTERNS = {
    "link": LINK,
    "e-mail": EMAIL,
    "secret": SECRET,
    "id number": [SSN, NINO, SAID],
    "date of birth": [BORN],
    "employee number": EMPLOYEE,
}


def patterned(text: str) -> Iterator[PersonalSpan]:
    for kind, patterns in PATTERNS.items():
        for pattern in patterns:
            for match in pattern.finditer(text):
                start, end = match.span(min(pattern.groups, 1))
                if start >= 0:
                    yield PersonalSpan(kind, start, end)


def ip_addresses(text: str) -> Iterator[PersonalSpan]:
    for pattern in (IPV4, IPV6):
        for match in pattern.finditer(text):
            try:
                ipaddress.ip_address(match.group().partition("%")[0])
            except ValueError:
                continue
            yield PersonalSpan("IP address", match.start(), match.end())


_EXTENSION = r"(?:\s*(?:x|ext\.?|extension|durchwahl|-)\s?\d{1,6})?"
INTERNATIONAL = re.compile(
    rf"(?<![\w+])(?:\+|00|011)\s?\d(?:[\s()./-]{{0,3}}\d){{6,14}}{_EXTENSION}(?!\w)", re.I
)
AMERICAN = re.compile(
    rf"(?<![\w-])(?:1[ .-]?)?(?:\(\d{{3}}\)\s?[-.]?\s?|\d{{3}}[ ./-])\d{{3}}[ .-]?\d{{4}}{_EXTENSION}(?![\w-])",
    re.I,
)
LEADING_ZERO = re.compile(r"(?<![\w.,/#-])\(?0\d?(?:[ ./()-]{0,3}\d){7,12}(?!\w)")
BARE = re.compile(r"(?<![\w.,/#-])[2-9]\d{9}(?!\w|[.,]\d)")
# the text says that a number is one; a few words may stand between
PHONE_SAID = re.compile(
    r"\b(?:phone|telephone|tele?|mobile|mob|cell|handy|fax|whatsapp|signal|sms|landline|hotline|direct line|"
    r"call(?:\s+back)?|dial|text|ring|reach|ping|tel\.?|ph\.?)\b\.?"
    r"(?:\s+(?:me|him|her|us|them|back|at|on|under|is|no|nr|number|num|phone|cell|mobile|the|my|his|work|home|to)\b\.?){0,8}"
    r"\s*[:#=]?\s*(\(?\d(?:[\s()./-]{0,3}\d){5,14})(?!\w)",
    re.I,
)
DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})\b(?![./-]\d)|\d{4}[./-]\d{1,2}[./-]\d{1,2}\b")
YEAR = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](?:19|20)\d\d\b|(?:19|20)\d\d[./-]\d{1,2}[./-]\d{1,2}\b")
DOCUMENT = re.compile(
    r"(?:\b(?:orders?|invoices?|inv|bills?|po|so|pr|document|doc|material|item|batch|contract|asset|vendor|supplier|"
    r"customer|cust|account|acct|acc|ref|reference|ticket|case|claim|journal|je|entry|receipt|delivery|shipment|"
    r"project|cost cent(?:er|re)|payment|credit note|memo|requisition|quote|lot|serial|sku|number|no|nr|id)s?\b\.?"
    r"|#)[\s:#.]*$",
    re.I,
)
AMOUNT_AFTER = re.compile(r"\s?(?:[$€£¥%]|eur|usd|gbp|chf|pln|dkk|nok|sek|inr|kr|units?|pcs|k\b)", re.I)
AMOUNT_BEFORE = re.compile(r"(?:[$€£¥]|eur|usd|gbp|chf|pln|dkk|nok|sek|inr)\s?$", re.I)
# countries whose written form with neither + nor a leading 0 is told by its groups
GROUPED = ("US", "ES", "PL", "IN", "BR", "PT", "CN", "MX", "CZ", "NO", "DK", "GR")
ZERO = ["GB", "DE", "FR", "IT", "NL", "BE", "AT", "CH", "IE", "SE", "FI", "AU", "NZ", "JP", "IN", "TR", "ZA"]
ZERO += ["RO", "NG"]


NINE_DIGITS = re.compile(r"\d(?:[^\w,]{0,4}\d){8}")
NINE_OR_MORE = re.compile(rf"{NINE_DIGITS.pattern}(?:[^\w,]{{0,4}}\d)*+")
# what looks like a number is checked against many countries, which is dear; of more than these all are masked
MOST_TRIES = 12
# of what may be a number and is none, a date or an amount, for each country; what is shorter costs no try
MOST_FAILURES, SHORTEST = 30, 10


def phones(text: str) -> Iterator[PersonalSpan]:
    matches = [one for one in INTERNATIONAL.finditer(text) if one[0].startswith("+") or _possible(one[0])]
    matches += [one for one in AMERICAN.finditer(text) if not DATE.match(one[0])]
    zeros = (one for one in LEADING_ZERO.finditer(text) if not DATE.match(one[0].lstrip("(")))
    matches += [one for at, one in enumerate(zeros) if at >= MOST_TRIES or _valid(one[0], ZERO)]
    bare = (one for one in BARE.finditer(text) if not DOCUMENT.search(text[: one.start()][-NEAR:]))
    matches += [one for at, one in enumerate(bare) if at >= MOST_TRIES or _valid(one[0], ("US", "GB"))]
    for match in matches:
        yield PersonalSpan("phone", match.start(), match.end())
    for match in PHONE_SAID.finditer(text):
        if not YEAR.match(match[1]):
            yield PersonalSpan("phone", match.start(1), match.end(1))
    long = len(NINE_DIGITS.findall(text))
    if long > MOST_TRIES:
        yield from (PersonalSpan("phone", *one.span()) for one in NINE_OR_MORE.finditer(text))
    elif long:
        for region in GROUPED:
            for found in PhoneNumberMatcher(text, region, Leniency.STRICT_GROUPING, MOST_FAILURES, SHORTEST):
                said = found.raw_string
                digits = sum(letter.isdigit() for letter in said)
                grouped = re.search(r"\d[\s().-]+\d", said) is not None
                # a number with a currency or a document's word beside it is an amount
                before, after = text[max(0, found.start - NEAR) : found.start], text[found.end :]
                amount = AMOUNT_AFTER.match(after) or AMOUNT_BEFORE.search(before) or DOCUMENT.search(before)
                if digits >= 9 and grouped and not amount:
                    yield PersonalSpan("phone", found.start, found.end)


def _valid(text: str, regions: Iterable[str]) -> bool:
    for region in regions:
        try:
            if phonenumbers.is_valid_number(phonenumbers.parse(text, region)):
                return True
        except phonenumbers.NumberParseException:
            continue
    return False


def _possible(text: str) -> bool:
    """An international number that is dialled with zeros."""
    digits = re.sub(r"\D", "", text)
    try:
        return phonenumbers.is_possible_number(phonenumbers.parse(f"+{re.sub('^(?:011|00)', '', digits)}"))
    except phonenumbers.NumberParseException:
        return False
