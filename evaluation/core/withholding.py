"""Which tools a caller may be given, and their names taken out of what a model wrote.

A tool that needs some permission is given to who holds at least one of those it names; one that needs none, to
everybody. What a caller holds is a set, or None: everything. In: what a token holds and what the call names. Out: what
counts. A call can only narrow its token: what it leaves out is the token's, never everything.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable
from copy import copy

from catalog.core.mentions import stands_alone

WITHHELD = "[withheld]"
WORD = re.compile(r"\w+")
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

    `feed` gives what no later piece can turn into a name; `rest` the remainder. Whole names only, the longest where
    names contain each other, as everywhere; capitals make no difference.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names: defaultdict[str, list[str]] = defaultdict(list)  # by their first word, the longest first
        for name in sorted(map(str.lower, names), key=len, reverse=True):
            if first := WORD.search(name):
                self.names[first.group()].append(name[first.start() :])
        self.firsts = sorted(self.names)
        self.waiting = ""
        self.before = ""  # the last two characters given away: they may belong to a longer word

    def anew(self) -> "Redaction":
        """The same names for another text."""
        other = copy(self)
        other.waiting = other.before = ""
        return other

    def feed(self, text: str) -> str:
        self.waiting += text
        return self._taken(is_last=False)

    def rest(self) -> str:
        return self._taken(is_last=True)

    def whole(self, text: str) -> str:
        """A text that came in one piece."""
        return self.feed(text) + self.rest()

    def _taken(self, *, is_last: bool) -> str:
        text = self.before + self.waiting
        # one by one: a few capitals have no lower form of one character, and stay
        lower = "".join(low if len(low := one.lower()) == 1 else one for one in text)
        at = shown = len(self.before)
        pieces: list[str] = []
        while word := WORD.search(lower, at):
            if not is_last and word.end() == len(lower) and self._may_begin(word.group()):
                at = word.start()
                break
            name, undecided = self._name_at(text, lower, word, is_last)
            if undecided:
                at = word.start()
                break
            if name:
                pieces += [text[shown : word.start()], WITHHELD]
                shown = at = word.start() + len(name)
            else:
                at = word.end()
        else:
            at = len(text)
        pieces.append(text[shown:at])
        self.waiting, self.before = text[at:], text[max(0, at - 2) : at]
        return "".join(pieces)

    def _may_begin(self, part: str) -> bool:
        place = bisect_left(self.firsts, part)
        return place < len(self.firsts) and self.firsts[place].startswith(part)

    def _name_at(self, text: str, lower: str, word: re.Match[str], is_last: bool) -> tuple[str, bool]:
        """The name that begins here, or ""; and whether more text may still decide."""
        tail = lower[word.start() :]
        for name in self.names.get(word.group(), ()):
            # two more characters say whether the word goes on beyond a joiner
            if not is_last and (
                name.startswith(tail) or (tail.startswith(name) and len(tail) < len(name) + 2)
            ):
                return "", True
            if tail.startswith(name) and stands_alone(text, word.start(), word.start() + len(name)):
                return name, False
        return "", False
