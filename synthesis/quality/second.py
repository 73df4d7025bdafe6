"""Second readings: what share of first readings gets a blind one, per domain and style, and which samples those are."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.db.models.functions import Now

from catalog.models import Domain
from synthesis.models import ReviewItem, Sample, SecondShare
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError

DAYS = 7
Place = tuple[str, str]  # (domain, style); "" is all of them


def lot(draw: str, sample: Sample) -> float:
    """0 to 1 by the sample's key: the same for the same draw and sample, whoever asks and when."""
    return int.from_bytes(hashlib.sha256(f"{draw}|{sample.key}".encode()).digest()[:8]) / 2**64


def drawn_for_second(sample: Sample) -> bool:
    return lot("second", sample) < share_of(sample.domain_id, sample.style)


def share_of(domain: str, style: str, own: Mapping[Place, float] | None = None) -> float:
    """The most specific share set: domain and style, then domain, then style, then all; 0 where none is."""
    own = _own_shares() if own is None else own
    wider = ((domain, style), (domain, ""), ("", style), ("", ""))
    return next((own[at] for at in wider if at in own), 0.0)


def _own_shares() -> dict[Place, float]:
    rows = SecondShare.objects.values_list("domain", "style", "share")
    return {(domain or "", style): share for domain, style, share in rows}


def share_table() -> list[dict[str, Any]]:
    """[{"slug", "title", "cells": [{"style", "own": the share set here, "share": what counts here, from this cell or a
    wider one, "first" and "second": readings a week at the rate of the last 7 days}]}]. Three queries.

    The first row is of all domains, and the first cell of a row of all styles.
    """
    own = _own_shares()
    # what was read first in the last week and could have been drawn; a batch has its own plan
    items = ReviewItem.objects.filter(
        state=ReviewItem.State.DECIDED, round=1, calibration=False, batch=None, decided_by__isnull=False
    ).filter(decided_at__gte=Now() - timedelta(days=DAYS))
    counted = items.order_by().values_list("domain", "style").annotate(n=Count("pk"))
    rate = {(domain, style): n for domain, style, n in counted}

    def cell(domain: str, style: str) -> dict[str, Any]:
        """One of all domains or styles counts over those it stands for, each at the share that counts there."""
        inside = {at: n for at, n in rate.items() if domain in ("", at[0]) and style in ("", at[1])}
        return {
            "style": style,
            "own": own.get((domain, style)),
            "share": share_of(domain, style, own),
            "first": sum(inside.values()),
            "second": sum(n * share_of(*at, own) for at, n in inside.items()),
        }

    domains = [("", "every domain"), *Domain.objects.order_by("slug").values_list("slug", "title")]
    styles = ("", *Sample.Style.values)
    return [
        {"slug": slug, "title": title, "cells": [cell(slug, style) for style in styles]}
        for slug, title in domains
    ]


@transaction.atomic
def shares_set(*, shares: Mapping[Place, float | None], actor: Any) -> int:
    """Set these shares (0 to 1); None: a wider one counts again. How many changed. All of them or none. Raises
    TraceError "bad_shares" with what is wrong per place.
    """
    known = {"", *Domain.objects.values_list("slug", flat=True)}
    wrong: dict[Place, str] = {}
    for (domain, style), share in shares.items():
        if domain not in known:
            wrong[domain, style] = f"there is no domain '{domain}'."
        elif style and style not in Sample.Style.values:
            wrong[domain, style] = f"there is no style '{style}'."
        elif share is not None and not 0 <= share <= 1:
            wrong[domain, style] = "a share is 0 to 100 %."
    if wrong:
        message = next(iter(wrong.values()))
        raise TraceError(message, code="bad_shares", where="share", extra={"places": wrong})
    locked = SecondShare.objects.order_by("pk").select_for_update()
    rows = {(row.domain_id or "", row.style): row for row in locked}
    changed = 0
    for (domain, style), share in shares.items():
        row = rows.get((domain, style))
        before = row.share if row else None
        if before == share:
            continue
        changed += 1
        if share is not None:
            given = {"share": share, "set_by": actor}
            row, _ = SecondShare.objects.update_or_create(
                domain_id=domain or None, style=style, defaults=given
            )
        assert row is not None
        detail = {"domain": domain or "all", "style": style or "all", "before": before, "after": share}
        audit_models.record(actor=actor, action="review.second_share", obj=row, detail=detail)
        if share is None:
            row.delete()
    return changed
