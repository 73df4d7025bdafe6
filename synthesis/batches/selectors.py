"""Reads behind the batches: what a lot could be made of, how far a batch is, who read what of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.shortcuts import get_object_or_404

from rules.models import RuleVersion
from synthesis.models import Batch, Decision, ReviewItem
from synthesis.samples import decisions
from synthesis.samples.counts import waiting_by_rule
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError

State, Verdict = ReviewItem.State, Decision.Verdict
DEFECTS = (Verdict.EDIT, Verdict.REJECT)
LARGEST_LOT = 20_000
LISTED = 50  # of the samples that were left out
# first readings that nobody holds, was given, or that are in a batch already
FREE = ReviewItem.objects.filter(
    round=ReviewItem.Round.FIRST, state=State.OPEN, calibration=False, batch=None, assigned_to=None
)


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a batch is: samples drawn and read, drawn and waiting, held back unread; defects among those read."""

    read: int = 0
    waiting: int = 0
    held: int = 0
    defects: int = 0


def lot_items(version: RuleVersion, style: str = "") -> QuerySet[ReviewItem]:
    """What a batch may be made of."""
    found = FREE.filter(rule=version.rule_id, rule_version=version)  # the rule has the index
    return found.filter(style=style) if style else found


def published_version(rule: str) -> RuleVersion | None:
    """The version of this rule that is taught. rule: its code, or domain/code where two domains have it.

    Raises TraceError when the code alone does not name one.
    """
    domain, _, code = rule.rpartition("/")
    rows = RuleVersion.objects.filter(rule__code=code, rule__published=F("pk")).select_related("rule")
    found = list((rows.filter(rule__domain=domain) if domain else rows).order_by("rule__domain")[:2])
    if len(found) == 2:
        raise TraceError(
            f"two domains have a rule '{code}'.",
            code="ambiguous_rule",
            where="rule",
            hint=f"Write {found[0].rule.domain_id}/{code} or {found[1].rule.domain_id}/{code}.",
        )
    return found[0] if found else None


def progress(batches: Sequence[int]) -> dict[int, BatchProgress]:
    """One query, whatever the number of batches."""
    defective = standing_decisions(batches).filter(item=OuterRef("pk"), verdict__in=DEFECTS)
    items = ReviewItem.objects.filter(batch__in=batches).order_by().values_list("batch")
    rows = items.annotate(
        read=Count("pk", filter=Q(state=State.DECIDED, decided_by__isnull=False)),
        waiting=Count("pk", filter=Q(state__in=(State.OPEN, State.CLAIMED))),
        held=Count("pk", filter=Q(state=State.HELD)),
        defects=Count("pk", filter=Q(state=State.DECIDED) & Q(Exists(defective))),
    )
    found = {batch: BatchProgress(*counts) for batch, *counts in rows}
    return {batch: found.get(batch, BatchProgress()) for batch in batches}


def standing_decisions(batches: Sequence[int]) -> QuerySet[Decision]:
    """What people decided about first readings of these batches and did not take back."""
    return decisions.standing_decisions().filter(item__batch__in=batches, policy="")


def waiting_rules() -> list[tuple[str, int]]:
    """Rules of which first readings wait, with how many, the most first."""
    return sorted(waiting_by_rule({"round": 1}).items(), key=lambda pair: (-pair[1], pair[0]))


def batches() -> QuerySet[Batch]:
    return Batch.objects.select_related("rule_version__rule", "created_by")


def batch(pk: int) -> Batch:
    """Raises Http404."""
    return get_object_or_404(batches(), pk=pk)


def failed_lately(rule: int) -> int:
    """Of the last five batches of a rule that were decided, how many failed."""
    decided = Batch.objects.filter(rule_version__rule=rule, state__in=("accepted", "failed"))
    return list(decided.order_by("-pk").values_list("state", flat=True)[:5]).count("failed")


def left_out(of: Batch) -> dict[str, Any]:
    """Who did not pass filter V when the lot was made: {"left_out": count, "failing": [{"sample", "why"}]}."""
    notes = AuditEntry.objects.filter(object_type="batch", object_id=str(of.pk), action="batch.created")
    detail: dict[str, Any] = notes.values_list("detail", flat=True).first() or {}
    return detail
