"""What reviewers do to a sample: approve, edit, reject, take back; and approval by policy instead of reading.

How a decision comes about: `decisions`. What it takes back: `undoing`. Decisions are append-only rows. Who comes too
late gets TraceError "conflict", and nothing is changed.
"""

import random
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from synthesis.batches import services as batches_services
from synthesis.core.rejections import REASONS
from synthesis.generate import regeneration
from synthesis.models import Batch, Decision, ReviewItem, Sample, SnapshotSample
from synthesis.review.decisions import (
    STATE,
    TEXTS,
    Wish,
    decide,
    decided_before,
    hold_rules,
    seen_key,
    standing,
    texts_of,
    wish_of,
)
from synthesis.review.queue import NOBODYS, take
from synthesis.samples.checks import check
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import emit

__all__ = [
    "REASONS",
    "Wish",
    "approve",
    "check",
    "edit",
    "fits",
    "policy_approve",
    "reject",
    "seen_key",
    "standing",
    "undo",
    "wish_of",
]
Verdict = Decision.Verdict
LONGEST = {"query": 20_000, "trace": 20_000, "note": 2_000}  # characters


def approve(*, sample: Sample | int, reviewer: Any, note: str = "", **shown: Any) -> Sample:
    """Approve the sample as it stands. shown: `claim`, `seen` and `seconds`, see Wish."""
    row = _row(sample)
    return decide(row, reviewer, Wish(Verdict.APPROVE, **texts_of(row), note=note, **shown))


def reject(
    *, sample: Sample | int, reviewer: Any, reason: str, note: str = "", follow_up: str = "drop", **shown: Any
) -> Sample:
    """Reject with a reason; follow_up says whether it is written again with the reason as critique, or dropped."""
    if reason not in REASONS:
        raise _unknown("choose a reason.", "bad_reason", "reason", list(REASONS))
    if follow_up not in Decision.FollowUp.values:
        raise _unknown("choose what follows.", "bad_follow_up", "follow_up", Decision.FollowUp.values)
    if reason == "other" and not note.strip():
        raise TraceError("say in the note what is wrong.", code="no_note", where="note")
    fits(note=note)
    row = _row(sample)
    wish = Wish(Verdict.REJECT, **texts_of(row), reason=reason, note=note, follow_up=follow_up, **shown)
    return decide(row, reviewer, wish)


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
    fits(query=query, trace=trace, note=note)
    row = _row(sample)
    answer = list(row.answer) if answer is None else answer
    wish = Wish(Verdict.EDIT, query, trace, answer, note=note, **shown)
    failures = [] if decided_before(reviewer, wish) else check(sample=row, **wish.texts)
    if failures:
        raise TraceError(
            " ".join(f"{failure.check}: {failure.message}" for failure in failures),
            code="filtered",
            where=f"sample {row.pk}",
            hint="Correct it and try again.",
            extra={"failures": [failure.as_dict() for failure in failures]},
        )
    return decide(row, reviewer, wish)


def fits(**texts: str) -> None:
    """Raises TraceError "too_long" for a text that nobody would read, before a filter has to."""
    for name, text in texts.items():
        if len(text) > LONGEST[name]:
            raise TraceError(
                f"the {name} has {len(text):,} characters; {LONGEST[name]:,} fit.",
                code="too_long",
                where=name,
            )


def _row(sample: Sample | int) -> Sample:
    if isinstance(sample, Sample):
        return sample
    found = Sample.objects.select_related("rule_version__rule").filter(pk=sample).first()
    if found is None:
        raise TraceError(f"there is no sample {sample}.", code="no_such_sample", where=f"sample {sample}")
    return found


def _unknown(message: str, code: str, where: str, known: list[str]) -> TraceError:
    return TraceError(message, code=code, where=where, hint=f"One of: {', '.join(known)}.")


# Taking one's own last decision back: one more row of the decisions, and the item is the reviewer's again.


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
    regeneration.take_back(row)
    _take_back(decision, item, row)
    item.refresh_from_db()
    batches_services.taken_back(item, decision)
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
    audit_models.record(
        actor=decision.reviewer, action="sample.undo", obj=row, detail={"undoes": decision.pk}
    )


def _before(decision: Decision, row: Sample) -> dict[str, Any]:
    """The sample as it was; a text that somebody else has written since stays."""
    kept = [name for name in TEXTS if getattr(row, name) != decision.after[name]]
    return {name: getattr(row, name) if name in kept else decision.before[name] for name in STATE}


# Approval by an explicit, audited policy instead of reading.


WAITING = ReviewItem.objects.filter(
    ~Q(batch__state=Batch.State.SAMPLING) | Q(batch=None),  # a batch has a plan of its own
    state=ReviewItem.State.OPEN,
    round=ReviewItem.Round.FIRST,
    calibration=False,
)


@transaction.atomic
def policy_approve(*, count: int | None, actor: Any = None, seed: int = 0) -> dict[str, int]:
    """Approve `count` waiting samples by lot, or all of them; what somebody has claimed is theirs to read."""
    versions = set(WAITING.order_by().values_list("rule_version", flat=True).distinct())
    hold_rules(versions)
    known = WAITING.filter(Q(rule_version=None) | Q(rule_version__in=versions)).order_by("sample")
    items = list(known.select_for_update(skip_locked=True, no_key=True, of=("self",)))
    asked = len(items) if count is None else min(count, len(items))
    chosen = items if count is None else random.Random(seed).sample(items, asked)
    how = "all" if count is None else f"{count} by lot, seed {seed}"
    policy = f"auto-approve {how}: {asked} of {len(items)} waiting, none read"
    _approve(chosen, policy, actor)
    return {"approved": len(chosen), "waiting": len(items) - len(chosen)}


def _approve(items: list[ReviewItem], policy: str, actor: Any) -> None:
    after = {
        "human": Sample.Human.APPROVED,
        "approved_by": f"policy {policy}"[:200],
        "approved_how": Sample.How.POLICY,
    }
    samples = Sample.objects.filter(pk__in=[item.sample_id for item in items])
    before = {pk: {"human": human, "approved_by": by} for pk, human, by in _state(samples)}
    # decided, so that an item which somebody opens again waits for a decision of its own
    ended = ReviewItem.objects.filter(pk__in=[item.pk for item in items])
    ended.update(state=ReviewItem.State.DECIDED, decided_at=Now())
    samples.update(**after)
    Decision.objects.bulk_create(
        (
            Decision(
                sample_id=item.sample_id,
                item=item,
                take=item.takes,
                reviewer=actor,
                policy=policy,
                verdict=Decision.Verdict.APPROVE,
                before=before[item.sample_id],
                after=after,
            )
            for item in items
        ),
        batch_size=1000,
    )
    if items:
        detail = {"policy": policy, "samples": len(items)}
        audit_models.record(actor=actor, action="review.policy", obj=items[0].sample, detail=detail)
        emit("sample.approved", {"count": len(items), "sample": None, "by": f"policy {policy}"})


def _state(samples: Any) -> Any:
    return samples.values_list("pk", "human", "approved_by")
