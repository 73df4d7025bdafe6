"""Counts that lists and the queue show, from rollups: a few thousand narrow rows, however many samples there are."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q, QuerySet, Sum

from rules.models import Rule, RuleVersion
from synthesis.models import Level, ReviewCount, SampleCount

SAMPLE_FACETS = ("branch", "domain", "style", "tier", "machine", "human", "approved_how", "writer")
BY_RULE, TOGETHER = (Level.LOOSE, Level.FINE), (Level.LOOSE, Level.COARSE)
QUEUE_FACETS = ("branch", "domain", "style", "tier", "round")


@dataclass(slots=True)
class Tally:
    """How many match, and how many would for each value of each filter while the others stay: {filter: {value: n}}."""

    total: int = 0
    options: dict[str, dict[Any, int]] = field(default_factory=dict)


def sample_counts(filters: Mapping[str, Any]) -> Tally:
    """Of samples by branch, domain, style, tier, machine, human, approved_how, writer, and of one rule (its code) or
    of all; other filters are not looked at, see `covers`. One query.
    """
    return _tally(sample_kinds(filters), SAMPLE_FACETS, filters)


def sample_kinds(filters: Mapping[str, Any]) -> QuerySet[SampleCount]:
    """The rollup's rows of one rule, or all."""
    if code := filters.get("rule"):
        versions = list(RuleVersion.objects.filter(rule__code=code).values_list("pk", flat=True))
        return SampleCount.objects.filter(level__in=BY_RULE, rule_version__in=versions)
    return SampleCount.objects.filter(level__in=TOGETHER)


def covers(filters: Mapping[str, Any]) -> bool:
    """Whether `sample_counts` knows every filter given."""
    return not {name for name, value in filters.items() if value} - {*SAMPLE_FACETS, "rule"}


def rules_with_samples() -> list[str]:
    """Codes, in order."""
    counts = SampleCount.objects.filter(level__in=BY_RULE).values("rule_version").annotate(sum=Sum("n"))
    rows = Rule.objects.filter(versions__in=counts.filter(sum__gt=0).values("rule_version"))
    return list(rows.order_by("code").values_list("code", flat=True).distinct())


def status_totals() -> dict[tuple[str, str], int]:
    """{(machine status, human status): samples}"""
    rows = sample_kinds({}).values_list("machine", "human").annotate(sum=Sum("n")).order_by()
    return {(machine, human): count for machine, human, count in rows}


def waiting_counts(filters: Mapping[str, Any], reviewer: Any = None) -> Tally:
    """Of items open or claimed, by branch, domain, style, tier and round, of one rule or all. One query.

    reviewer: only what they may read, by assignment and by who read it first.
    """
    rows = in_queue(filters).filter(held=False)
    return _tally(rows if reviewer is None else readable(rows, reviewer), QUEUE_FACETS, filters)


def waiting_total(reviewer: Any = None) -> int:
    """Items open or claimed; of one reviewer, those they may read."""
    rows = in_queue({}).filter(held=False)
    found = rows if reviewer is None else readable(rows, reviewer)
    return found.aggregate(sum=Sum("n"))["sum"] or 0


def waiting_by_rule(filters: Mapping[str, Any]) -> dict[str, int]:
    """{rule's code: items open or claimed}, for the other filters."""
    named = {name: filters[name] for name in QUEUE_FACETS if filters.get(name)}
    rows = ReviewCount.objects.filter(level__in=BY_RULE, rule__gt=0, held=False, **named)
    found = dict(rows.values_list("rule").annotate(sum=Sum("n")).filter(sum__gt=0))
    return {code: found[pk] for pk, code in Rule.objects.filter(pk__in=found).values_list("pk", "code")}


def queue_totals(reviewer: Any, filters: Mapping[str, Any]) -> dict[str, int]:
    """{"left", "held", "assigned_to_others", "read_by_you", "elsewhere"}: the queue as `reviewer` meets it.

    `read_by_you` wait for a later reading by somebody else; `left` are open or claimed, `elsewhere` those of them
    outside the filters.
    """
    rows = in_queue(filters).filter(**{name: filters[name] for name in QUEUE_FACETS if filters.get(name)})
    waits = Q(held=False)
    sums = rows.aggregate(
        left=Sum("n", filter=waits),
        by_batches=Sum("n", filter=~waits),  # `held` is a column
        assigned_to_others=Sum("n", filter=waits & ~Q(assigned_to__in=(0, reviewer.pk))),
        read_by_you=Sum("n", filter=waits & Q(first_by=reviewer.pk)),
    )
    counts = {name: count or 0 for name, count in sums.items()}
    held = counts.pop("by_batches")
    return {**counts, "held": held, "elsewhere": waiting_total() - counts["left"]}


def in_queue(filters: Mapping[str, Any]) -> QuerySet[ReviewCount]:
    """The rollup's rows of one rule, or all."""
    if code := filters.get("rule"):
        rules = list(Rule.objects.filter(code=code).values_list("pk", flat=True))
        return ReviewCount.objects.filter(level__in=BY_RULE, rule__in=rules)
    return ReviewCount.objects.filter(level__in=TOGETHER)


def readable(rows: QuerySet[ReviewCount], reviewer: Any) -> QuerySet[ReviewCount]:
    return rows.filter(assigned_to__in=(0, reviewer.pk)).exclude(first_by=reviewer.pk)


def _tally(rows: QuerySet[Any], names: Iterable[str], filters: Mapping[str, Any]) -> Tally:
    wanted = {name: str(filters[name]) for name in names if filters.get(name)}
    tally = Tally(options={name: defaultdict(int) for name in names})
    for *values, count in rows.values_list(*names).annotate(sum=Sum("n")).filter(sum__gt=0).order_by():
        kind = dict(zip(names, values, strict=True))
        missed = [name for name, value in wanted.items() if str(kind[name]) != value]
        if not missed:
            tally.total += count
        for name in names if not missed else missed if len(missed) == 1 else ():
            tally.options[name][kind[name]] += count
    return tally
