"""Decisions about samples: one a reading, by the one who holds the item, in one transaction.

A first reading is final unless the sample is drawn for a second, which is blind: it shows the sample as the machine
made it. Two readings that ask for the same end it, others go to a third person. Decisions are append-only rows; an
undo is one more of them. Who comes too late gets TraceError "conflict", and nothing is changed.
"""

import random
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from synthesis.checks import check
from synthesis.claims import open_to
from synthesis.core.rejections import REASONS
from synthesis.models import Decision, ReviewItem, Sample
from synthesis.second_shares import drawn_for_second
from trace_site import audit
from trace_site.lib.errors import TraceError
from trace_site.webhooks import emit

TEXTS = ("query", "trace", "answer")
STATE = ("human", *TEXTS, "approved_by", "approved_how")
Verdict, Human, How, Round = Decision.Verdict, Sample.Human, Sample.How, ReviewItem.Round
HUMAN_OF_ROUND = {Round.FIRST: Human.PENDING, Round.SECOND: Human.SECOND, Round.THIRD: Human.DISPUTED}


@dataclass(frozen=True, slots=True)
class Wish:
    """What a reviewer asks for."""

    verdict: str
    query: str
    trace: str
    answer: list[str]
    reason: str = ""
    note: str = ""
    follow_up: str = ""
    claim: uuid.UUID | str | None = None  # the claim the item was shown under; None: no page was shown
    seconds: float | None = None

    @property
    def outcome(self) -> tuple[Any, ...]:
        """Two readings agree when this is equal: the same refusal, or approval of the same texts."""
        return (
            (Verdict.REJECT,)
            if self.verdict == Verdict.REJECT
            else (self.query, self.trace, tuple(self.answer))
        )


def approve(*, sample: Sample | int, reviewer: Any, note: str = "", **shown: Any) -> Sample:
    """shown: `claim` and `seconds`, see Wish."""
    row = _row(sample)
    return _decide(row, reviewer, Wish(Verdict.APPROVE, row.query, row.trace, row.answer, note=note, **shown))


def reject(
    *, sample: Sample | int, reviewer: Any, reason: str, note: str = "", follow_up: str = "drop", **shown: Any
) -> Sample:
    """Reject with a reason; follow_up says whether it is written again with the reason as critique, or dropped."""
    if reason not in REASONS:
        raise TraceError(
            "choose a reason.", code="bad_reason", where="reason", hint=f"One of: {', '.join(REASONS)}."
        )
    if follow_up not in Decision.FollowUp.values:
        raise TraceError(
            "choose what follows.",
            code="bad_follow_up",
            where="follow_up",
            hint=f"One of: {', '.join(Decision.FollowUp.values)}.",
        )
    row = _row(sample)
    texts = {name: getattr(row, name) for name in TEXTS}
    wish = Wish(Verdict.REJECT, **texts, reason=reason, note=note, follow_up=follow_up, **shown)
    return _decide(row, reviewer, wish)


def edit(
    *,
    sample: Sample | int,
    reviewer: Any,
    query: str,
    trace: str,
    answer: list[str] | None = None,
    note: str = "",
    **shown: Any,
) -> Sample:
    """Correct and approve in one step; what the filter refuses is not taken."""
    row = _row(sample)
    answer = list(row.answer) if answer is None else answer
    if failures := check(sample=row, query=query, trace=trace, answer=answer):
        raise TraceError(
            " ".join(f"{failure.check}: {failure.message}" for failure in failures),
            code="filtered",
            where=f"sample {row.pk}",
            hint="Correct it and try again.",
            extra={"failures": [failure.as_dict() for failure in failures]},
        )
    return _decide(row, reviewer, Wish(Verdict.EDIT, query, trace, answer, note=note, **shown))


def undo(*, reviewer: Any) -> Sample:
    """Take back one's own last decision that still stands; its item is the reviewer's again."""
    with transaction.atomic():
        for decision in Decision.objects.filter(reviewer=reviewer, policy="").order_by("-pk")[:200]:
            if decision.verdict != Verdict.UNDO and not undone(decision):
                return _take_back(decision, reviewer)
    raise TraceError("you have no decision to undo.", code="nothing_to_undo")


def undone(decision: Decision) -> bool:
    return Decision.objects.filter(
        sample=decision.sample_id, verdict=Verdict.UNDO, after__undoes=decision.pk
    ).exists()


