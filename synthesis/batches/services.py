"""Acceptance sampling: of a lot of samples of one rule version some are read by lot, and the lot stands or falls.

A reader who edits or rejects has found a defect. At most `accept` defects when all drawn ones are read: the rest is
approved unread, and every sample says so. More: the rest is opened and read like any other. Whatever happens to the
lot from outside (the rule has a newer version, a drawn sample is gone) withdraws the batch, and nothing is approved.

Each step is part of the transaction of the decision that causes it. The order of locks is item, sample, batch; of the
rest, which a run may be replacing at this moment, only rows that nobody holds are taken (SKIP LOCKED), so that no
one waits for another. What was held by somebody stays in the queue: `sweep` opens it.
"""

import secrets
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Q
from django.urls import reverse

from rules.models import RuleVersion
from synthesis.batches.selectors import LARGEST_LOT, LISTED, lot_items, progress, published_version
from synthesis.core.acceptance import draw, plan
from synthesis.models import Batch, Decision, ReviewItem, Sample
from synthesis.samples.checks import Checker
from synthesis.samples.decisions import approve_unread
from trace_site.audit import models as audit_models
from trace_site.database import database_now
from trace_site.lib.errors import TraceError
from trace_site.notices.services import tell
from trace_site.webhooks.services import emit

State = Batch.State
HELD, OPEN = ReviewItem.State.HELD, ReviewItem.State.OPEN

REST = """
SELECT i.sample_id, i.id FROM synthesis_reviewitem i JOIN synthesis_sample s ON s.id = i.sample_id
WHERE i.batch_id = %s AND i.state = 'held' AND s.machine = 'ready' AND s.human = 'pending'
ORDER BY i.id FOR NO KEY UPDATE SKIP LOCKED
"""


def decided(item: ReviewItem, actor: Any) -> None:
    """After a decision about an item, in its transaction: count it, and close the batch when it says enough."""
    if item.batch_id is not None:
        batch = _locked(item.batch_id)
        if batch.state == State.SAMPLING:
            _settle(batch, actor)


def taken_back(item: ReviewItem, decision: Decision) -> None:
    """After a decision was undone, in its transaction. Raises TraceError when a closed batch has counted it."""
    if item.batch_id is None:
        return
    batch = _locked(item.batch_id)
    if batch.state == State.SAMPLING:
        _settle(batch, decision.reviewer)
    elif batch.state != State.WITHDRAWN and (batch.closed_at is None or decision.at <= batch.closed_at):
        raise TraceError(
            f"batch {batch.pk} has counted your decision and is closed: {batch.state}.",
            code="batch_closed",
            where=f"sample {decision.sample_id}",
            hint="Say what is wrong in a comment on the sample.",
        )


def batch_withdraw(*, batch: int, actor: Any) -> Batch:
    """Give a batch up before anything of it was read; later that would be a second draw."""
    with transaction.atomic():
        row = _locked(batch)
        read = progress([batch])[batch].read
        if row.state != State.SAMPLING or read:
            raise TraceError(
                f"{read:,} of its samples are read already." if read else "it is closed.",
                code="conflict",
                where=f"batch {batch}",
                hint="Read it to the end." if read else "",
            )
        _withdraw(row, actor, "given up before anything was read")
    return row


def sweep() -> int:
    """Withdraw batches whose drawn samples are gone, open what a closed batch could not take; how many were met."""
    gone = Q(state=State.SAMPLING, items__state=ReviewItem.State.WITHDRAWN)
    late = Q(closed_at=None) & ~Q(state=State.SAMPLING)
    found = list(Batch.objects.filter(gone | late).distinct().values_list("pk", flat=True))
    for pk in found:
        with transaction.atomic():
            batch = Batch.objects.select_for_update(no_key=True, skip_locked=True).filter(pk=pk).first()
            if batch is not None and batch.state == State.SAMPLING:
                _settle(batch, None)
            elif batch is not None and batch.closed_at is None:
                _close(batch, batch.state)
    return len(found)


def _locked(batch: int) -> Batch:
    return Batch.objects.select_for_update(no_key=True).get(pk=batch)


def _settle(batch: Batch, actor: Any) -> None:
    """Count what is read, and close the batch if that is enough to know."""
    now = progress([batch.pk])[batch.pk]
    batch.defects = now.defects
    if now.read + now.waiting != batch.sample_size:
        _withdraw(batch, actor, "drawn samples are no longer in the queue")
    elif now.defects > batch.accept:
        _fail(batch, actor)
    elif now.read == batch.sample_size:
        _accept(batch, actor)
    else:
        batch.save(update_fields=["defects"])


def _accept(batch: Batch, actor: Any) -> None:
    by = said(batch)
    with connection.cursor() as cursor:
        cursor.execute(REST, [batch.pk])
        rest = cursor.fetchall()
    approve_unread(rest, policy=by, by=by, how=Sample.How.BATCH)
    _close(batch, State.ACCEPTED)
    detail = {"by": by, "approved": len(rest)}
    audit_models.record(actor=actor, action="batch.accepted", obj=batch, detail=detail)


def said(batch: Batch) -> str:
    """What stands on every sample approved with its batch."""
    read = f"{batch.sample_size:,} of {batch.lot_size:,} read"
    return f"batch {batch.pk}: {read}, {_defects(batch)}, AQL {batch.aql}, c {batch.accept}"


