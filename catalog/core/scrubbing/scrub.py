"""Personal data out of queries, before anything stores them.

In: a text. Out: the text with neutral stand-ins, and what was found where. The findings hold places, not the words:
whoever keeps them keeps nothing personal. No list of patterns is whole: people read what it proposes.
"""

import unicodedata
from collections.abc import Container, Iterable
from dataclasses import dataclass

from catalog.core.scrubbing.identities import (
    births,
    cards,
    emails,
    employee_numbers,
    ibans,
    ip_addresses,
    links,
    national_ids,
    phones,
    secrets,
)
from catalog.core.scrubbing.people import people
from catalog.core.scrubbing.spans import STAND_INS, Detector, Found

DETECTORS: tuple[Detector, ...] = (
    links, emails, secrets, ibans, cards, ip_addresses, national_ids, births, employee_numbers, phones, people
)  # fmt: skip
ORDER = {kind: place for place, kind in enumerate(STAND_INS)}
DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """`text` is safe to store as far as the detectors see; `found` are places in `plain`, which is not."""

    plain: str
    text: str
    found: tuple[Found, ...]

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
    shown = "".join(" " if letter.isspace() else letter for letter in plain if not _hidden(letter))
    return " ".join(shown.split())


def _hidden(letter: str) -> bool:
    return not letter.isspace() and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co")


def _apart(found: Iterable[Found]) -> list[Found]:
    """Without overlaps: the kind named first wins, then the longer; what it leaves over of another goes too."""
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: (ORDER[one.kind], one.start - one.end, one.start)):
        if all(one.end <= other.start or other.end <= one.start for other in kept):
            kept.append(one)
        else:
            kept = _merged(kept, one)
    return sorted(kept, key=lambda one: one.start)


def _merged(kept: list[Found], one: Found) -> list[Found]:
    """`one` overlaps something kept: nothing of it may stay readable, so what is kept grows over it."""
    touched = [other for other in kept if one.start < other.end and other.start < one.end]
    rest = [other for other in kept if other not in touched]
    first = min(touched, key=lambda other: ORDER[other.kind])
    start = min(one.start, *(other.start for other in touched))
    end = max(one.end, *(other.end for other in touched))
    return [*rest, Found(first.kind, start, end)]
