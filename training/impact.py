"""Which models a change of rules or tools makes stale: those trained on snapshots that hold its samples."""

from django.urls import reverse

from synthesis.impact import stale
from trace_site.impact import Impact, Subject
from training.models import Model, Run
from training.registry import current_aliases


def of_rules(rules: list[int]) -> list[Impact]:
    """Only cells that learn from rule samples have learnt what the rules said."""
    return _models("rules", rules)


def of_tools(tools: list[int]) -> list[Impact]:
    return _models("tools", tools)


def _models(subject: Subject, ids: list[int]) -> list[Impact]:
    snapshots = stale(subject, ids).snapshots
    if not snapshots:
        return []
    trained = Model.objects.filter(run__snapshot__in=snapshots)
    if subject == "rules":
        trained = trained.filter(run__retrieval=Run.Retrieval.RULES)
    found = set(trained.values_list("pk", flat=True))
    if not found:
        return []
    champion = current_aliases().get("champion")
    named = ", the champion among them" if champion and champion.pk in found else ""
    label = f"model{'' if len(found) == 1 else 's'} trained on them{named}"
    return [Impact("models", len(found), label, reverse("training:models"))]
