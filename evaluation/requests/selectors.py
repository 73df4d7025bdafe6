"""The log as admins and product managers read it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from evaluation.core.asking import MODES
from evaluation.models import RequestDay, RetrievalRequest
from evaluation.requests.log import ANSWERED, caller_hash
from synthesis.llm.ledger import Percentile
from trace_site.database import database_now

Verdict = RetrievalRequest.Verdict
VERDICTS = {"wrong": "reported wrong", "right": "reported right", "any": "reported"}
OUTCOMES = {
    "answered": "answered",
    "refused": "not answered",
    "nothing": "no tool fits",
    "withheld": "tools withheld",
}
DAYS = 7  # that the figures count


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters of the page; empty is everything. `caller` is typed as the caller names itself; `clause` is a token."""

    verdict: str = ""
    outcome: str = ""
    mode: str = ""
    owner: str = ""
    caller: str = ""
    clause: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Wanted":
        return cls(**{field.name: given.get(field.name, "").strip()[:200] for field in fields(cls)})

    @property
    def rows(self) -> QuerySet[RetrievalRequest]:
        found = RetrievalRequest.objects.select_related("owner", "model__run")
        if self.verdict in VERDICTS:
            found = found.exclude(verdict="") if self.verdict == "any" else found.filter(verdict=self.verdict)
        if self.mode in MODES:
            found = found.filter(mode=self.mode)
        if self.owner:
            found = found.filter(Q(owner__username=self.owner) | Q(token_name=self.owner))
        if self.caller:
            found = found.filter(caller=caller_hash(self.caller))
        if self.clause:
            found = found.filter(clause=self.clause)
        match self.outcome:
            case "answered":
                found = found.filter(outcome=ANSWERED)
            case "refused":
                found = found.exclude(outcome__in=(ANSWERED, ""))
            case "nothing":
                found = found.filter(fits=False)
            case "withheld":
                found = found.exclude(withheld=[])
        return found


def figures() -> dict[str, Any]:
    """{asked, kept, lost} of the last DAYS days and {wrong, right}, as reported in them; and `took`, the time that the
    answers of the last day took: {n, p50, p95}, in ms. Four queries."""
    now = database_now()
    days = RequestDay.objects.filter(day__gt=now.date() - timedelta(days=DAYS))
    counts = days.aggregate(asked=Sum("asked"), kept=Sum("kept"), lost=Sum("lost"))
    reported = RetrievalRequest.objects.exclude(verdict="").filter(at__gt=now - timedelta(days=DAYS))
    said = reported.aggregate(
        wrong=Count("pk", filter=Q(verdict=Verdict.WRONG)), right=Count("pk", filter=Q(verdict=Verdict.RIGHT))
    )
    answered = RetrievalRequest.objects.filter(at__gt=now - timedelta(days=1), outcome=ANSWERED)
    took = answered.aggregate(
        n=Count("pk"), p50=Percentile(0.5, "total_ms"), p95=Percentile(0.95, "total_ms")
    )
    return {name: value or 0 for name, value in counts.items()} | said | {"took": took}
