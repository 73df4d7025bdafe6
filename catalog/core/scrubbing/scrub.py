"""Personal data out of queries, before anything stores them.

In: a text. Out: the text with neutral stand-ins, and what was found where. The findings hold places, not the words:
whoever keeps them keeps nothing personal. No list of patterns is whole: people read what it proposes.
"""

import unicodedata
from collections.abc import Container, Iterable
from dataclasses import dataclass

from catalog.core.scrubbing.identities import (
    STAND_INS,
    PersonalSpan,
    cards,
    checked_ids,
    ibans,
    ip_addresses,
    patterned,
    phones,
)
from catalog.core.scrubbing.people import people

DETECTORS = (patterned, ibans, cards, ip_addresses, checked_ids, phones, people)
ORDER = {kind: place for place, kind in enumerate(STAND_INS)}
DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """`text` is safe to store as far as the detectors see; `found` are places in `plain`, which is not."""

    plain: str
    text: str
    found: tuple[PersonalSpan, ...]

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(one.kind for one in self.found))


def scrub(text: str, spare: Container[str] = ()) -> Scrubbed:
    """`text` on one line, with a stand-in for whatever points at a person, but for the kinds in `spare`."""
    plain = one_line(text)
    found = _apart(one for detect in DETECTORS for one in detect(plain) if one.kind not in spare)
    pieces: list[str] = []
    end = 0
    for one in found:
        pieces += [plain[end : one.start], one.stand_in]
        end = one.end
    return Scrubbed(plain, "".join([*pieces, plain[end:]]), tuple(found))


def one_line(text: str) -> str:
    """Compatibility forms (full-width digits and the like) as plain ones, invisible characters out, blanks single."""
    plain = unicodedata.normalize("NFKC", text.translate(DASHES)).translate(DASHES)
    hidden = ("Cc", "Cf", "Cs", "Co")
    shown = (" " if one.isspace() else "" if unicodedata.category(one) in hidden else one for one in plain)
    return " ".join("".join(shown).split())


def _apart(found: Iterable[PersonalSpan]) -> list[PersonalSpan]:
    """Without overlaps: the kind named first wins, and what is kept grows over whatever overlaps it."""
    kept: list[PersonalSpan] = []
    for one in sorted(found, key=lambda one: (ORDER[one.kind], one.start - one.end, one.start)):
        touched = [other for other in kept if one.start < other.end and other.start < one.end]
        kind = min((other.kind for other in touched), key=ORDER.__getitem__, default=one.kind)
        joined = [*touched, one]
        kept = [other for other in kept if other not in touched]
        kept.append(PersonalSpan(kind, min(each.start for each in joined), max(each.end for each in joined)))
    return sorted(kept, key=lambda one: one.start)
