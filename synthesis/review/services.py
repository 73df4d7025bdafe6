"""What reviewers do to a sample: approve, edit, reject, take back; and approval by policy instead of reading.

One decision a reading, by the one who holds the item, in one transaction. A first reading is final unless the sample
is drawn for a second, which is blind: it shows the sample as the machine made it. Two readings that ask for the same
end it, others go to a third person. The item's row is what two submissions meet at: the same one sent twice is one
decision, another one too late is TraceError "conflict" and changes nothing.
"""

import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.urls import reverse

from catalog.core.scrubbing.scrub import scrub
from synthesis.batches import services as batches_services
from synthesis.generate import regeneration
from synthesis.models import Batch, Decision, ReviewItem, Sample, SnapshotSample
from synthesis.quality.second import drawn_for_second
from synthesis.review.queue import NOBODYS, conflict, open_to, reviewers, take
from synthesis.samples import rejections
from synthesis.samples.checks import check
from synthesis.samples.decisions import (
    TEXTS,
    approve_unread,
    decision_write,
    own_decisions,
    seen_key,
    standing_decisions,
    texts_of,
)
from synthesis.samples.rejections import REASONS
from synthesis.samples.staleness import OVERTAKEN, REPLACED
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice, mark_read, tell
from trace_site.webhooks.services import emit

Verdict, Human, How = Decision.Verdict, Sample.Human, Sample.How
Round, State = ReviewItem.Round, ReviewItem.State
LONGEST = {"query": 20_000, "trace": 20_000, "note": 2_000}  # characters
STATE = ("human", *TEXTS, "approved_by", "approved_how")
HUMAN_OF_ROUND = {Round.FIRST: Human.PENDING, Round.SECOND: Human.SECOND, Round.THIRD: Human.DISPUTED}


def approve(*, sample: Sample | int, reviewer: Any, note: str = "", **shown: Any) -> Sample:
    """Approve the sample as it stands. shown: see `decide`."""
    row = _row(sample)
    asked = Decision(reviewer=reviewer, verdict=Verdict.APPROVE, note=note, after=texts_of(row))
    return decide(row, asked, **shown)


def reject(
    *, sample: Sample | int, reviewer: Any, reason: str, note: str = "", follow_up: str = "drop", **shown: Any
) -> Sample:
    """Reject with a reason; follow_up says whether it is written again with the reason as critique, or dropped."""
    if reason not in REASONS:
        hint = f"One of: {', '.join(REASONS)}."
        raise TraceError("choose a reason.", code="bad_reason", where="reason", hint=hint)
    if follow_up not in Decision.FollowUp.values:
        hint = f"One of: {', '.join(Decision.FollowUp.values)}."
        raise TraceError("choose what follows.", code="bad_follow_up", where="follow_up", hint=hint)
    if reason == "other" and not note.strip():
        raise TraceError("say in the note what is wrong.", code="no_note", where="note")
    fits(note=note)
    row = _row(sample)
    told = {"reason": reason, "note": note, "follow_up": follow_up}
    asked = Decision(reviewer=reviewer, verdict=Verdict.REJECT, **told, after=texts_of(row))
    return decide(row, asked, **shown)


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
    if (done := scrub(query, known=row.query)).found:  # what the edit adds
        query = done.text
    texts: dict[str, Any] = {"query": query, "trace": trace}
    texts["answer"] = list(row.answer) if answer is None else answer
    asked = Decision(reviewer=reviewer, verdict=Verdict.EDIT, note=note, after=texts)
    if not _decided_before(asked, shown.get("claim")) and (failures := check(sample=row, **texts)):
        raise TraceError(
            " ".join(f"{failure.check}: {failure.message}" for failure in failures),
            code="filtered",
            where=f"sample {row.pk}",
            hint="Correct it and try again.",
            extra={"failures": [failure.as_dict() for failure in failures]},
        )
    return decide(row, asked, **shown)


def fits(**texts: str) -> None:
    """Raises TraceError "too_long" for a text that nobody would read, before a filter has to."""
    for name, text in texts.items():
        if len(text) > LONGEST[name]:
            message = f"the {name} has {len(text):,} characters; {LONGEST[name]:,} fit."
            raise TraceError(message, code="too_long", where=name)


