"""Reads of guidelines: how to review, for all samples, a domain, a style, or a style of a domain."""

from typing import Any

from django.db.models import F, Q, QuerySet

from synthesis.models import Guideline


def current() -> QuerySet[Guideline]:
    """The version that counts of every guideline, the general one first."""
    newest = Guideline.objects.order_by(F("domain").asc(nulls_first=True), "style", "-number")
    return newest.distinct("domain", "style").select_related("domain", "author")


def versions_of(domain: str | None, style: str) -> QuerySet[Guideline]:
    """Newest first."""
    return Guideline.objects.filter(domain=domain or None, style=style).select_related("author", "domain")


def newest_of(domain: str | None, style: str) -> Guideline | None:
    """The version that counts."""
    return versions_of(domain, style).order_by("-number").first()


def applying_to(domain: str, style: str) -> list[Guideline]:
    """What a reviewer of such a sample should know, the most specific first: at most four, one query."""
    rows = Guideline.objects.filter(Q(domain=None) | Q(domain=domain), style__in={style, ""})
    newest: dict[Any, Guideline] = {}
    for row in rows.select_related("domain").order_by("number"):
        newest[row.domain_id, row.style] = row
    return sorted(newest.values(), key=_specific)


def _specific(row: Guideline) -> tuple[bool, bool]:
    return row.domain_id is None, row.style == ""
