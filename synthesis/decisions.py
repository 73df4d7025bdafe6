"""One decision a reading, by the one who holds the item, in one transaction.

A first reading is final unless the sample is drawn for a second, which is blind: it shows the sample as the machine
made it. Two readings that ask for the same end it, others go to a third person. The item's row is what two submissions
meet at: the same one sent twice is one decision, another one too late is TraceError "conflict" and changes nothing.
"""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from synthesis import batches, regenerations, rejections
from synthesis.claims import NOBODYS, open_to
from synthesis.conflicts import conflict
from synthesis.holds import hold_rules
from synthesis.models import Decision, ReviewItem, Sample
from synthesis.second_shares import drawn_for_second
from synthesis.selectors_standing import OVERTAKEN, REPLACED
from synthesis.wishes import TEXTS, Wish, seen_key, texts_of, wish_of
from trace_site import audit
from trace_site.lib.errors import TraceError
from trace_site.webhooks import emit

STATE = ("human", *TEXTS, "approved_by", "approved_how")
Verdict, Human, How = Decision.Verdict, Sample.Human, Sample.How
Round, State = ReviewItem.Round, ReviewItem.State
HUMAN_OF_ROUND = {Round.FIRST: Human.PENDING, Round.SECOND: Human.SECOND, Round.THIRD: Human.DISPUTED}


@transaction.atomic
def decide(read: Sample, reviewer: Any, wish: Wish) -> Sample:
    """End the reading that waits, or lose to whoever came first. `read` is the sample as the wish was made from it.

    Raises TraceError "conflict".
    """
    hold_rules([read.rule_version_id])
    rows = ReviewItem.objects.select_for_update(no_key=True).filter(sample=read.pk)
    items = list(rows.order_by("-round"))
    item = _meant(items, reviewer, wish)
    if item is None:
        raise conflict(items, reviewer)
    if item.state == State.DECIDED:  # the same submission once more
        return Sample.objects.get(pk=read.pk)
    row = _as_read(read, item, wish)
    if row is None:
        raise _changed(read)
    _close(item, reviewer)
    before = {name: getattr(row, name) for name in STATE}
    changes = {} if item.calibration else _outcome(row, item, reviewer, wish)
    if changes:  # the trigger opens the next reading
        Sample.objects.filter(pk=row.pk).update(**changes)
    after = {**before, **changes, **wish.texts}
    decision = _written(row, item, reviewer, wish, before, after)
    for name, value in changes.items():
        setattr(row, name, value)
    _follow(row, item, decision)
    return row


def _follow(row: Sample, item: ReviewItem, decision: Decision) -> None:
    """What a decision sets off, in its transaction."""
    if row.human == Human.APPROVED:
        emit("sample.approved", {"count": 1, "sample": row.pk, "by": row.approved_by})
    if row.human == Human.REJECTED and not item.calibration:
        rejections.tell_author(row, decision)
        if decision.follow_up == Decision.FollowUp.REGENERATE:
            regenerations.ask(row, decision)
    batches.decided(item, decision.reviewer)


def standing(sample: Sample | int, round: int) -> Decision | None:
    """The decision of a round that was not taken back."""
    rows = Decision.objects.filter(
        sample=sample, round=round, item__state=State.DECIDED, take=F("item__takes")
    )
    return rows.exclude(verdict=Verdict.UNDO).first()


def decided_before(reviewer: Any, wish: Wish) -> bool:
    """Whether this very submission has been decided already."""
    if wish.claim is None:
        return False
    rows = Decision.objects.filter(item__state=State.DECIDED, take=F("item__takes"), reviewer=reviewer)
    decision = rows.exclude(verdict=Verdict.UNDO).filter(item__claim=wish.claim).first()
    return decision is not None and wish.is_that_of(decision)