def _defects(batch: Batch) -> str:
    return f"{batch.defects} defect{'' if batch.defects == 1 else 's'}"


def _fail(batch: Batch, actor: Any) -> None:
    _close(batch, State.FAILED)
    detail = {"defects": batch.defects, "accept": batch.accept}
    audit_models.record(actor=actor, action="batch.failed", obj=batch, detail=detail)
    version = batch.rule_version
    text = (
        f"Batch {batch.pk} of rule {version.rule.code} failed: {_defects(batch)}, "
        f"{batch.accept} allowed. All of it is read now."
    )
    people = {person.pk: person for person in (batch.created_by, version.author) if person is not None}
    tell(people.values(), "batch_failed", text, link=reverse("synthesis:batch", args=[batch.pk]))
    emit("batch.failed", {"batch": batch.pk, "rule": version.rule.code, **detail})


def _withdraw(batch: Batch, actor: Any, why: str) -> None:
    _close(batch, State.WITHDRAWN)
    ReviewItem.objects.filter(
        pk__in=ReviewItem.objects.filter(batch=batch, state=OPEN).select_for_update(skip_locked=True)
    ).update(batch=None)
    audit_models.record(actor=actor, action="batch.withdrawn", obj=batch, detail={"why": why})


def _close(batch: Batch, state: str) -> None:
    """Open whatever is still held. Where somebody locks a row of it, `closed_at` waits for `sweep`."""
    held = ReviewItem.objects.filter(batch=batch, state=HELD)
    free = list(held.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True))
    ReviewItem.objects.filter(pk__in=free).update(state=OPEN)
    batch.state, batch.closed_at = state, None if held.exists() else database_now()
    batch.save(update_fields=["state", "closed_at", "defects"])


# A new batch: which samples make its lot, and which of them are drawn to be read.


@dataclass(frozen=True, slots=True)
class Made:
    """A new batch, and [{"sample", "why"}] of what was left out because filter V refuses it by now."""

    batch: Batch
    failing: list[dict[str, Any]]


def batch_create(
    *, rule: str, actor: Any, style: str = "", level: str = "II", aql: float = 1.0, seed: int | None = None
) -> Made:
    """Make a lot of what waits of a rule, draw what is read of it, and hold the rest back.

    seed: of the draw; None: one nobody could choose. Raises TraceError when there is no lot of two, or no such plan.
    """
    version = published_version(rule)
    if version is None:
        raise TraceError(f"no rule '{rule}' is published.", code="no_such_rule", where="rule")
    plan(2, level=level, aql=aql)  # what the tables do not hold is refused before the long part
    passing, failing = _checked(version, style)
    with transaction.atomic():
        free = lot_items(version, style).filter(sample__in=passing).select_for_update(skip_locked=True)
        items = dict(free.order_by("pk").values_list("sample", "pk"))
        if len(items) < 2:
            raise TraceError(
                f"{len(items)} of its samples can be in a batch, and filter V refuses {len(failing)}.",
                code="small_lot",
                where=f"rule {rule}",
                hint="A lot has two or more: read them one by one, or write more samples first.",
            )
        found = plan(len(items), level=level, aql=aql)
        batch = Batch.objects.create(
            rule_version=version,
            style=style,
            level=level,
            aql=aql,
            letter=found.letter,
            lot_size=found.lot_size,
            sample_size=found.size,
            accept=found.accept,
            seed=secrets.randbelow(2**31) if seed is None else seed,
            created_by=actor,
        )
        _hold_back(batch, items)
        left_out = {"left_out": len(failing), "failing": failing[:LISTED]}
        detail = {"lot": found.lot_size, "n": found.size, **left_out}
        audit_models.record(actor=actor, action="batch.created", obj=batch, detail=detail)
    return Made(batch, failing)


def _hold_back(batch: Batch, items: dict[int, int]) -> None:
    """Everything but what is drawn. items: by sample, locked."""
    keys = dict(Sample.objects.filter(pk__in=list(items)).values_list("key", "pk"))
    drawn = {items[keys[key]] for key in draw(keys, batch.sample_size, batch.seed)}
    held = [pk for pk in items.values() if pk not in drawn]
    ReviewItem.objects.filter(pk__in=held).update(batch=batch, state=ReviewItem.State.HELD)
    ReviewItem.objects.filter(pk__in=list(drawn)).update(batch=batch)


def _checked(version: RuleVersion, style: str) -> tuple[list[int], list[dict[str, Any]]]:
    """Samples of the lot that pass filter V now, and those that do not. Without locks: it takes seconds."""
    wanted = list(lot_items(version, style).order_by("pk").values_list("sample", flat=True)[:LARGEST_LOT])
    parts = ("run", "rule_version__rule")
    samples = Sample.objects.filter(pk__in=wanted).select_related(*parts).defer("explanation", "made_from")
    failing = [
        {"sample": sample.pk, "why": ", ".join(dict.fromkeys(each.check for each in found))}
        for sample, found in Checker().failing(samples.iterator(1000))
    ]
    refused = {row["sample"] for row in failing}
    return [pk for pk in wanted if pk not in refused], failing
