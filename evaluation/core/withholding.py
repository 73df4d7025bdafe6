"""Which tools a caller may be given, and their names taken out of what a model wrote.

A tool that needs some permission is given to who holds at least one of those it names; one that needs none, to
everybody. What a caller holds is a set, or None: everything. In: what a token holds and what the call names. Out: what
counts. A call can only narrow its token: what it leaves out is the token's, never everything.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from copy import copy

from ahocorasick_rs import AhoCorasick

from catalog.core.tokens import telling_units

WITHHELD = "[withheld]"
Granted = frozenset[str] | None


def granted(held: Granted, asked: Collection[str] | None) -> Granted:
    """What counts for a call: the token's permissions, and of those only the ones that the call names."""
    if asked is None:
        return held
    return frozenset(asked) if held is None else held & frozenset(asked)


def is_withheld(needs: Collection[str], holds: Granted) -> bool:
    return bool(needs) and holds is not None and holds.isdisjoint(needs)


class Redaction:
    """Takes names out of a text that comes in pieces, however the pieces cut it.

    `feed` gives what no later piece can turn into a name; `rest` the remainder. A name is found wherever it stands,
    glued to words as well, and the longest of those that begin at one place; only inside a longer name of `others` it
    is that one's part and stays. Capitals make no difference, nor whether it is written in letters or token strings.
    What a language model spells in tokens is taken out before it is text at all (evaluation.ml.export).
    """

    def __init__(self, names: Iterable[str], others: Iterable[str] = ()) -> None:
        self.hidden = {_lower(text) for name in names for text in (name, "".join(telling_units(name, "b")))}
        finder = AhoCorasick(list(self.hidden)) if self.hidden else None
        around = {name for name in map(_lower, others) if finder and finder.find_matches_as_indexes(name)}
        self.known = sorted(self.hidden | around)
        self.longest = max(map(len, self.known), default=0)
        self.finder = AhoCorasick(self.known) if self.known else None
        self.waiting = ""
        self.kept = 0  # so much of what waits is part of a longer name that stays

    def anew(self) -> "Redaction":
        """The same names for another text."""
        other = copy(self)
        other.waiting, other.kept = "", 0
        return other

    def feed(self, text: str) -> str:
        self.waiting += text
        return self._taken(is_last=False)

    def rest(self) -> str:
        return self._taken(is_last=True)

    def whole(self, text: str) -> str:
        """A text that came in one piece."""
        self.waiting += text
        return self.rest()

    def _taken(self, *, is_last: bool) -> str:
        text, lower = self.waiting, _lower(self.waiting)
        sure = len(text) if is_last else self._undecided(lower)  # every name that begins before it is there
        pieces, at, kept = [], 0, self.kept
        for start, end, name in self._found(lower):
            if start < at or start >= sure or end <= kept:
                continue
            if name in self.hidden:
                pieces += [text[at:start], WITHHELD]
                at = kept = end
            else:
                kept = end
        end = max(at, sure)
        pieces.append(text[at:end])
        self.waiting, self.kept = text[end:], max(0, kept - end)
        return "".join(pieces)

    def _found(self, lower: str) -> list[tuple[int, int, str]]:
        """From left to right, of those that begin at one place the longest first."""
        if self.finder is None:
            return []
        found = self.finder.find_matches_as_indexes(lower, overlapping=True)
        return sorted(
            ((start, end, self.known[number]) for number, start, end in found),
            key=lambda one: (one[0], -one[1]),
        )

    def _undecided(self, lower: str) -> int:
        """Where the longest end of the text begins that is the beginning of a name."""
        for start in range(max(0, len(lower) - self.longest + 1), len(lower)):
            tail = lower[start:]
            place = bisect_right(self.known, tail)
            if place < len(self.known) and self.known[place].startswith(tail):
                return start
        return len(lower)


def _lower(text: str) -> str:
    """One by one: a few capitals have no lower form of one character, and stay."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := one.lower()) == 1 else one for one in text)