def _row(sample: Sample | int) -> Sample:
    if isinstance(sample, Sample):
        return sample
    found = Sample.objects.select_related("rule_version__rule").filter(pk=sample).first()
    if found is None:
        raise TraceError(f"there is no sample {sample}.", code="no_such_sample", where=f"sample {sample}")
    return found


@transaction.atomic
def decide(
    read: Sample,
    asked: Decision,
    *,
    claim: uuid.UUID | str | None = None,
    seen: str = "",
    seconds: float | None = None,
    how: str = How.READ,
) -> Sample:
    """End the reading that waits, or lose to whoever came first. Raises TraceError "conflict".

    read: the sample as the reviewer knows it. asked: not saved yet, `after` holds the texts. claim: the one the item
    was shown under; None: no page was shown. seen: `seen_key` of what was on screen, empty: not told. seconds: from
    the item on screen to the decision. how: as what an approval without an edit counts.
    """
    reviewer, texts = asked.reviewer, asked.after
    hold_rules([read.rule_version_id])
    rows = ReviewItem.objects.select_for_update(no_key=True).filter(sample=read.pk)
    items = list(rows.order_by("-round"))
    item = _meant(items, asked, claim)
    if item is None:
        raise conflict(items, reviewer)
    if item.state == State.DECIDED:  # the same submission once more
        return Sample.objects.get(pk=read.pk)
    row = _as_read(read, item, seen)
    # the claim's name stays: it tells the same submission sent twice
    ended = {"state": State.DECIDED, "decided_by": reviewer, "decided_at": Now(), **NOBODYS}
    ReviewItem.objects.filter(pk=item.pk).update(**ended)
    before = {name: getattr(row, name) for name in STATE}
    changes = {} if item.calibration else _outcome(row, item, asked, how)
    if changes:  # the trigger opens the next reading
        Sample.objects.filter(pk=row.pk).update(**changes)
    asked.sample, asked.item, asked.round, asked.take = row, item, item.round, item.takes
    asked.seconds, asked.before, asked.after = seconds, before, {**before, **changes, **texts}
    decision_write(asked, {"reason": asked.reason} if asked.reason else {})
    for name, value in changes.items():
        setattr(row, name, value)
    if row.human == Human.APPROVED:
        emit("sample.approved", {"count": 1, "sample": row.pk, "by": row.approved_by})
    if row.human == Human.REJECTED and not item.calibration:
        rejections.tell_author(row, asked)
        if asked.follow_up == Decision.FollowUp.REGENERATE:
            regeneration.ask(row, asked)
    batches_services.decided(item, reviewer)
    return row


def hold_rules(versions: Iterable[int | None]) -> None:
    """Until the end of the transaction nobody publishes or withdraws a rule of these versions.

    The order of locks is rule, items of the queue (newest sample first, highest round first), sample. Whoever publishes
    a rule takes its row first as well, so that a decision falls wholly before or wholly after it.
    """
    wanted = [version for version in versions if version is not None]
    of = "SELECT rule_id FROM rules_ruleversion WHERE id = ANY(%s)"
    if wanted:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM rules_rule WHERE id IN ({of}) ORDER BY id FOR SHARE", [wanted])


def outcome(verdict: str, texts: Mapping[str, Any]) -> tuple[Any, ...]:
    """Two readings agree when this is equal: the same refusal, or approval of the same texts."""
    if verdict == Verdict.REJECT:
        return (verdict,)
    return texts["query"], texts["trace"], tuple(texts["answer"])


def _decided_before(asked: Decision, claim: uuid.UUID | str | None) -> bool:
    """Whether this very submission has been decided already: texts count where the reviewer typed them."""
    if claim is None:
        return False
    mine = standing_decisions().filter(reviewer=asked.reviewer, item__claim=claim).first()
    told = ("verdict", "reason", "note", "follow_up")
    if mine is None or any(getattr(mine, name) != getattr(asked, name) for name in told):
        return False
    return asked.verdict != Verdict.EDIT or all(mine.after[name] == asked.after[name] for name in TEXTS)


