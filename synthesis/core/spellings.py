"""A text as it reads when case, separators, invisible and look-alike characters do not count.

In: any text. Out: `Plain`: its letters and digits alone, in lower case, each known by its place in the text, so that
`get_payslip`, `GetPayslip`, `get pay-slip` and their full-width or Cyrillic imitations are one string with a real span.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache

from synthesis.core.words import words

RUN = re.compile(r"[^\W_]+")
NOT_ASCII = re.compile(r"[^\x00-\x7f]")
# beyond ASCII, what ordinary typing and typesetting use; a text with nothing else imitates nothing
ODD = re.compile("[^\x00-\x7f\u00a7\u00b0\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026\u20ac\u00a3\u2192]")
LOOK_ALIKE = str.maketrans(
    "авгекмнорстухіјѕһԁԛԝӏАВЕКМНОРСТУХІЈЅԌԚԜ" + "αεικνορτυχγηΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "ıɡɑօոսհ" + "⁄∕╱⧸‐‒−",
    "abrekmhopctyxijshdqwlABEKMHOPCTYXIJSGQW" + "aeikvoptuxynABEZHIKMNOPTYX" + "igaonuh" + "////---",
)
INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters by category, blank to the eye


class Plain:
    """One text, read so. `text` has imitations undone and is what spans are first found in."""

    __slots__ = ("letters", "text", "_back", "_runs", "_starts")

    def __init__(self, original: str) -> None:
        self.text, self._back = _undone(original)
        self._runs: list[int] = []
        self._starts: list[int] = []
        pieces: list[str] = []
        size = 0
        for run in RUN.finditer(self.text):
            self._runs.append(run.start())
            self._starts.append(size)
            pieces.append(run.group())
            size += run.end() - run.start()
        self.letters = "".join(pieces).lower()

    def places(self, letters: str) -> Iterator[tuple[int, int]]:
        """The spans of the original where these letters stand as whole words."""
        at = self.letters.find(letters)
        while at >= 0:
            if span := self.whole(at, at + len(letters)):
                yield span
            at = self.letters.find(letters, at + 1)

    def whole(self, start: int, end: int) -> tuple[int, int] | None:
        """The span of letters[start:end] in the original, or None where it begins or ends inside a word."""
        first, last = self._place(start), self._place(end - 1)
        if _parts(self.text, first) and _parts(self.text, last + 1):
            return self.span(first, last + 1)
        return None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where text[start:end] stands in the original."""
        return self._back[start], self._back[end - 1] + 1

    def _place(self, letter: int) -> int:
        run = bisect_right(self._starts, letter) - 1
        return self._runs[run] + letter - self._starts[run]


def _parts(text: str, at: int) -> bool:
    """Whether a word may begin or end between text[at - 1] and text[at]: a separator, or a hump of camelCase."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    if not (before.isalnum() and after.isalnum()):
        return True
    if not after.isupper():
        return False
    return not before.isupper() or text[at + 1 : at + 2].islower()


def _undone(text: str) -> tuple[str, Sequence[int]]:
    """The text with imitations undone, and for every character of it its place in the original."""
    if text.isascii():
        return text, range(len(text))
    pieces: list[str] = []
    back: list[int] = []
    at = 0
    for match in NOT_ASCII.finditer(text):
        start = match.start()
        plain = _plain_char(match.group())
        pieces += [text[at:start], plain]
        back += range(at, start)
        back += [start] * len(plain)
        at = start + 1
    back += range(at, len(text))
    return "".join([*pieces, text[at:]]), back


@lru_cache(maxsize=4096)
def _plain_char(char: str) -> str:
    kept = (
        part
        for part in unicodedata.normalize("NFKD", char)
        if unicodedata.category(part) not in ("Mn", "Me", "Cf") and part not in INVISIBLE
    )
    return "".join(kept).translate(LOOK_ALIKE)


@lru_cache(maxsize=100_000)
def letters_of(name: str) -> str:
    """A name as `Plain.letters` would hold it."""
    return Plain(name).letters


@lru_cache(maxsize=100_000)
def is_title(name: str) -> bool:
    """Whether it has two or more words; one common word gives nothing away."""
    return len(words(name)) >= 2
