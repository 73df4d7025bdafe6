"""Addresses of the net and secrets: e-mail, links that carry credentials, keys, passwords, IP addresses."""

import ipaddress
import re
from collections.abc import Iterator

from catalog.core.scrubbing.spans import Found

_LOCAL = r"(?:\"[^\"]{1,64}\"|[\w+](?:[\w!#$%&'*+/=?^`{|}~.-]*[\w!#$%&*+/=?^`{|}~-])?)"
_HOST = r"(?:[^\W_](?:[\w-]*[^\W_])?\.)+[^\W\d_]{2,24}"
_AT = r"\s*[\[({<]\s*(?:at|@|ät)\s*[\])}>]\s*"
_DOT = r"(?:\s*[\[({<]\s*(?:dot|punkt|\.)\s*[\])}>]\s*|\s+(?:dot|punkt)\s+|\.)"
EMAIL = [
    re.compile(rf"{_LOCAL}\s?[@＠]\s?{_HOST}"),
    re.compile(rf"(?<!\w){_LOCAL}[@＠][\w.\[\]:-]*[^\W\d_][\w-]*(?:\.\w+)*"),
    re.compile(rf"(?<!\w){_LOCAL}{_AT}[\w-]+(?:{_DOT}[\w-]+)+", re.I),
    re.compile(r"(?<!\w)[\w.+-]+\s+at\s+[\w-]+(?:\s+(?:dot|punkt)\s+[\w-]+)+", re.I),
]
LINK = [
    re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/@]*:[^\s/@]*@\S+", re.I),
    re.compile(
        r"\b[a-z][a-z0-9+.-]*://\S*[?&#;](?:[\w-]*(?:token|key|secret|passw|pwd|auth|session|sig)[\w-]*)=\S+",
        re.I,
    ),
]
SECRET = [
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    re.compile(r"\b(?:sk|pk|rk|gh[opsu]|xox[abposr]|AKIA|ASIA|AIza|glpat|hf)[-_]?(?=\w*\d)[\w-]{14,}"),
    re.compile(r"\bbearer\s+(?=\S*\d)([\w.~+/=-]{16,})", re.I),
    re.compile(
        r"\b(?:passwords?|passwd|pwd|passcode|passphrase|pass|pin|otp|api[ _-]?key|secret)(?:\s+code)?"
        r"(?:\s+(?:is|was|=)\s+|\s*[:=]\s*|\s+)[\"']?(?=\S*\d)(?!\d{4}[-/])([^\s,;\"']{3,}[^\s,;\"'.!?])",
        re.I,
    ),
]
IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w])(?!\.\d)")
IPV6 = re.compile(r"(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?:%\w+)?(?![\w:])", re.I)


def emails(text: str) -> Iterator[Found]:
    return _all("e-mail", EMAIL, text)


def links(text: str) -> Iterator[Found]:
    return _all("link", LINK, text)


def secrets(text: str) -> Iterator[Found]:
    return _all("secret", SECRET, text)


def ip_addresses(text: str) -> Iterator[Found]:
    for pattern in (IPV4, IPV6):
        for match in pattern.finditer(text):
            try:
                ipaddress.ip_address(match.group().partition("%")[0])
            except ValueError:
                continue
            yield Found("IP address", match.start(), match.end())


def _all(kind: str, patterns: list[re.Pattern[str]], text: str) -> Iterator[Found]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            group = 1 if pattern.groups else 0
            yield Found(kind, match.start(group), match.end(group))
