"""Words: how names and queries are split and normalised wherever texts are compared."""

import re
from hashlib import sha256

WORD = re.compile(r"[^\W_]+", re.UNICODE)
# lower|Upper, ACRONYM|Word, letter|digit boundaries; "v2" and "Q3" stay whole
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z]{2})(?=\d)|(?<=\d)(?=[A-Z][a-z])")


def plain_words(text: str) -> list[str]:
    """The casefolded words of running text, in order."""
    return WORD.findall(text.casefold())


def name_words(name: str) -> list[str]:
    """The words inside an identifier: `AdyenPayoutV68/post-confirmThirdParty` -> adyen payout v68 post confirm ..."""
    return [hump.casefold() for word in WORD.findall(name) for hump in HUMP.split(word) if hump]


def camel_case(text: str) -> str:
    """`Xero Payroll AU` -> `XeroPayrollAu`."""
    return "".join(word.capitalize() for word in name_words(text))


def text_key(text: str) -> str:
    """One key for texts that differ only in case, spacing and punctuation."""
    return sha256(" ".join(plain_words(text)).encode()).hexdigest()
