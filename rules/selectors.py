"""Reads of the rule pages."""

from django.db.models import QuerySet

from rules.models import Rule, RuleVersion


def rules(domain: str = "") -> QuerySet[Rule]:
    rows = Rule.objects.select_related("domain", "published__target")
    return rows.filter(domain_id=domain) if domain else rows


def ruled_tool_ids() -> set[int]:
    """Tools inside T(r) of a published rule."""
    published = RuleVersion.objects.filter(pk__in=Rule.objects.values("published"))
    held: set[int] = set()
    for target, confusables in published.values_list("target_id", "confusable_ids"):
        held |= {target, *confusables}
    return held
