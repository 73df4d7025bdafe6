"""Setting what share of first readings gets a blind second one, per domain and style; and what that means a week."""

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Cell:
    """own: the share set here; share: what counts here, from this cell or a wider one; first and second: readings a
    week, at the rate of the last 7 days.
    """

    style: str
    own: float | None
    share: float
    first: int
    second: float


@dataclass(frozen=True, slots=True)
class DomainRow:
    slug: str
    title: str
    cells: list[Cell]


def share_table() -> tuple[list[DomainRow], int, float]:
    """(rows, the first of them for all domains; first readings a week; second readings a week). Three queries."""
    own = {(row.domain_id or "", row.style): row.share for row in SecondShare.objects.all()}
    rate = _first_readings()
    domains = [("", "every domain"), *Domain.objects.order_by("slug").values_list("slug", "title")]
    rows = [
        DomainRow(slug, title, [_cell(slug, style, own, rate) for style in ("", *Sample.Style.values)])
        for slug, title in domains
    ]
    second = sum(count * _effective(at, own) for at, count in rate.items())
    return rows, sum(rate.values()), second


@transaction.atomic
def shares_set(*, shares: Mapping[Place, float | None], actor: Any) -> int:
    """Set these shares (0 to 1); None: a wider one counts again. How many changed. All of them or none.

    Raises TraceError "bad_shares" with what is wrong per place.
    """
    known = {"", *Domain.objects.values_list("slug", flat=True)}
    wrong = {place: said for place, share in shares.items() if (said := _wrong(place, share, known))}
    if wrong:
        raise TraceError(
            next(iter(wrong.values())), code="bad_shares", where="share", extra={"places": wrong}
        )
    rows = {
        (row.domain_id or "", row.style): row
        for row in SecondShare.objects.order_by("pk").select_for_update()
    }
    return sum(_set(place, share, rows.get(place), actor) for place, share in shares.items())


def _wrong(place: Place, share: float | None, domains: set[str]) -> str:
    domain, style = place
    if domain not in domains:
        return f"there is no domain '{domain}'."
    if style and style not in Sample.Style.values:
        return f"there is no style '{style}'."
    return "" if share is None or 0 <= share <= 1 else "a share is 0 to 100 %."


def _set(place: Place, share: float | None, row: SecondShare | None, actor: Any) -> bool:
    before = row.share if row else None
    if before == share:
        return False
    domain, style = place
    detail = {"domain": domain or "all", "style": style or "all", "before": before, "after": share}
    if share is not None:
        row, _ = SecondShare.objects.update_or_create(
            domain_id=domain or None, style=style, defaults={"share": share, "set_by": actor}
        )
    assert row is not None
    audit_models.record(actor=actor, action="review.second_share", obj=row, detail=detail)
    if share is None:
        row.delete()
    return True


def _effective(place: Place, own: Mapping[Place, float]) -> float:
    """As `second_shares.share_of`: domain and style, then domain, then style, then all."""
    domain, style = place
    wider = ((domain, style), (domain, ""), ("", style), ("", ""))
    return next((own[at] for at in wider if at in own), 0.0)


def _first_readings() -> dict[Place, int]:
    """What was read first in the last week and could have been drawn; a batch has its own plan."""
    since = Now() - timedelta(days=DAYS)
    items = ReviewItem.objects.filter(
        state=ReviewItem.State.DECIDED,
        round=1,
        calibration=False,
        batch=None,
        decided_by__isnull=False,
        decided_at__gte=since,
    )
    counted = items.order_by().values_list("domain", "style").annotate(n=Count("pk"))
    return {(domain, style): n for domain, style, n in counted}


def _cell(domain: str, style: str, own: Mapping[Place, float], rate: Mapping[Place, int]) -> Cell:
    """A cell of all domains or styles counts over those it stands for, each at the share that counts there."""
    inside = {at: n for at, n in rate.items() if domain in ("", at[0]) and style in ("", at[1])}
    second = sum(n * _effective(at, own) for at, n in inside.items())
    return Cell(
        style, own.get((domain, style)), _effective((domain, style), own), sum(inside.values()), second
    )
