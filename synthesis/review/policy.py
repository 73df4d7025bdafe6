"""Approval by an explicit, audited policy instead of reading."""

import random
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from synthesis.models import Batch, Decision, ReviewItem, Sample
from synthesis.review.decisions import hold_rules
from trace_site.audit import models as audit_models
from trace_site.webhooks.services import emit

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
