"""Phone numbers: international, by country, and whatever a text calls one."""

import re
from collections.abc import Iterator

import phonenumbers
from phonenumbers import Leniency, PhoneNumberMatcher

from catalog.core.scrubbing.spans import Found

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
SAID = re.compile(
    r"\b(?:phone|telephone|tele?|mobile|mob|cell|handy|fax|whatsapp|signal|sms|landline|hotline|direct line|"
    r"call(?:\s+back)?|dial|text|ring|reach|ping|tel\.?|ph\.?)\b\.?"
    r"(?:\s+(?:me|him|her|us|them|back|at|on|under|is|no|nr|number|num|phone|cell|mobile|the|my|his|work|home|to)\b\.?)*"
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
# countries whose written form with neither + nor a leading 0 is told by its groups
GROUPED = ("US", "ES", "PL", "IN", "BR", "PT", "CN", "MX", "CZ", "NO", "DK", "GR")
ZERO = (
    "GB",
    "DE",
    "FR",
    "IT",
    "NL",
    "BE",
    "AT",
    "CH",
    "IE",
    "SE",
    "FI",
    "AU",
    "NZ",
    "JP",
    "IN",
    "TR",
    "ZA",
    "RO",
    "NG",
)


def phones(text: str) -> Iterator[Found]:
    for match in INTERNATIONAL.finditer(text):
        if match.group().startswith("+") or _possible(match.group()):
            yield _found(match)
    for match in AMERICAN.finditer(text):
        if not DATE.match(match.group()):
            yield _found(match)
    for match in LEADING_ZERO.finditer(text):
        if not DATE.match(match.group().lstrip("(")) and _of_any(match.group(), ZERO):
            yield _found(match)
    for match in BARE.finditer(text):
        if not DOCUMENT.search(text[: match.start()]) and _of_any(match.group(), ("US", "GB")):
            yield _found(match)
    for match in SAID.finditer(text):
        if not YEAR.match(match[1]):
            yield _found(match, 1)
    yield from _grouped(text)


def _grouped(text: str) -> Iterator[Found]:
    if sum(letter.isdigit() for letter in text) < 9:
        return
    for region in GROUPED:
        for match in PhoneNumberMatcher(text, region, leniency=Leniency.STRICT_GROUPING):
            said = match.raw_string
            digits = sum(letter.isdigit() for letter in said)
            grouped = re.search(r"\d[\s().-]+\d", said) is not None
            if digits >= 9 and grouped and not _amount(text, match.start, match.end):
                yield Found("phone", match.start, match.end)


def _amount(text: str, start: int, end: int) -> bool:
    """A number with a currency or a document's word beside it."""
    after = re.match(
        r"\s?(?:[$€£¥%]|eur|usd|gbp|chf|pln|dkk|nok|sek|inr|kr|units?|pcs|k\b)", text[end:], re.I
    )
    before = re.search(r"(?:[$€£¥]|eur|usd|gbp|chf|pln|dkk|nok|sek|inr)\s?$", text[:start], re.I)
    return bool(after or before or DOCUMENT.search(text[:start]))


def _of_any(text: str, regions: tuple[str, ...]) -> bool:
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
    stripped = digits.removeprefix("011") if digits.startswith("011") else digits.removeprefix("00")
    try:
        return phonenumbers.is_possible_number(phonenumbers.parse(f"+{stripped}"))
    except phonenumbers.NumberParseException:
        return False


def _found(match: re.Match[str], group: int = 0) -> Found:
    return Found("phone", match.start(group), match.end(group))