def standing(sample: Sample | int, round: int) -> Decision | None:
    """The decision of a round that was not taken back."""
    rows = Decision.objects.filter(sample=sample, round=round, policy="").exclude(verdict=Verdict.UNDO)
    newest = rows.order_by("-take").first()
    return None if newest is None or undone(newest) else newest


def _take_back(decision: Decision, reviewer: Any) -> Sample:
    item = ReviewItem.objects.select_for_update().filter(pk=decision.item_id or 0).first()
    row = Sample.objects.select_for_update(no_key=True).get(pk=decision.sample_id)
    later = Decision.objects.filter(sample=row, pk__gt=decision.pk).exclude(verdict=Verdict.UNDO)
    calibration = item is not None and item.calibration
    if item is None or later.exists() or not (calibration or row.human == decision.after["human"]):
        raise _conflict(row.pk)
    before = {name: decision.before[name] for name in STATE}
    Decision.objects.create(
        sample=row,
        item=item,
        round=decision.round,
        take=decision.take,
        reviewer=reviewer,
        verdict=Verdict.UNDO,
        before=decision.after,
        after={**before, "undoes": decision.pk},
    )
    if calibration:
        item.takes += 1
        item.state, item.decided_by, item.decided_at = ReviewItem.State.OPEN, None, None
        item.save(update_fields=["takes", "state", "decided_by", "decided_at"])
    else:  # the trigger opens the item of this round again and withdraws the next one
        Sample.objects.filter(pk=row.pk).update(**before)
    audit.record(actor=reviewer, action="sample.undo", obj=row, detail={"undoes": decision.pk})
    return Sample.objects.get(pk=row.pk)


def _row(sample: Sample | int) -> Sample:
    if isinstance(sample, Sample):
        return sample
    rows = Sample.objects.select_related("rule_version__rule")
    found = rows.filter(pk=sample).first()
    if found is None:
        raise TraceError(f"there is no sample {sample}.", code="no_such_sample", where=f"sample {sample}")
    return found


@transaction.atomic
def _decide(read: Sample, reviewer: Any, wish: Wish) -> Sample:
    """End the reading that waits, or lose to whoever came first."""
    item = _locked_item(read, reviewer, wish)
    if item.state == ReviewItem.State.DECIDED:  # the same submission once more
        return Sample.objects.get(pk=read.pk)
    row = Sample.objects.select_for_update(no_key=True).get(pk=read.pk)
    # what was read must be what is decided: a text changed in between is a conflict too
    if any(getattr(row, name) != getattr(read, name) for name in TEXTS):
        raise _conflict(row.pk)
    item.state, item.decided_by, item.claimed_by, item.claimed_until = (
        ReviewItem.State.DECIDED,
        reviewer,
        None,
        None,
    )
    item.save(update_fields=["state", "decided_by", "claimed_by", "claimed_until"])
    ReviewItem.objects.filter(pk=item.pk).update(decided_at=Now())
    before = {name: getattr(row, name) for name in STATE}
    changes = {} if item.calibration else _outcome(row, item, reviewer, wish)
    Sample.objects.filter(pk=row.pk).update(**changes)
    asked = {name: getattr(wish, name) for name in TEXTS}
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
        after={**before, **changes, **asked},
    )
    audit.record(
        actor=reviewer,
        action=f"sample.{wish.verdict}",
        obj=row,
        detail={"reason": wish.reason} if wish.reason else {},
    )
    row = Sample.objects.get(pk=row.pk)
    _follow(row, item, decision)
    return row


def _follow(row: Sample, item: ReviewItem, decision: Decision) -> None:
    """What a decision sets off, in its transaction."""
    if row.human == Human.APPROVED:
        emit("sample.approved", {"count": 1, "sample": row.pk, "by": row.approved_by})


def _locked_item(sample: Sample, reviewer: Any, wish: Wish) -> ReviewItem:
    """The waiting item of a sample, locked, if it is this reviewer's to decide; or the one this submission decided."""
    items = list(ReviewItem.objects.select_for_update().filter(sample=sample).order_by("-round"))
    for item in items:
        if (
            item.state == ReviewItem.State.DECIDED
            and item.decided_by_id == reviewer.pk
            and _replayed(item, wish)
        ):
            return item
        mine = item.state == ReviewItem.State.CLAIMED and item.claimed_by_id == reviewer.pk
        if mine and (wish.claim is None or str(item.claim) == str(wish.claim)):
            return item
        if (
            item.state == ReviewItem.State.OPEN
            and open_to(reviewer, ReviewItem.objects.filter(pk=item.pk)).exists()
        ):
            return item
    raise _conflict(sample.pk)


