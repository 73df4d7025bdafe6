"""Tool names in prose: every mention, what is written like a name and is none, and what a trace commits to.

In: texts. Out: (start, end, name) of mentions, found by one automaton over the whole catalog, built once per run.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

import regex
from ahocorasick_rs import AhoCorasick

from catalog.core.mentions import Mention, NameFinder, stands_alone
from synthesis.core.words import words
from trace_site.lib.letters import BARE, sentence_end

# A text as it reads when case, separators, invisible and look-alike characters do not count.
#
# In: any text. Out: `Plain`: its letters and digits alone, in lower case, each known by its place in the text, so
# that `get_payslip`, `GetPayslip`, `get pay-slip` and their full-width or Cyrillic imitations are one string with a
# real span.


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
    if BARE.match(before) or BARE.match(after):
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
    """Whether it has two or more words; one common word gives nothing away, and scripts without spaces
    write names as people talk."""
    return len([word for word in words(name) if not BARE.match(word)]) >= 2


NO_JOINERS: frozenset[str] = frozenset()
LOOKS_LIKE_NAME = re.compile(r"(?<!\w)\w+(?:[.\-]\w+)*/\w+(?:[.\-/&:]\w+)*")
# code is spelt like this, words joined by a slash (and/or, AP/AR, 24/7) are not
CODE_LIKE = regex.compile(r"\p{Ll}\p{Lu}|_|\p{Ll}{2}\d")
# a line that is followed by an item of a list goes on, and the number of an item ends nothing
SENTENCE_END = sentence_end(r"(?<!\n\d)(?<!\n\d\d)[.!?][\"')\]]*\s+|\n+(?!\s*(?:[-*•]|\d+[.)])\s)")


class ToolNames:
    """Finds the names of a catalog in texts."""

    def __init__(self, names: Iterable[str]) -> None:
        self._finder = NameFinder(names)
        self.names = self._finder.names
        self.known = frozenset(self.names)

    @cached_property
    def apis(self) -> frozenset[str]:
        return frozenset(name.partition("/")[0].casefold() for name in self.names)

    @cached_property
    def _spelt(self) -> tuple[AhoCorasick, list[str]]:
        """An automaton over the letters of names that no plain words say by chance, and those names."""
        telling = [name for name in self.names if is_title(name.partition("/")[2])]
        return AhoCorasick([letters_of(name) for name in telling] or ["\0"]), telling

    def mentions(self, text: str) -> list[Mention]:
        """Left to right, not overlapping, the longest at each place."""
        return self._finder.find(text) if "/" in text else []

    def spellings(self, plain: Plain) -> list[Mention]:
        """Names in any spelling, with their places in the original text; they may overlap."""
        found = [(*plain.span(start, end), name) for start, end, name in self.mentions(plain.text)]
        automaton, names = self._spelt
        for number, start, end in automaton.find_matches_as_indexes(plain.letters, overlapping=True):
            if span := plain.whole(start, end):
                found.append((*span, names[number]))
        return found

    def invented(self, text: str, mentions: Sequence[Mention]) -> list[tuple[int, int]]:
        """Where something is written like a tool name that no tool has."""
        if text.count("/") == len(mentions):
            return []
        found: list[tuple[int, int]] = []
        read = 0
        for slash in re.finditer("/", text):
            place = slash.start()
            if place < read or within(place, mentions):
                continue
            end = text.find(" ", place)
            start, read = text.rfind(" ", 0, place) + 1, len(text) if end < 0 else end
            for match in LOOKS_LIKE_NAME.finditer(text, start, read):
                api, _, endpoint = match.group().partition("/")
                code = CODE_LIKE.search(endpoint) or (CODE_LIKE.search(api) and "-" in endpoint)
                like_tool = code or api.casefold() in self.apis
                apart = all(match.end() <= begin or end <= match.start() for begin, end, _ in mentions)
                if like_tool and apart:
                    found.append(match.span())
        return found


def whole_words(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Where `word` stands as it is and is no part of a longer word."""
    at = text.find(word) if word else -1
    while at >= 0:
        if stands_alone(text, at, at + len(word), NO_JOINERS):
            yield at, at + len(word)
        at = text.find(word, at + 1)


def within(place: int, mentions: Iterable[Mention]) -> bool:
    """Whether the place lies inside a mention."""
    return any(start <= place < end for start, end, _ in mentions)


def rule_codes(codes: Iterable[str] = ()) -> NameFinder:
    """Finds rule codes of two or more words as they are written; a code of one word may be said by chance."""
    return NameFinder((code for code in codes if is_title(code)), joiners=NO_JOINERS)


def last_sentence(text: str, mentions: Sequence[Mention]) -> int:
    """Where the sentence that holds the last mention starts; a dot inside a name ends nothing."""
    for number in range(len(mentions) - 1, -1, -1):
        before = mentions[number - 1][1] if number else 0
        ends = list(SENTENCE_END.finditer(text, before, mentions[number][0]))
        if ends:
            return ends[-1].end()
    return 0 if mentions else len(text)


def committed(text: str, mentions: Sequence[Mention]) -> list[str]:
    """The tools a trace commits to: those its last naming sentence names, in order."""
    start = last_sentence(text, mentions)
    return list(dict.fromkeys(name for begin, _, name in mentions if begin >= start))
