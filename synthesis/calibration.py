"""The calibration draw: samples the judge refused for good, mixed into the queue to be read like any other.

Nobody is shown that an item is of the draw, and what is decided about it changes no sample: it measures the judge.
"""

import hashlib
import random
import secrets
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from synthesis.models import ReviewItem, Sample
from synthesis.selectors_calibration import unread_refusals
from trace_site import audit
from trace_site.lib.errors import TraceError

MOST = 500
CONTROLS = (
    0.1  # the share of other items whose verdict is hidden as well, so that hiding it gives nothing away
)


@dataclass(frozen=True, slots=True)
class Draw:
    drawn: int
    of: int  # samples it could have been
    seed: int


@transaction.atomic
def calibration_draw(
    *, count: int, actor: Any, seed: int | None = None, judge: str = "", domain: str = "", kind: str = ""
) -> Draw:
    """Put `count` refused samples by lot into the queue, or all there are when they are fewer.

    seed: of the lot; None: one nobody could choose. Raises TraceError when there is nothing to draw from.
    """
    if not 0 < count <= MOST:
        raise TraceError(f"draw 1 to {MOST} samples at a time.", code="bad_count", where="count")
    seed = secrets.randbelow(2**31) if seed is None else seed
    eligible = unread_refusals(judge=judge, domain=domain, kind=kind)
    chosen = random.Random(seed).sample(eligible, min(count, len(eligible)))
    locked = Sample.objects.select_for_update(no_key=True).filter(pk__in=chosen).order_by("pk")
    rows = list(locked.values_list("pk", flat=True))  # of two draws at once the later one sees the earlier
    samples = Sample.objects.filter(pk__in=rows, review_items=None).select_related("rule_version")
    items = ReviewItem.objects.bulk_create(_item(sample) for sample in samples.order_by("key"))
    if not items:
        raise TraceError(
            "there is no refused sample left to draw.",
            code="nothing_to_draw",
            hint="The judge has refused none of this choice, or all of them were drawn before.",
        )
    detail = {"drawn": len(items), "of": len(eligible), "seed": seed, "judge": judge, "domain": domain}
    audit.record(actor=actor, action="review.calibration", obj=items[0], detail={**detail, "kind": kind})
    return Draw(len(items), len(eligible), seed)


@transaction.atomic
def calibration_withdraw(*, actor: Any) -> int:
    """Take what nobody has opened yet out of the queue again; how many. It can be drawn anew."""
    waiting = ReviewItem.objects.filter(calibration=True, state=ReviewItem.State.OPEN, decisions=None)
    locked = waiting.select_for_update(skip_locked=True, of=("self",))  # what somebody takes now is theirs
    items = list(locked)
    if items:
        audit.record(
            actor=actor, action="review.calibration_withdraw", obj=items[0], detail={"items": len(items)}
        )
        ReviewItem.objects.filter(pk__in=[item.pk for item in items]).delete()
    return len(items)


def verdict_hidden(item: ReviewItem, sample: Sample) -> bool:
    """Whether a reader is not to see what the judge said before they decide, even when they ask."""
    digest = hashlib.sha256(f"calibration|{sample.key}".encode()).digest()
    return item.calibration or (item.round == 1 and int.from_bytes(digest[:8]) / 2**64 < CONTROLS)


def _item(sample: Sample) -> ReviewItem:
    return ReviewItem(
        sample=sample,
        calibration=True,
        domain_id=sample.domain_id,
        branch=sample.branch,
        style=sample.style,
        tier=sample.tier,
        rule_id=sample.rule_version.rule_id if sample.rule_version else None,
        rule_version_id=sample.rule_version_id,
    )
