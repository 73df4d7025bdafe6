"""Taking one's own last decision back: one more row of the decisions, and the item is the reviewer's again."""

from typing import Any

from django.db import transaction
from django.db.models import F

from synthesis import batches, regenerations
from synthesis.claims import NOBODYS, take
from synthesis.decisions import STATE
from synthesis.holds import hold_rules
from synthesis.models import Decision, ReviewItem, Sample, SnapshotSample
from synthesis.wishes import TEXTS
from trace_site import audit
from trace_site.lib.errors import TraceError

State = ReviewItem.State


@transaction.atomic
def undo(*, reviewer: Any) -> Sample:
    """Take back one's own last decision that still stands; its item is claimed by the reviewer again.

    Raises TraceError "nothing_to_undo", "conflict" after a next reading, "in_snapshot" when it is part of a dataset.
    """
    decision = own_standing(reviewer)
    if decision is None:
        raise TraceError("you have no decision to undo.", code="nothing_to_undo")
    hold_rules([decision.sample.rule_version_id])
    items = ReviewItem.objects.select_for_update(no_key=True).filter(sample=decision.sample_id)
    item = next(item for item in items.order_by("-round") if item.pk == decision.item_id)
    row = Sample.objects.select_for_update(no_key=True).get(pk=decision.sample_id)
    _check(decision, item, row)
    regenerations.take_back(row)
    _take_back(decision, item, row)
    item.refresh_from_db()
    batches.taken_back(item, decision)
    if item.state == State.OPEN:  # withdrawn where a newer rule or sample has taken its place meanwhile
        take(item, reviewer)
    return Sample.objects.get(pk=row.pk)


def own_standing(reviewer: Any) -> Decision | None:
    """One's own newest decision that was not taken back."""
    rows = Decision.objects.filter(reviewer=reviewer, item__decided_by=reviewer, item__state=State.DECIDED)
    rows = rows.filter(take=F("item__takes")).exclude(verdict=Decision.Verdict.UNDO)
    return rows.select_related("sample").defer("sample__trace").order_by("-pk").first()


def _check(decision: Decision, item: ReviewItem, row: Sample) -> None:
    """Raise what stands in the way of an undo, now that the rows are locked."""
    if item.state != State.DECIDED or item.takes != decision.take:
        raise _refused(row, "nothing_to_undo", "your last decision was taken back a moment ago.", "")
    if not item.calibration and row.human != decision.after["human"]:
        why = "your reading was followed by another one, so it can no longer be taken back."
        raise _refused(row, "conflict", why, "Say what is wrong in a comment on the sample.")
    frozen = SnapshotSample.objects.filter(sample=row).order_by("-snapshot").first()
    if frozen is not None and not item.calibration:
        why = f"it is part of snapshot {frozen.snapshot_id}, which stays as it is."
        raise _refused(row, "in_snapshot", why, "Say what is wrong in a comment on the sample.")


def _refused(row: Sample, code: str, why: str, hint: str) -> TraceError:
    return TraceError(why, code=code, where=f"sample {row.pk}", hint=hint, extra={"sample": row.pk})


def _take_back(decision: Decision, item: ReviewItem, row: Sample) -> None:
    before = _before(decision, row)
    Decision.objects.create(
        sample=row,
        item=item,
        round=decision.round,
        take=decision.take,
        reviewer=decision.reviewer,
        verdict=Decision.Verdict.UNDO,
        before=decision.after,
        after={**before, "undoes": decision.pk},
    )
    state = State.OPEN if item.calibration else State.WITHDRAWN  # the trigger opens it again if it waits
    ReviewItem.objects.filter(pk=item.pk).update(
        state=state, takes=F("takes") + 1, claim=None, decided_by=None, decided_at=None, **NOBODYS
    )
    if not item.calibration:
        Sample.objects.filter(pk=row.pk).update(**before)
    audit.record(actor=decision.reviewer, action="sample.undo", obj=row, detail={"undoes": decision.pk})


def _before(decision: Decision, row: Sample) -> dict[str, Any]:
    """The sample as it was; a text that somebody else has written since stays."""
    kept = [name for name in TEXTS if getattr(row, name) != decision.after[name]]
    return {name: getattr(row, name) if name in kept else decision.before[name] for name in STATE}
