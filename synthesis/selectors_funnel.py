"""The funnel of a run, or of one domain, rule or style of it: written -> filter V -> judge J -> ready -> approved.

All from rows, so that it is right while a run writes and after any kill. Refusals count attempts, the rest samples.
"""

from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Count, Q, QuerySet

from synthesis.models import Attempt, Sample
from synthesis.selectors import APPROVED, READY

GROUPS: dict[str, tuple[str, ...]] = {
    "domain": ("domain_id",),
    "rule": ("domain_id", "rule_version__rule_id", "rule_version__rule__code"),
    "style": ("style", "tier"),
}
OF_SAMPLES = {
    "planned": Count("id"),
    "ready": Count("id", filter=READY),
    "dropped": Count("id", filter=Q(machine=Sample.Machine.DROPPED)),
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


@dataclass(frozen=True, slots=True)
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
        return Sample.objects.filter(**self._where(""))

    def attempts(self) -> QuerySet[Attempt]:
        return Attempt.objects.filter(**self._where("sample__"))

    def _where(self, prefix: str) -> dict[str, Any]:
        names = {"run": "run_id", "domain": "domain_id", "rule": "rule_version__rule__code"}
        values = {"run": self.run, **self.narrowed}
        return {f"{prefix}{names.get(name, name)}": value for name, value in values.items()}


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
    total: Counts
    checks: list[tuple[str, int]] = field(default_factory=list)
    axes: list[tuple[str, int]] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)


def funnel(part: Slice) -> Funnel:
    """Five queries whatever the size."""
    total = Counts(part, **part.samples().aggregate(**OF_SAMPLES))
    _put(total, part.attempts().aggregate(**OF_ATTEMPTS))
    refused = part.attempts()
    return Funnel(
        total,
        checks=_listed(refused.filter(outcome="filtered"), "filter_failures", "entry->>'check'"),
        axes=_listed(refused.filter(outcome="judged_out"), "judge->'failed'", "entry#>>'{}'"),
        errors=_codes(refused.filter(outcome="error")),
    )


def groups(part: Slice, by: str) -> list[Counts]:
    """The slice by domain, rule or style and tier, in that order of names; two queries."""
    keys = GROUPS[by]
    found: dict[tuple[Any, ...], Counts] = {}
    for row in part.samples().values(*keys).annotate(**OF_SAMPLES).order_by(*keys):
        key = tuple(row.pop(name) for name in keys)
        found[key] = Counts(*_part(part, dict(zip(keys, key, strict=True))), **row)
    tried = part.attempts().values(*(f"sample__{name}" for name in keys)).annotate(**OF_ATTEMPTS).order_by()
    for row in tried:
        key = tuple(row.pop(f"sample__{name}") for name in keys)
        if key in found:  # a sample planned between the two queries waits for the next look
            _put(found[key], row)
    return list(found.values())


def _part(part: Slice, values: dict[str, Any]) -> tuple[Slice, int | None]:
    names = {"domain_id": "domain", "rule_version__rule__code": "rule", "style": "style", "tier": "tier"}
    own = {names[key]: value or "" for key, value in values.items() if key in names}
    return Slice(**{"run": part.run, **part.narrowed, **own}), values.get("rule_version__rule_id")


def _put(counts: Counts, row: dict[str, int]) -> None:
    for name, value in row.items():
        setattr(counts, name, value)


def _codes(failed: QuerySet[Attempt]) -> list[tuple[str, int]]:
    rows = failed.values_list("error_code").annotate(count=Count("id")).order_by("-count", "error_code")
    return [(code or "error", count) for code, count in rows]


def _listed(attempts: QuerySet[Attempt], column: str, name: str) -> list[tuple[str, int]]:
    """How many attempts name each entry of a JSON list; one attempt may name several."""
    inner, values = attempts.values_list("filter_failures", "judge").order_by().query.sql_with_params()
    sql = f"""SELECT {name}, count(*) FROM ({inner}) tried,
              jsonb_array_elements(tried.{column}) entry GROUP BY 1 ORDER BY 2 DESC, 1"""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [(str(label), int(count)) for label, count in cursor.fetchall()]
