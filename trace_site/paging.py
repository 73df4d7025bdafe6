"""Keyset pages: as fast on page 500 as on page 1, and nothing is shown twice while rows arrive.

Also the numbers that an address or a form names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

SIZE = 50
NUMBERS, DIGITS = ("pk", "position"), 99  # columns whose keys are numbers, and how long those may be


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, the key they started after, and the key of the next page (None on the last one)."""

    rows: list[Any]
    after: str
    next_key: str | None


def keyset(
    rows: QuerySet[Any], after: str, *, by: str = "pk", newest: bool = False, size: int = SIZE
) -> Page:
    """One page of `rows` in the order of the unique column `by`. A key that is none (an old link) starts anew."""
    ordered = rows.order_by(f"-{by}" if newest else by)
    if by in NUMBERS and not (after.isdecimal() and len(after) < DIGITS):
        after = ""
    if after:
        ordered = ordered.filter(**{f"{by}__{'lt' if newest else 'gt'}": after})
    found = list(ordered[: size + 1])
    more = len(found) > size
    found = found[:size]
    return Page(found, after, str(getattr(found[-1], by)) if more else None)


def sliced(rows: Sequence[Any], after: str, size: int) -> Page:
    """One page of rows that are all there; a key says how many stand before it."""
    start = number_of(after, digits=6)
    end = start + size
    return Page(list(rows[start:end]), str(start or ""), str(end) if len(rows) > end else None)


def number_of(text: str, digits: int = 18) -> int:
    """The number a text names; 0, which is no row's id, when it names none. 18 digits fit a bigint, 9 an integer."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else 0


def numbers_of(texts: Iterable[str]) -> list[int]:
    return [found for text in texts if (found := number_of(text))]
