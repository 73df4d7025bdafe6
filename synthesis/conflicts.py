"""Why an item is not one's to read or decide, in a sentence: what is answered to whoever comes too late."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from synthesis.models import ReviewItem, Sample
from trace_site.lib.errors import TraceError

State = ReviewItem.State
NEXT = "Take the next one."


def conflict(items: Sequence[ReviewItem], reviewer: Any) -> TraceError:
    """TraceError "conflict" about the items of one sample; the one that waits is told of, else the newest reading."""
    if not items:
        return TraceError("there is nothing to decide any more.", code="conflict", hint=NEXT)
    waits = (State.OPEN, State.CLAIMED, State.HELD)
    item = next((item for item in items if item.state in waits), items[0])
    return TraceError(
        why_not(item, items, reviewer),
        code="conflict",
        where=f"sample {item.sample_id}",
        hint=NEXT,
        extra={"sample": item.sample_id, "item": item.pk, "round": item.round, "state": item.state},
    )


def why_not(item: ReviewItem, items: Sequence[ReviewItem], reviewer: Any) -> str:
    """One sentence. Who decided a reading is not told while another, blind one may follow."""
    if item.state == State.HELD:
        return "its batch holds it: only some samples of the batch are read."
    if item.state == State.DECIDED:
        return _decided(item, reviewer)
    if item.state == State.WITHDRAWN:
        return _withdrawn(item)
    if any(other.decided_by_id == reviewer.pk for other in items):
        return "you have read it in another round; this reading is somebody else's."
    if item.state == State.CLAIMED:
        return _claimed(item, reviewer)
    if item.assigned_to_id not in (None, reviewer.pk):
        return f"it is assigned to {item.assigned_to}."
    return "it was opened anew since you were shown it."


def _claimed(item: ReviewItem, reviewer: Any) -> str:
    if item.claimed_by_id == reviewer.pk:
        return "you were shown it anew since, in another tab or after an undo."
    assert item.claimed_until is not None
    minutes = max(1, round((item.claimed_until - timezone.now()).total_seconds() / 60))
    return f"{item.claimed_by} has it now, for {minutes} min unless they go on."


def _decided(item: ReviewItem, reviewer: Any) -> str:
    if item.decided_by_id == reviewer.pk:
        return "you have decided it already, otherwise than now."
    if item.decided_by_id is None:
        return "it is approved by now, unread: with its batch or by a policy."
    human = Sample.objects.values_list("human", flat=True).get(pk=item.sample_id)
    if human in (Sample.Human.APPROVED, Sample.Human.REJECTED):
        return f"{item.decided_by} has decided it meanwhile: {human}."
    return "somebody else has decided it meanwhile."


def _withdrawn(item: ReviewItem) -> str:
    row = Sample.objects.select_related("rule_version__rule").defer("trace").get(pk=item.sample_id)
    if row.human in (Sample.Human.APPROVED, Sample.Human.REJECTED):
        return f"it is {row.human} by now."
    rule = row.rule_version and row.rule_version.rule
    if rule and rule.published_id != row.rule_version_id:
        return f"rule {rule.code} was published anew, so the sample no longer waits."
    return "it no longer waits: a newer sample stands in its place, or its reading was taken back."