def _meant(items: Sequence[ReviewItem], asked: Decision, claim: uuid.UUID | str | None) -> ReviewItem | None:
    """Which of a sample's locked items is decided: the one whose claim the page brought, else the one that waits. None
    where it is not the reviewer's to decide. A decided one is given back when this very submission decided it.
    """
    if claim is None:
        item = next((item for item in items if item.state in (State.OPEN, State.CLAIMED)), None)
    else:
        item = next((item for item in items if str(item.claim) == str(claim)), None)
    if item is None:
        return None
    if item.state == State.OPEN:  # never claimed, or the lease ran out and nobody took it
        mine = open_to(asked.reviewer, ReviewItem.objects.filter(pk=item.pk)).exists()
    elif item.state == State.CLAIMED:
        mine = item.claimed_by_id == asked.reviewer_id
    else:
        mine = item.state == State.DECIDED and _decided_before(asked, claim)
    return item if mine else None


def _as_read(read: Sample, item: ReviewItem, seen: str) -> Sample:
    """The sample, locked. Raises TraceError when it is not what was read, or waits for this reading no more."""
    rows = Sample.objects.select_for_update(no_key=True).filter(pk=read.pk)
    if not item.calibration:
        human = HUMAN_OF_ROUND[Round(item.round)]
        rows = rows.filter(~REPLACED, ~OVERTAKEN, machine=Sample.Machine.READY, human=human)
    row = rows.first()
    if row is None or texts_of(row) != texts_of(read) or seen not in ("", seen_key(row)):
        raise TraceError(
            "it was changed, replaced or withdrawn after you opened it.",
            code="conflict",
            where=f"sample {read.pk}",
            hint="Open it again to see how it stands.",
            extra={"sample": read.pk},
        )
    return row


def _outcome(row: Sample, item: ReviewItem, asked: Decision, how: str) -> dict[str, Any]:
    """What becomes of the sample: a next reading, or the end."""
    by = str(asked.reviewer)
    if item.round == Round.FIRST:
        counts_for_batch = item.batch is not None and item.batch.state == Batch.State.SAMPLING
        if not counts_for_batch and drawn_for_second(row):
            return {"human": Human.SECOND}
        how = How.EDITED if asked.verdict == Verdict.EDIT else how
    elif item.round == Round.SECOND:
        first = standing_decisions().filter(sample=row, round=Round.FIRST, policy="").first()
        if first is None or outcome(first.verdict, first.after) != outcome(asked.verdict, asked.after):
            return {"human": Human.DISPUTED}
        by, how = f"{first.reviewer} and {by}", How.SECOND
    else:
        how = How.ADJUDICATED
    if asked.verdict == Verdict.REJECT:
        return {"human": Human.REJECTED}
    return {"human": Human.APPROVED, **asked.after, "approved_by": by[:200], "approved_how": how}


# Taking one's own last decision back: one more row of the decisions, and the item is the reviewer's again.


@transaction.atomic
def undo(*, reviewer: Any) -> Sample:
    """Take back one's own last decision that still stands; its item is claimed by the reviewer again. Raises TraceError
    "nothing_to_undo", "conflict" after a next reading, "in_snapshot" when it is part of a dataset.
    """
    decision = own_decisions(reviewer).select_related("sample").first()
    if decision is None:
        raise TraceError("you have no decision to undo.", code="nothing_to_undo")
    hold_rules([decision.sample.rule_version_id])
    items = ReviewItem.objects.select_for_update(no_key=True).filter(sample=decision.sample_id)
    item = next(item for item in items.order_by("-round") if item.pk == decision.item_id)
    row = Sample.objects.select_for_update(no_key=True).get(pk=decision.sample_id)
    _check_undo(decision, item, row)
    regeneration.take_back(row)
    # the sample as it was; a text that somebody else has written since stays
    before = {name: decision.before[name] for name in STATE}
    before |= {name: now for name, now in texts_of(row).items() if now != decision.after[name]}
    undone = {"item": item, "round": decision.round, "take": decision.take, "before": decision.after}
    after = {**before, "undoes": decision.pk}
    decision_write(
        Decision(sample=row, reviewer=reviewer, verdict=Verdict.UNDO, **undone, after=after),
        {"undoes": decision.pk},
    )
    state = State.OPEN if item.calibration else State.WITHDRAWN  # the trigger opens it again if it waits
    again = {"state": state, "takes": F("takes") + 1, "claim": None, "decided_by": None, "decided_at": None}
    ReviewItem.objects.filter(pk=item.pk).update(**again, **NOBODYS)
    if not item.calibration:
        Sample.objects.filter(pk=row.pk).update(**before)
    item.refresh_from_db()
    batches_services.taken_back(item, decision)
    if item.state == State.OPEN:  # withdrawn where a newer rule or sample has taken its place meanwhile
        take(item, reviewer)
    return Sample.objects.get(pk=row.pk)


