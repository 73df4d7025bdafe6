"""Reads of gate reports, and which benchmarks a gate asks."""

from django.db.models import QuerySet

from evaluation.benchmarks.selectors import TIERS, newest_benchmarks
from evaluation.models import Benchmark, GateReport

KINDS = list(Benchmark.Kind.values)


def gated_benchmarks() -> list[Benchmark]:
    """The newest versions that a gate asks, the requests first; one query."""
    found = [one for one in newest_benchmarks() if not one.is_development]
    return sorted(found, key=lambda one: (KINDS.index(one.kind), TIERS.index(one.tier), one.name))


def reports() -> QuerySet[GateReport]:
    return GateReport.objects.select_related("candidate__run", "champion__run").defer(
        "candidate__card", "champion__card", "candidate__run__log_tail", "champion__run__log_tail"
    )


def newest_report(candidate: int, champion: int | None) -> GateReport | None:
    return reports().filter(candidate=candidate, champion=champion).first()


def is_outdated(report: GateReport) -> bool:
    """Whether benchmarks were frozen that it does not know; one query."""
    known: list[int] = report.counted_from.get("benchmarks", [])
    return sorted(one.pk for one in gated_benchmarks()) != known
