"""Samples as staleness reads them: keys and places, no texts; streamed in blocks whatever their number."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from django.db.models import QuerySet

from synthesis.models import Sample

CHUNK = 5000


class Row(NamedTuple):
    """A sample as staleness reads it: no texts, no pool."""

    pk: int
    branch: str
    domain: str
    version: int | None
    anchor: str | None
    style: str
    tier: str
    seed: int
    key: str
    machine: str
    human: str
    writer: str
    content: str | None
    number: int | None
    batch: int | None
    granted: bool | None

    @property
    def kind(self) -> str:
        return self.style or self.tier

    @property
    def gone(self) -> bool:
        return self.machine == Sample.Machine.DROPPED or self.human == Sample.Human.REJECTED


COLUMNS = (
    "pk",
    "branch",
    "domain_id",
    "rule_version_id",
    "anchor__name",
    "style",
    "tier",
    "seed",
    "key",
    "machine",
    "human",
    "writer",
    "content",
    "made_from__index",
    "made_from__batch_seed",
    "made_from__granted",
)


class Old(NamedTuple):
    """What is known of a sample beside its keys; all there is of an imported query, or of one before keys were kept."""

    answer: list[str]
    tools: dict[str, str]


def rows_of(samples: QuerySet[Sample]) -> Iterator[Row]:
    found = samples.order_by("pk").values_list(*COLUMNS).iterator(CHUNK)
    return (Row(*row) for row in found)


def old_of(pks: Sequence[int]) -> dict[int, Old]:
    """What these samples were made from, without keys; no query when there are none."""
    if not pks:
        return {}
    found = Sample.objects.filter(pk__in=pks).values_list("pk", "answer", "made_from__tools")
    return {pk: Old(answer, tools or {}) for pk, answer, tools in found}


def blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    given = iter(rows)
    while block := list(islice(given, CHUNK)):
        yield block