def _meant(items: Sequence[ReviewItem], reviewer: Any, wish: Wish) -> ReviewItem | None:
    """Which of a sample's locked items is decided: the one whose claim the page brought, else the one that waits.

    None where it is not the reviewer's to decide. A decided one is given back when this very wish decided it.
    """
    if wish.claim is None:
        waits = (State.OPEN, State.CLAIMED)
        item = next((item for item in items if item.state in waits), None)
    else:
        item = next((item for item in items if str(item.claim) == str(wish.claim)), None)
    if item is None:
        return None
    if item.state == State.OPEN:  # never claimed, or the lease ran out and nobody took it
        return item if open_to(reviewer, ReviewItem.objects.filter(pk=item.pk)).exists() else None
    if item.state == State.CLAIMED:
        return item if item.claimed_by_id == reviewer.pk else None
    decision = standing(item.sample_id, item.round) if item.state == State.DECIDED else None
    mine = wish.claim is not None and decision is not None and decision.reviewer_id == reviewer.pk
    return item if mine and decision is not None and wish.is_that_of(decision) else None


def _as_read(read: Sample, item: ReviewItem, wish: Wish) -> Sample | None:
    """The sample, locked, if it is what the reviewer read and still waits for this reading."""
    rows = Sample.objects.select_for_update(no_key=True).filter(pk=read.pk)
    if not item.calibration:
        human = HUMAN_OF_ROUND[Round(item.round)]
        rows = rows.filter(~REPLACED, ~OVERTAKEN, machine=Sample.Machine.READY, human=human)
    row = rows.first()
    if row is None or texts_of(row) != texts_of(read):
        return None
    return row if wish.seen in ("", seen_key(row)) else None


def _changed(read: Sample) -> TraceError:
    return TraceError(
        "it was changed, replaced or withdrawn after you opened it.",
        code="conflict",
        where=f"sample {read.pk}",
        hint="Open it again to see how it stands.",
        extra={"sample": read.pk},
    )


def _close(item: ReviewItem, reviewer: Any) -> None:
    """The claim's name stays: it tells the same submission sent twice."""
    item.state, item.decided_by = State.DECIDED, reviewer
    rows = ReviewItem.objects.filter(pk=item.pk)
    rows.update(state=State.DECIDED, decided_by=reviewer, decided_at=Now(), **NOBODYS)


def _written(
    row: Sample, item: ReviewItem, reviewer: Any, wish: Wish, before: dict[str, Any], after: dict[str, Any]
) -> Decision:
    decision = Decision.objects.create(
        sample=row,
        item=item,
        round=item.round,
        take=item.takes,
        reviewer=reviewer,
        verdict=wish.verdict,
        reason=wish.reason,
        note=wish.note,
        follow_up=wish.follow_up,
        seconds=wish.seconds,
        before=before,
        after=after,
    )
    detail = {"reason": wish.reason} if wish.reason else {}
    audit.record(actor=reviewer, action=f"sample.{wish.verdict}", obj=row, detail=detail)
    return decision


def _outcome(row: Sample, item: ReviewItem, reviewer: Any, wish: Wish) -> dict[str, Any]:
    """What becomes of the sample: a next reading, or the end."""
    if item.round == Round.FIRST:
        if not batches.samples_batch(item) and drawn_for_second(row):
            return {"human": Human.SECOND}
        return _final(wish, str(reviewer), How.EDITED if wish.verdict == Verdict.EDIT else wish.how)
    if item.round == Round.THIRD:
        return _final(wish, str(reviewer), How.ADJUDICATED)
    first = standing(row, Round.FIRST)
    if first is None or wish_of(first).outcome != wish.outcome:
        return {"human": Human.DISPUTED}
    return _final(wish, f"{first.reviewer} and {reviewer}"[:200], How.SECOND)


def _final(wish: Wish, by: str, how: str) -> dict[str, Any]:
    if wish.verdict == Verdict.REJECT:
        return {"human": Human.REJECTED}
    return {"human": Human.APPROVED, **wish.texts, "approved_by": by[:200], "approved_how": how}
