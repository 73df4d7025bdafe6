"""One decision a reading, by the one who holds the item, in one transaction.

A first reading is final unless the sample is drawn for a second, which is blind: it shows the sample as the machine
made it. Two readings that ask for the same end it, others go to a third person. The item's row is what two submissions
meet at: the same one sent twice is one decision, another one too late is TraceError "conflict" and changes nothing.
"""

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from synthesis.batches import services as batches_services
from synthesis.generate import regeneration
from synthesis.models import Decision, ReviewItem, Sample, SecondShare
from synthesis.review.queue import NOBODYS, conflict, open_to
from synthesis.samples import rejections
from synthesis.samples.standing import OVERTAKEN, REPLACED
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from trace_site.webhooks.services import emit

# What a reviewer asks for: the verdict, the texts that stand in it, and under which claim it was shown.


TEXTS = ("query", "trace", "answer")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a reviewer asks for.

    claim: the claim the item was shown under; None: no page was shown. seen: `seen_key` of what was on screen, empty:
    not told. seconds: from the item on screen to the decision. how: as what an approval without an edit counts.
    """

    verdict: str
    query: str
    trace: str
    answer: list[str]
    reason: str = ""
    note: str = ""
    follow_up: str = ""
    claim: uuid.UUID | str | None = None
    seen: str = ""
    seconds: float | None = None
    how: str = Sample.How.READ

    @property
    def outcome(self) -> tuple[Any, ...]:
        """Two readings agree when this is equal: the same refusal, or approval of the same texts."""
        if self.verdict == Decision.Verdict.REJECT:
            return (self.verdict,)
        return (self.query, self.trace, tuple(self.answer))

    @property
    def texts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in TEXTS}

    def is_that_of(self, decision: Decision) -> bool:
        """Whether the decision came from this very submission. Texts count where the reviewer typed them."""
        said = (decision.verdict, decision.reason, decision.note, decision.follow_up)
        if said != (self.verdict, self.reason, self.note, self.follow_up):
            return False
        typed = self.verdict == Decision.Verdict.EDIT
        return not typed or all(decision.after[name] == asked for name, asked in self.texts.items())


def texts_of(sample: Sample) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in TEXTS}


def wish_of(decision: Decision) -> Wish:
    """What a decision asked for."""
    asked = {name: decision.after[name] for name in TEXTS}
    return Wish(
        decision.verdict, **asked, reason=decision.reason, note=decision.note, follow_up=decision.follow_up
    )


def seen_key(sample: Sample) -> str:
    """Names the text a person has on screen, so that nobody approves words they did not see."""
    return content_hash([sample.query, sample.trace, sample.answer])[:16]


# Which samples get a blind second reading: a share per domain and style, drawn by lot over the samples' keys.


def drawn_for_second(sample: Sample) -> bool:
    """The same answer for the same sample and share, whoever asks and when."""
    return _place(sample.key) < share_of(sample.domain_id, sample.style)


def share_of(domain: str, style: str) -> float:
    """The most specific share set: domain and style, then domain, then style, then all; 0 where none is."""
    rows = SecondShare.objects.filter(Q(domain=None) | Q(domain=domain), style__in={style, ""})
    row = rows.order_by(F("domain").asc(nulls_last=True), "-style").first()
    return row.share if row else 0.0


def _place(key: str) -> float:
    """A sample's place in the draw, in [0, 1)."""
    return int.from_bytes(hashlib.sha256(f"second|{key}".encode()).digest()[:8]) / 2**64


# Rules kept as they are while what follows from them is decided.
#
# The order of locks is rule, items of the queue (newest sample first, highest round first), sample. Whoever publishes a
# rule takes its row first as well, so that a decision falls wholly before or wholly after it.


HOLD = """
SELECT 1 FROM rules_rule WHERE id IN (SELECT rule_id FROM rules_ruleversion WHERE id = ANY(%s)) ORDER BY id FOR SHARE
"""


def hold_rules(versions: Iterable[int | None]) -> None:
    """Until the end of the transaction nobody publishes or withdraws a rule of these versions."""
    wanted = [version for version in versions if version is not None]
    if wanted:
        with connection.cursor() as cursor:
            cursor.execute(HOLD, [wanted])


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
            regeneration.ask(row, decision)
    batches_services.decided(item, decision.reviewer)


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
    audit_models.record(actor=reviewer, action=f"sample.{wish.verdict}", obj=row, detail=detail)
    return decision


def _outcome(row: Sample, item: ReviewItem, reviewer: Any, wish: Wish) -> dict[str, Any]:
    """What becomes of the sample: a next reading, or the end."""
    if item.round == Round.FIRST:
        if not batches_services.samples_batch(item) and drawn_for_second(row):
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
