"""What a change of tools touches among the rules, told to the catalog's previews and to undo (trace_site.impact)."""

from collections.abc import Iterable

from django.db.models import F, OuterRef, Q, Subquery
from django.urls import reverse

from catalog.models import Tool
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from trace_site.impact import Impact

State = ChangeRequest.State
OPEN = (State.DRAFT, State.IN_REVIEW, State.APPROVED, State.SCHEDULED)
NAMED = 3


def rules_of_tools(ids: list[int]) -> Iterable[Impact]:
    """Rules that name the tools now, rules that once did, and open changes that do; each stands in the way of undo."""
    versions = RuleVersion.objects.filter(Q(target__in=ids) | Q(confusable_ids__overlap=ids))
    newest = RuleVersion.objects.filter(rule=OuterRef("rule")).order_by("-number").values("pk")[:1]
    current = versions.filter(Q(pk=F("rule__published")) | Q(pk=Subquery(newest)))
    named = dict(Rule.objects.filter(versions__in=current).order_by("code").values_list("pk", "code"))
    before = Rule.objects.filter(versions__in=versions).exclude(pk__in=named)
    once = dict(before.order_by("code").distinct().values_list("pk", "code"))
    if named:
        label = "rule names them" if len(named) == 1 else "rules name them"
        yield _impact("rules", named, label)
    if once:
        yield _impact("earlier_rules", once, "named them in an earlier version")
    yield from _changes(ids)


def _impact(key: str, codes: dict[int, str], label: str) -> Impact:
    url = reverse("rules:detail", args=[*codes]) if len(codes) == 1 else reverse("rules:list")
    return Impact(key, len(codes), label, url, f"Tools it added are named by {_listed([*codes.values()])}.")


def _changes(ids: list[int]) -> Iterable[Impact]:
    """Open changes hold tool names, not ids, since they may be half typed."""
    names = set(Tool.objects.filter(pk__in=ids).values_list("name", flat=True))
    open_changes = RuleChange.objects.filter(request__state__in=OPEN)
    held = open_changes.values_list("request_id", "content__target", "content__confusables")
    found = sorted({pk for pk, target, others in held if names & {str(target), *map(str, others or [])}})
    if found:
        label = f"open change request{'' if len(found) == 1 else 's'} about them"
        url = reverse("rules:request", args=found) if len(found) == 1 else reverse("rules:requests")
        listed = _listed([f"change request {pk}" for pk in found])
        yield Impact("open_changes", len(found), label, url, f"Tools it added are named by {listed}.")


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
