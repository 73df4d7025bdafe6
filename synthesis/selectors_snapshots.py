"""Reads behind the snapshot pages."""

from typing import Any

from django.db.models import Count, Q, QuerySet

from synthesis.models import Sample, Snapshot
from synthesis.selectors_standing import OUTDONE, OVERTAKEN


def snapshots() -> QuerySet[Snapshot]:
    """Without the manifests: they hold every contaminated and removed sample."""
    return (
        Snapshot.objects.select_related("created_by").defer("manifest").annotate(members_n=Count("members"))
    )


def composition(of: Snapshot) -> list[dict[str, Any]]:
    """What is inside: samples by branch, domain, rule and style."""
    keys = ("branch", "domain_id", "rule_version__rule__code", "rule_version__number", "style", "tier")
    return list(
        Sample.objects.filter(memberships__snapshot=of)
        .values(*keys)
        .annotate(count=Count("id"), offline=Count("id", filter=Q(writer__startswith="offline")))
        .order_by(*keys)
    )


def by_branch(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Composition summed by branch, for one stacked bar."""
    labels = dict(Sample._meta.get_field("branch").choices or ())
    tones = {"rrb": "accent", "rule": "good", "imported": "warn"}
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["branch"]] = totals.get(row["branch"], 0) + row["count"]
    return [
        {"label": labels[branch], "count": count, "tone": tones[branch]} for branch, count in totals.items()
    ]


def approved_counts() -> list[dict[str, Any]]:
    """What a builder may draw from: approved samples by branch and domain, and over how many rules."""
    rows = (
        Sample.objects.filter(~OUTDONE, ~OVERTAKEN, human=Sample.Human.APPROVED, machine=Sample.Machine.READY)
        .values("branch", "domain_id")
        .annotate(count=Count("id"), rules=Count("rule_version__rule", distinct=True))
        .order_by("branch", "domain_id")
    )
    return [dict(row) for row in rows]