def _replayed(item: ReviewItem, wish: Wish) -> bool:
    """Whether this submission is the one that decided the item: sent twice, answered twice, counted once."""
    decision = standing(item.sample_id, item.round)
    asked = {name: getattr(wish, name) for name in TEXTS}
    return (
        wish.claim is not None
        and str(item.claim) == str(wish.claim)
        and decision is not None
        and (decision.verdict, decision.reason) == (wish.verdict, wish.reason)
        and all(decision.after[name] == asked[name] for name in TEXTS)
    )


def _outcome(row: Sample, item: ReviewItem, reviewer: Any, wish: Wish) -> dict[str, Any]:
    """What becomes of the sample: a next reading, or the end."""
    if item.round == Round.FIRST:
        if item.batch_id is None and drawn_for_second(row):
            return {"human": Human.SECOND}
        return _final(wish, str(reviewer), How.EDITED if wish.verdict == Verdict.EDIT else How.READ)
    if item.round == Round.THIRD:
        return _final(wish, str(reviewer), How.ADJUDICATED)
    first = standing(row, Round.FIRST)
    if first is None or wish_of(first).outcome != wish.outcome:
        return {"human": Human.DISPUTED}
    return _final(wish, f"{first.reviewer} and {reviewer}"[:200], How.SECOND)


def wish_of(decision: Decision) -> Wish:
    """What a decision asked for."""
    asked = {name: decision.after[name] for name in TEXTS}
    return Wish(
        decision.verdict, **asked, reason=decision.reason, note=decision.note, follow_up=decision.follow_up
    )


def _final(wish: Wish, by: str, how: str) -> dict[str, Any]:
    if wish.verdict == Verdict.REJECT:
        return {"human": Human.REJECTED}
    texts = {name: getattr(wish, name) for name in TEXTS}
    return {"human": Human.APPROVED, **texts, "approved_by": by, "approved_how": how}


def _conflict(sample: int) -> TraceError:
    return TraceError(
        "somebody else has it, or has decided it meanwhile.",
        code="conflict",
        where=f"sample {sample}",
        hint="Take the next one.",
    )


@transaction.atomic
def policy_approve(*, count: int | None, actor: Any = None, seed: int = 0) -> dict[str, int]:
    """Approve by an explicit, audited policy instead of reading: `count` waiting samples by lot, or all of them."""
    items = ReviewItem.objects.filter(state=ReviewItem.State.OPEN, round=Round.FIRST, calibration=False)
    locked = items.select_for_update(skip_locked=True).order_by("sample").values_list("sample", flat=True)
    rows = list(Sample.objects.filter(pk__in=list(locked)).order_by("pk").only("pk", *STATE))
    asked = len(rows) if count is None else min(count, len(rows))
    chosen = rows if count is None else random.Random(seed).sample(rows, asked)
    how = "all" if count is None else f"{count} by lot, seed {seed}"
    policy = f"auto-approve {how}: {asked} of {len(rows)} waiting, none read"
    Sample.objects.filter(pk__in=[row.pk for row in chosen]).update(
        human=Human.APPROVED, approved_by=f"policy {policy}"[:200], approved_how=How.POLICY
    )
    after = {"human": Human.APPROVED, "approved_by": f"policy {policy}"[:200], "approved_how": How.POLICY}
    Decision.objects.bulk_create(
        (
            Decision(
                sample=row,
                reviewer=actor,
                policy=policy,
                verdict=Verdict.APPROVE,
                before={"human": row.human, "approved_by": row.approved_by},
                after=after,
            )
            for row in chosen
        ),
        batch_size=1000,
    )
    if chosen:
        audit.record(
            actor=actor,
            action="review.policy",
            obj=chosen[0],
            detail={"policy": policy, "samples": len(chosen)},
        )
        emit("sample.approved", {"count": len(chosen), "sample": None, "by": f"policy {policy}"})
    return {"approved": len(chosen), "waiting": len(rows) - len(chosen)}
