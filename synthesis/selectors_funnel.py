"""The funnel of a run, or of one domain, rule or style of it: written -> filter V -> judge J -> ready -> approved.

All from rows, so that it is right while a run writes and after any kill. Refusals count attempts, the rest samples.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import Case, Count, F, Func, JSONField, Q, QuerySet, Value, When

from rules.models import RuleVersion
from synthesis.models import Attempt, Sample, SynthesisRun
from synthesis.selectors import APPROVED, DROPPED, READY
from synthesis.selectors_units import of_run, reasons, shared_samples

GROUPS: dict[str, tuple[str, ...]] = {
    "domain": ("domain_id",),
    "rule": ("domain_id", "rule_version_id"),
    "style": ("style", "tier"),
}
OF_SAMPLES = {
    "planned": Count("id"),
    "ready": Count("id", filter=READY),
    "dropped": Count("id", filter=DROPPED),
    "approved": Count("id", filter=APPROVED),
    "rejected": Count("id", filter=Q(human=Sample.Human.REJECTED)),
}
OF_ATTEMPTS = {
    "attempts": Count("id"),
    "written": Count("id", filter=Q(number=1)),
    "filtered": Count("id", filter=Q(outcome="filtered")),
    "judged_out": Count("id", filter=Q(outcome="judged_out")),
    "errors": Count("id", filter=Q(outcome="error")),
}

# what tells attempts apart in the funnel: a few dozen combinations, however many attempts
CHECKS = Func(
    F("filter_failures"), Value("$[*].check"), function="jsonb_path_query_array", output_field=JSONField()
)
REFUSED_BY = {
    "checks": Case(When(outcome="filtered", then=CHECKS), output_field=JSONField()),
    "axes": Case(When(outcome="judged_out", then=F("judge__failed")), output_field=JSONField()),
}
REFUSALS = {"filtered": "filtered", "judged_out": "judged_out", "error": "errors"}


@dataclass(frozen=True)
class Slice:
    """A run, or the part of it that one looks at; empty fields do not narrow."""

    run: int
    domain: str = ""
    rule: str = ""
    style: str = ""
    tier: str = ""

    @property
    def narrowed(self) -> dict[str, str]:
        return {one.name: value for one in fields(self)[1:] if (value := getattr(self, one.name))}

    @property
    def query(self) -> str:
        """The query string under which the samples page lists what this slice counts."""
        return urlencode({"run": self.run, **self.narrowed})

    def samples(self) -> QuerySet[Sample]:
        return Sample.objects.filter(self._where(""))

    def attempts(self) -> QuerySet[Attempt]:
        return Attempt.objects.filter(self._where("sample__"))

    def _where(self, prefix: str) -> Q:
        names = {"domain": "domain_id", "rule": "rule_version__rule__code"}
        part = {f"{prefix}{names.get(name, name)}": value for name, value in self.narrowed.items()}
        return of_run(self.run, prefix, self.shares) & Q(**part)

    @cached_property
    def shares(self) -> bool:
        return shared_samples(self.run).exists()


@dataclass(slots=True)
class Counts:
    """Of one slice. `written` samples have been tried; `filtered`, `judged_out` and `errors` are attempts."""

    slice: Slice
    rule_id: int | None = None
    planned: int = 0
    written: int = 0
    attempts: int = 0
    filtered: int = 0
    judged_out: int = 0
    errors: int = 0
    ready: int = 0
    dropped: int = 0
    approved: int = 0
    rejected: int = 0

    @property
    def retries(self) -> int:
        return self.attempts - self.written

    @property
    def refused(self) -> int:
        return self.filtered + self.judged_out + self.errors


@dataclass(slots=True)
class Funnel:
    """`given_up`: units of the whole run that are not written any more, by reason."""

    total: Counts
    checks: list[tuple[str, int]] = field(default_factory=list)
    axes: list[tuple[str, int]] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)
    given_up: list[tuple[str, int]] = field(default_factory=list)


def funnel(part: Slice) -> Funnel:
    """A few queries whatever the size: samples once, attempts once by what they ended with."""
    total = Counts(part, **part.samples().aggregate(**OF_SAMPLES))
    given_up: Counter[str] = Counter()
    if not part.narrowed:
        run = SynthesisRun.objects.only("units").get(pk=part.run)
        total.planned = total.planned if run.units is None else run.units
        given_up.update(reasons(run))
    checks: Counter[str] = Counter()
    axes: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    tried = part.attempts().annotate(**REFUSED_BY).values_list("outcome", "error_code", *REFUSED_BY)
    ended = tried.annotate(Count("id"), first=Count("id", filter=Q(number=1))).order_by()
    for outcome, code, refused, failed, count, first in ended:
        total.attempts += count
        total.written += first
        if name := REFUSALS.get(outcome):
            setattr(total, name, getattr(total, name) + count)
        checks.update(dict.fromkeys(refused or (), count))  # one attempt may fail several checks
        axes.update(dict.fromkeys(failed or (), count))
        errors[code or "error"] += count if outcome == "error" else 0
    return Funnel(total, *(_listed(one) for one in (checks, axes, errors, given_up)))


def _listed(counts: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first, then by name."""
    return sorted(
        ((name, count) for name, count in counts.items() if count), key=lambda one: (-one[1], one[0])
    )


def groups(part: Slice, by: str) -> list[Counts]:
    """The slice by domain, rule or style and tier, in that order of names; three queries at most."""
    keys = GROUPS[by]
    rows = list(part.samples().values(*keys).annotate(**OF_SAMPLES).order_by())
    prefixed = [f"sample__{name}" for name in keys]
    tried = part.attempts().values(*prefixed).annotate(**OF_ATTEMPTS).order_by()
    rules = _rules(row["rule_version_id"] for row in rows) if by == "rule" else {}
    found: dict[tuple[Any, ...], Counts] = {}
    for row in [*rows, *tried]:
        values = [row.pop(name if name in row else f"sample__{name}") for name in keys]
        own, rule_id = _part(part, dict(zip(keys, values, strict=True)), rules)
        counts = found.setdefault(tuple(own.narrowed.items()), Counts(own, rule_id))
        for name, count in row.items():
            setattr(counts, name, getattr(counts, name) + count)
    return sorted(found.values(), key=lambda counts: tuple(counts.slice.narrowed.values()))


def _rules(versions: Iterable[int | None]) -> dict[int, tuple[str, int]]:
    """{rule version: its rule's code and id}"""
    rows = RuleVersion.objects.filter(pk__in={pk for pk in versions if pk})
    return {pk: (code, rule) for pk, code, rule in rows.values_list("pk", "rule__code", "rule_id")}


def _part(part: Slice, values: dict[str, Any], rules: dict[int, tuple[str, int]]) -> tuple[Slice, int | None]:
    code, rule = rules.get(values.pop("rule_version_id", None), ("", None))
    own: dict[str, Any] = {name.removesuffix("_id"): value or "" for name, value in values.items()}
    if code:
        own["rule"] = code
    return replace(part, **own), rule
