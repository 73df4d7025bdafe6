"""Tool names in prose, found by one automaton over the whole catalog.

In: texts. Out: (start, end, name) of every mention, whole names only, the longest where names contain each other.
Built once per run.
"""

import re
from collections.abc import Iterable

from ahocorasick_rs import AhoCorasick

JOINERS = ".-/&:"
LOOKS_LIKE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*/[A-Za-z][\w.\-]*\w")
CAMEL_PAIR = re.compile(r"[a-z][A-Z]|[a-z]\d")
SENTENCE_END = re.compile(r"[.!?][\"')\]]*\s+|\n+")

Mention = tuple[int, int, str]


class ToolNames:
    """Finds the names of a catalog in texts."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(set(names))
        self.known = frozenset(self.names)
        self.apis = frozenset(name.partition("/")[0] for name in self.names)
        self._automaton = AhoCorasick(self.names)

    def mentions(self, text: str) -> list[Mention]:
        """Left to right, not overlapping, the longest at each place."""
        if "/" not in text:
            return []
        found = [
            (start, -end, number)
            for number, start, end in self._automaton.find_matches_as_indexes(text, overlapping=True)
            if _whole(text, start, end)
        ]
        kept: list[Mention] = []
        floor = 0
        for start, negative_end, number in sorted(found):
            if start >= floor:
                floor = -negative_end
                kept.append((start, floor, self.names[number]))
        return kept

    def invented(self, text: str, mentions: list[Mention]) -> list[Mention]:
        """Strings written like a tool name that no tool has."""
        if text.count("/") <= sum(name.count("/") for _, _, name in mentions):
            return []
        spans = [(start, end) for start, end, _ in mentions]
        return [
            (match.start(), match.end(), match.group())
            for match in LOOKS_LIKE_NAME.finditer(text)
            if not any(start < match.end() and match.start() < end for start, end in spans)
            and self._named_like_tool(match.group())
        ]

    def _named_like_tool(self, text: str) -> bool:
        api, _, endpoint = text.partition("/")
        return api in self.apis or bool(CAMEL_PAIR.search(api) and CAMEL_PAIR.search(endpoint))


def last_sentence(text: str, mentions: list[Mention]) -> int:
    """Where the sentence that holds the last mention starts; a dot inside a name ends nothing."""
    if not mentions:
        return len(text)
    ends = [match.span() for match in SENTENCE_END.finditer(text, 0, mentions[-1][0])]
    for dot, start in reversed(ends):
        if not any(begin <= dot < end for begin, end, _ in mentions):
            return start
    return 0


def committed(text: str, mentions: list[Mention]) -> list[str]:
    """The tools a trace commits to: those its last naming sentence names, in order."""
    start = last_sentence(text, mentions)
    return list(dict.fromkeys(name for begin, _, name in mentions if begin >= start))


def _whole(text: str, start: int, end: int) -> bool:
    return not (_joined(text, start - 1, start - 2) or _joined(text, end, end + 1))


def _joined(text: str, at: int, beyond: int) -> bool:
    """Does the character at `at` make the name part of a longer word? A joiner does when the word goes on."""
    if not 0 <= at < len(text):
        return False
    if text[at].isalnum() or text[at] == "_":
        return True
    return text[at] in JOINERS and 0 <= beyond < len(text) and (text[beyond].isalnum() or text[beyond] == "_")
