"""The benchmark firewall: does a text repeat a registered benchmark query?"""

from dataclasses import dataclass
from functools import lru_cache

from django.db.models import Count, Max

from catalog.core.near_duplicates import DuplicateIndex
from catalog.models import LabelledQuery


@dataclass(frozen=True, slots=True)
class BenchmarkHit:
    """A text repeats a benchmark query: exactly, or nearly (word sets, Jaccard 0.85)."""

    kind: str
    benchmark: str
    query: str


class BenchmarkFirewall:
    """All benchmark queries, indexed once; `check` says whether a text repeats one of them."""

    def __init__(self) -> None:
        stored = LabelledQuery.objects.filter(use=LabelledQuery.Use.BENCHMARK).order_by("id")
        self._rows = list(stored.values_list("collection", "text"))
        self._index = DuplicateIndex(text for _, text in self._rows)

    def check(self, text: str) -> BenchmarkHit | None:
        """The worst repetition, or None."""
        found = self._index.find(text) if self._rows else []
        return BenchmarkHit(found[0].kind, *self._rows[found[0].position]) if found else None


def benchmark_firewall() -> BenchmarkFirewall:
    """The firewall as the registry stands; indexed again only when queries have come or gone."""
    rows = LabelledQuery.objects.filter(use=LabelledQuery.Use.BENCHMARK)
    return _indexed(**rows.aggregate(count=Count("pk"), newest=Max("pk")))


@lru_cache(maxsize=1)
def _indexed(count: int, newest: int | None) -> BenchmarkFirewall:
    return BenchmarkFirewall()
