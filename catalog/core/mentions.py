"""Where a text names tools: the one place that finds names, used by tokens, rules and filters alike.

In: the names, then any number of texts. Out: (start, end, name) from left to right, whole names only, the longest
where names contain each other; one automaton pass a text, however many names there are.
"""

from collections.abc import Iterable
from operator import itemgetter
from unicodedata import category

from ahocorasick_rs import AhoCorasick

from trace_site.lib.letters import BARE

# these continue a name only when a letter or digit follows: "get." ends a sentence, "get.v2" is another name
JOINERS = frozenset(".-/&:")

Mention = tuple[int, int, str]


class NameFinder:
    """An automaton over names; build it once per catalog. `joiners` may continue a name (see JOINERS)."""

    def __init__(self, names: Iterable[str], joiners: frozenset[str] = JOINERS) -> None:
        self.names = sorted(set(names))
        self._joiners = joiners
        self._automaton = AhoCorasick(self.names) if self.names else None

    def find(self, text: str) -> list[Mention]:
        if self._automaton is None:
            return []
        matches = self._automaton.find_matches_as_indexes(text, overlapping=True)
        # they come by their ends: by start, the longest first, after this
        matches.reverse()
        matches.sort(key=itemgetter(1))
        found: list[Mention] = []
        floor = 0
        for number, start, end in matches:
            if start >= floor and stands_alone(text, start, end, self._joiners):
                found.append((start, end, self.names[number]))
                floor = end
        return found


def stands_alone(text: str, start: int, end: int, joiners: frozenset[str] = JOINERS) -> bool:
    """Whether text[start:end] is no part of a longer name."""
    before = start
    while before > 1 and _is_mark(text[before - 1]):
        before -= 1
    if start > 0 and _goes_on(text, before - 1, before - 2, joiners):
        return False
    if end < len(text) and _is_mark(text[end]):
        return False
    return end >= len(text) or not _goes_on(text, end, end + 1, joiners)


def _goes_on(text: str, place: int, beyond: int, joiners: frozenset[str]) -> bool:
    """Whether the character at `place` makes a longer word; a joiner does when the word goes on `beyond` it."""
    char = text[place]
    if char in joiners:
        return 0 <= beyond < len(text) and _in_word(text[beyond])
    return _in_word(char)


def _is_mark(char: str) -> bool:
    """Whether it belongs to the letter before it."""
    return not char.isascii() and category(char)[0] == "M"


def _in_word(char: str) -> bool:
    """A script without spaces may go on after a name."""
    return char == "_" or (char.isalnum() and (char.isascii() or not BARE.match(char)))
