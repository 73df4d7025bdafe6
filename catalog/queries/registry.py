"""The registry of labelled queries kept apart: benchmarks from everything that teaches.

A firewall says whether a text repeats a registered query: a benchmark's, or, for what is frozen to train on, a few-shot
query too. A benchmark that comes later takes the few-shot queries out that repeat it. Both sides hold
`registry_lock`, so that neither misses the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, QuerySet
from django.shortcuts import get_object_or_404

from catalog.core.near_duplicates import DuplicateIndex
from catalog.models import LabelledQuery
from trace_site.audit import models as audit_models
from trace_site.database import hold_lock

LOCK = 7152901  # of pg_advisory_xact_lock; any number that nothing else uses
GUARDED = (LabelledQuery.Use.BENCHMARK, LabelledQuery.Use.FEW_SHOT)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A text repeats a registered query: exactly, or nearly. `similarity`: Jaccard of the word sets, 0.85 to 1."""

    kind: str
    similarity: float
    use: str
    collection: str
    query: str


class Firewall:
    """All queries of some uses, indexed once; `check` says whether a text repeats one of them."""

    def __init__(self, uses: tuple[str, ...]) -> None:
        stored = LabelledQuery.objects.filter(use__in=uses).order_by("use", "id")  # benchmarks first
        self._rows = list(stored.values_list("use", "collection", "text"))
        self._index = DuplicateIndex(text for _, _, text in self._rows)

    def check(self, text: str) -> Repeat | None:
        """The worst repetition, or None: of a benchmark before one of a few-shot query, the most similar first."""
        found = self._index.find(text) if self._rows else []
        if not found:
            return None
        worst = min(found, key=lambda hit: (self._rows[hit.position][0] != GUARDED[0], -hit.score))
        return Repeat(worst.kind, round(worst.score, 3), *self._rows[worst.position])


@lru_cache(maxsize=2)
def _indexed(uses: tuple[str, ...], count: int, newest: int | None) -> Firewall:
    return Firewall(uses)


def benchmark_firewall() -> Firewall:
    """The firewall as the registry stands; indexed again only when queries have come or gone."""
    return _firewall(GUARDED[:1])


def teaching_firewall() -> Firewall:
    """Of benchmark and few-shot queries: none of them may be in what a model is trained on."""
    return _firewall(GUARDED)


def _firewall(uses: tuple[str, ...]) -> Firewall:
    rows = LabelledQuery.objects.filter(use__in=uses)
    return _indexed(uses, **rows.aggregate(count=Count("pk"), newest=Max("pk")))


def registry_lock() -> None:
    """Inside a transaction: wait until no other one enters few-shot or benchmark queries."""
    hold_lock(LOCK)


@transaction.atomic
def few_shots_withdraw(*, texts: Iterable[str], because: str, actor: Any) -> int:
    """Take out every few-shot query that repeats one of these benchmark queries; how many went."""
    registry_lock()
    index = DuplicateIndex(texts)
    stored = LabelledQuery.objects.filter(use=LabelledQuery.Use.FEW_SHOT)
    gone = [row for row in stored if index.find(row.text)]
    told = [(row, {"collection": row.collection, "because": f"repeats {because}"}) for row in gone]
    audit_models.record_all(actor=actor, action="query.removed", objects=told)
    stored.filter(pk__in=[row.pk for row in gone]).delete()
    return len(gone)


def real_queries(search: str = "", collection: str = "") -> QuerySet[LabelledQuery]:
    """Few-shot queries whose text holds every word of `search`."""
    rows = LabelledQuery.objects.filter(use=LabelledQuery.Use.FEW_SHOT)
    for word in search.split():
        rows = rows.filter(text__icontains=word)
    return rows.filter(collection=collection) if collection else rows


def real_query(pk: int) -> LabelledQuery:
    return get_object_or_404(real_queries(), pk=pk)