def _check_undo(decision: Decision, item: ReviewItem, row: Sample) -> None:
    """Raise what stands in the way of an undo, now that the rows are locked."""
    code, hint = "", "Say what is wrong in a comment on the sample."
    if item.state != State.DECIDED or item.takes != decision.take:
        code, why, hint = "nothing_to_undo", "your last decision was taken back a moment ago.", ""
    elif item.calibration:
        return
    elif row.human != decision.after["human"]:
        code, why = "conflict", "your reading was followed by another one, so it can no longer be taken back."
    elif frozen := SnapshotSample.objects.filter(sample=row).order_by("-snapshot").first():
        code, why = "in_snapshot", f"it is part of snapshot {frozen.snapshot_id}, which stays as it is."
    if code:
        raise TraceError(why, code=code, where=f"sample {row.pk}", hint=hint, extra={"sample": row.pk})


@transaction.atomic
def policy_approve(*, count: int | None, actor: Any = None, seed: int = 0) -> dict[str, int]:
    """Approve `count` waiting samples by lot, or all of them, unread and audited; what somebody has claimed is theirs
    to read.
    """
    unplanned = ~Q(batch__state=Batch.State.SAMPLING) | Q(batch=None)  # a batch has a plan of its own
    waiting = ReviewItem.objects.filter(unplanned, state=State.OPEN, round=Round.FIRST, calibration=False)
    versions = set(waiting.order_by().values_list("rule_version", flat=True).distinct())
    hold_rules(versions)
    known = waiting.filter(Q(rule_version=None) | Q(rule_version__in=versions)).order_by("sample")
    items = list(known.select_for_update(skip_locked=True, no_key=True, of=("self",)))
    asked = len(items) if count is None else min(count, len(items))
    chosen = items if count is None else random.Random(seed).sample(items, asked)
    lot = "all" if count is None else f"{count} by lot, seed {seed}"
    policy = f"auto-approve {lot}: {asked} of {len(items)} waiting, none read"
    rows = [(item.sample_id, item.pk) for item in chosen]
    approve_unread(rows, policy=policy, by=f"policy {policy}", how=How.POLICY, reviewer=actor)
    if chosen:
        detail = {"policy": policy, "samples": len(chosen)}
        audit_models.record(actor=actor, action="review.policy", obj=chosen[0].sample, detail=detail)
    return {"approved": len(chosen), "waiting": len(items) - len(chosen)}


# Tells those who may adjudicate that samples wait for it: one notice a person, however many samples.
#
# A sweeper rather than a line in the decision that makes the dispute: decisions of many reviewers then never wait for
# each other's notices, and the number told is the number that waits.


NOTICE = "adjudication"
MOST = 1000  # disputes that are looked at


def tell_adjudicators() -> int:
    """Bring everybody's notice in step with what waits for them; how many were told."""
    disputes = ReviewItem.objects.filter(state=State.OPEN, rank=0, round=Round.THIRD)
    rows = list(disputes.order_by("-id").values_list("sample", "opened_at", "assigned_to")[:MOST])
    if not rows:
        mark_read(Notice.objects.filter(key=NOTICE))
        return 0
    read = ReviewItem.objects.filter(sample__in=[row[0] for row in rows], decided_by__isnull=False)
    readings = set(read.values_list("sample", "decided_by"))
    told = 0
    for person in reviewers():
        mine = (row for row in rows if row[2] in (None, person.pk) and (row[0], person.pk) not in readings)
        opened = [at for _, at, _ in mine]
        notices = Notice.objects.filter(recipient=person, key=NOTICE)
        if not opened:
            mark_read(notices)
            continue
        last = notices.order_by("-id").first()
        unread = last is not None and last.read_at is None
        count = len(opened)
        more = " or more" if count == MOST else ""
        text = "1 sample waits" if count == 1 else f"{count:,}{more} samples wait"
        text += " for adjudication: two readings disagree."
        # a notice still unread gets the new number; a read one is followed by another when a dispute is newer
        if last is None or (last.text != text if unread else max(opened) > last.at):
            tell([person], "adjudication", text, link=f"{reverse('synthesis:review')}?round=3", key=NOTICE)
            told += 1
    return told
