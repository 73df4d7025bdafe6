"""Reads behind the snapshot pages."""

from typing import Any

from django.db.models import Count, Q, QuerySet

from synthesis.models import Sample, Snapshot
from trace_site.jobs import Job


def snapshots() -> QuerySet[Snapshot]:
    """Without the manifests, which hold every contaminated and removed sample; members are counted by the build."""
    return Snapshot.objects.select_related("created_by").defer("manifest", "parts")


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


def any_approved() -> bool:
    return Sample.objects.filter(human=Sample.Human.APPROVED, machine=Sample.Machine.READY).exists()


def last_rebuild(of: int) -> Job | None:
    """The newest job that rebuilt the snapshot."""
    return Job.objects.filter(kind="snapshot_rebuild", params__snapshot=of).order_by("-pk").first()
