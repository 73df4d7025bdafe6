"""Which tools a text names: full names with word boundaries, found in one pass over the text."""

from collections.abc import Iterable

from ahocorasick_rs import AhoCorasick

from catalog.core.tokens import JOINERS


class ToolMentions:
    """An automaton over all tool names; build it once per catalog."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(names)
        self._automaton = AhoCorasick(self._names) if self._names else None

    def find(self, text: str) -> list[str]:
        """The names in the order of their first mention."""
        return list(dict.fromkeys(name for name, _, _ in self.spans(text)))

    def spans(self, text: str) -> list[tuple[str, int, int]]:
        """Every mention as (name, start, end), from left to right; of overlapping names the leftmost longest."""
        if self._automaton is None:
            return []
        matches = self._automaton.find_matches_as_indexes(text, overlapping=True)
        found: list[tuple[str, int, int]] = []
        end = 0
        for index, start, stop in sorted(matches, key=lambda match: (match[1], -match[2])):
            if start >= end and stands_alone(text, start, stop):
                found.append((self._names[index], start, stop))
                end = stop
        return found


def stands_alone(text: str, start: int, stop: int) -> bool:
    """Whether text[start:stop] is no part of a longer name."""
    return not (_goes_on(text, start - 1, -1) or _goes_on(text, stop, 1))


def _goes_on(text: str, place: int, step: int) -> bool:
    if not 0 <= place < len(text):
        return False
    char, beyond = text[place], place + step
    if char.isalnum() or char == "_":
        return True
    follows = 0 <= beyond < len(text) and (text[beyond].isalnum() or text[beyond] == "_")
    return char in JOINERS and follows
