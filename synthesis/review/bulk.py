"""Approving many samples of one rule version at once, but none that was not opened.

The page holds claims on up to MOST items. Opening a row fetches the whole sample with a signed token over item, claim,
text and reader; only tokens are approved. Each item stands for itself: it is approved wholly, or the page says why not.
"""

from collections.abc import Iterable
from typing import Any

from django.core import signing
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from rules.models import RuleVersion
from synthesis.core.filters import Failure
from synthesis.models import ReviewItem, Sample
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.samples.checks import Checker
from synthesis.samples.decisions import seen_key
from trace_site.lib.errors import TraceError

MOST = 20
SALT = "synthesis.review.bulk"
TOKEN_SECONDS = 3600
State = ReviewItem.State


def bulk_take(*, reviewer: Any, version: RuleVersion) -> int:
    """Claim first readings of this rule version until the reviewer holds MOST of them; how many they hold."""
    review_queue.sweep()
    with transaction.atomic():
        held = held_items(reviewer, version).count()
        free = review_queue.open_to(reviewer, _first_readings(version)).select_for_update(
            skip_locked=True, no_key=True, of=("self",)
        )
        taken = [
            review_queue.take(item, reviewer) for item in free.order_by("rank", "pk")[: max(0, MOST - held)]
        ]
    return held + len(taken)


def held_items(reviewer: Any, version: RuleVersion) -> QuerySet[ReviewItem]:
    """What the reviewer holds of this rule version."""
    rows = _first_readings(version).filter(state=State.CLAIMED, claimed_by=reviewer)
    unread = [f"sample__{name}" for name in ("trace", "explanation", "made_from", "pool")]
    return rows.select_related("sample").defer(*unread).order_by("rank", "pk")


def bulk_keep(*, reviewer: Any, version: RuleVersion) -> int:
    """Renew the leases; how many there are."""
    return held_items(reviewer, version).order_by().update(claimed_until=Now() + review_queue.LEASE)


def bulk_open(*, reviewer: Any, item: int) -> tuple[Sample, list[Failure], str]:
    """The whole sample of an item, claimed by the reader; what filter V refuses it for, and else the token that says it
    was opened. Raises TraceError "conflict", or "not_bulk".
    """
    row = review_queue.claim_item(reviewer, item)
    if row.round != ReviewItem.Round.FIRST or row.calibration or row.batch_id or not row.rule_version_id:
        message = "it is read one by one: only first readings of a rule's samples are approved in bulk."
        raise TraceError(message, code="not_bulk", where=f"sample {row.sample_id}")
    sample = _samples([row.sample_id]).get()
    failures = [failure for _, found in Checker().failing([sample]) for failure in found]
    said = {"item": row.pk, "claim": str(row.claim), "seen": seen_key(sample), "user": reviewer.pk}
    return sample, failures, "" if failures else signing.dumps(said, salt=SALT)


def bulk_approve(*, reviewer: Any, tokens: Iterable[str]) -> list[dict[str, Any]]:
    """Approve what was opened, each for itself: [{"sample", "approved", "second", "why": what stood in the way}].

    Raises TraceError when nothing of it may be approved: forged, too many, of two rule versions.
    """
    opened = {said["item"]: said for said in (_read(token, reviewer) for token in tokens)}
    items = {item.pk: item for item in ReviewItem.objects.filter(pk__in=list(opened))}
    if not items or len(items) > MOST:
        raise TraceError(
            f"open and tick 1 to {MOST} samples." if items else "nothing was ticked.",
            code="bulk_count",
            hint="Only samples that were opened can be ticked.",
        )
    if len({item.rule_version_id for item in items.values()}) > 1:
        raise TraceError("the samples belong to different rule versions.", code="mixed_rules")
    samples = {sample.pk: sample for sample in _samples([item.sample_id for item in items.values()])}
    refused = {sample.pk: failures for sample, failures in Checker().failing(samples.values())}
    outcomes = []
    for pk, item in sorted(items.items()):
        human, why = "", " ".join(f"{one.check}: {one.message}" for one in refused.get(item.sample_id, []))
        if not why:
            shown = {"claim": opened[pk]["claim"], "seen": opened[pk]["seen"], "how": Sample.How.BULK}
            try:
                row = review_services.approve(sample=samples[item.sample_id], reviewer=reviewer, **shown)
                human = row.human
            except TraceError as error:
                why = error.message
        ended = {"approved": human == Sample.Human.APPROVED, "second": human == Sample.Human.SECOND}
        outcomes.append({"sample": item.sample_id, **ended, "why": why})
    return outcomes


def _read(token: str, reviewer: Any) -> dict[str, Any]:
    """What a token says. Raises TraceError for one that is forged, another reader's, or too old."""
    try:
        said: dict[str, Any] = signing.loads(token, salt=SALT, max_age=TOKEN_SECONDS)
        if said["user"] != reviewer.pk:
            raise signing.BadSignature("another reader's")
        return said
    except signing.BadSignature as error:
        raise TraceError(
            "a sample was not opened by you on this page, or too long ago.",
            code="not_opened",
            hint="Open it again: what is not opened is not approved.",
        ) from error


def _first_readings(version: RuleVersion) -> QuerySet[ReviewItem]:
    first = ReviewItem.objects.filter(round=ReviewItem.Round.FIRST, calibration=False, batch=None)
    return first.filter(rule=version.rule_id, rule_version=version)  # the rule has the index


def _samples(pks: list[int]) -> QuerySet[Sample]:
    return Sample.objects.filter(pk__in=pks).select_related("run", "rule_version__rule", "domain")
