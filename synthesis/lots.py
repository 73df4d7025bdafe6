"""A new batch: which samples make its lot, and which of them are drawn to be read."""

import secrets
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from rules.models import RuleVersion
from synthesis.checks import Checker
from synthesis.core.acceptance import draw, plan
from synthesis.models import Batch, ReviewItem, Sample
from synthesis.selectors_batches import LARGEST_LOT, LISTED, lot_items, published_version
from trace_site import audit
from trace_site.lib.errors import TraceError


@dataclass(frozen=True, slots=True)
class Made:
    """A new batch, and [{"sample", "why"}] of what was left out because filter V refuses it by now."""

    batch: Batch
    failing: list[dict[str, Any]]


def batch_create(
    *,
    rule: str,
    actor: Any,
    style: str = "",
    level: str = "II",
    aql: float = 1.0,
    seed: int | None = None,
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
        detail = {
            "lot": found.lot_size,
            "n": found.size,
            "left_out": len(failing),
            "failing": failing[:LISTED],
        }
        audit.record(actor=actor, action="batch.created", obj=batch, detail=detail)
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
