"""Tool names in prose: every mention, what is written like a name and is none, and what a trace commits to.

In: texts. Out: (start, end, name) of mentions, found by one automaton over the whole catalog, built once per run.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from ahocorasick_rs import AhoCorasick

from catalog.core.mentions import Mention, NameFinder, stands_alone
from synthesis.core.spellings import Plain, is_title, letters_of

NO_JOINERS: frozenset[str] = frozenset()
LOOKS_LIKE_NAME = re.compile(r"(?<!\w)\w+(?:[.\-]\w+)*/\w+(?:[.\-/&:]\w+)*")
# code is spelt like this, words joined by a slash (and/or, AP/AR, 24/7) are not
CODE_LIKE = re.compile(r"[a-z][A-Z]|_|[a-z]{2}\d")
# a line that is followed by an item of a list goes on, and the number of an item ends nothing
SENTENCE_END = re.compile(r"(?<!\n\d)(?<!\n\d\d)[.!?][\"')\]]*\s+|\n+(?!\s*(?:[-*•]|\d+[.)])\s)")


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
            start, read = _word_around(text, place)
            for match in LOOKS_LIKE_NAME.finditer(text, start, read):
                clear = not any(begin < match.end() and match.start() < end for begin, end, _ in mentions)
                if clear and self._named_like_tool(match.group()):
                    found.append(match.span())
        return found

    def _named_like_tool(self, text: str) -> bool:
        api, _, endpoint = text.partition("/")
        if api.casefold() in self.apis or CODE_LIKE.search(endpoint):
            return True
        return bool(CODE_LIKE.search(api) and "-" in endpoint)


def _word_around(text: str, place: int) -> tuple[int, int]:
    """From the space before to the space behind."""
    end = text.find(" ", place)
    return text.rfind(" ", 0, place) + 1, len(text) if end < 0 else end


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
