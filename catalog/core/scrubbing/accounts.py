"""Account and card numbers: IBANs (ISO 13616 lengths) and payment cards (Luhn)."""

import re
from collections.abc import Iterator

from stdnum import iban, luhn

from catalog.core.scrubbing.spans import Found

# characters of an IBAN: the countries whose has so many
_COUNTRIES = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
LENGTHS = {code: length for length, codes in _COUNTRIES.items() for code in codes.split()}
DIGITS = 10  # a mistyped IBAN is personal too: after its country it has at least so many
IBAN_START = re.compile(r"(?<![^\W\d_])([A-Z]{2})[\s./-]?(\d[\s./-]?\d)", re.I)
SEPARATORS = " \t\u00a0\u2009\u202f./-_"
CARD_RUN = re.compile(r"(?<!\d)\d(?:[\s\u00a0./_-]{0,3}\d){12,30}(?!\d)")
BOOK = re.compile(r"\bisbn\W*$", re.I)
GROUP = re.compile(r"\d+")


def ibans(text: str) -> Iterator[Found]:
    for match in IBAN_START.finditer(text):
        length = LENGTHS.get(match[1].upper())
        end = _end_of(text, match.start(), length) if length else None
        if end is None:
            continue
        digits = sum(letter.isdigit() for letter in text[match.end() : end])
        joined = text[match.start() + 2].isdigit()  # "at 20 ..." is no country
        if (joined and digits >= DIGITS) or iban.is_valid(_letters(text[match.start() : end])):
            yield Found("IBAN", match.start(), end)


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
            return None
    return None


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def cards(text: str) -> Iterator[Found]:
    """13 to 19 digits whose check digit is right, also inside a longer row of groups."""
    for run in CARD_RUN.finditer(text):
        if BOOK.search(text[: run.start()]):
            continue
        groups = [(run.start() + g.start(), run.start() + g.end()) for g in GROUP.finditer(run.group())]
        for first in range(len(groups)):
            for last in range(len(groups) - 1, first - 1, -1):
                digits = "".join(text[start:end] for start, end in groups[first : last + 1])
                if 13 <= len(digits) <= 19 and len(set(digits)) > 1 and luhn.is_valid(digits):
                    yield Found("card", groups[first][0], groups[last][1])
