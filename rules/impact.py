"""What a change of tools touches among the rules, told to the catalog's previews and to undo (trace_site.impact)."""

from collections.abc import Iterable

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL
from django.urls import reverse

from catalog.models import Tool
from rules.models import ChangeRequest, RuleChange, RuleVersion
from trace_site.impact import Impact

State = ChangeRequest.State
OPEN = (State.DRAFT, State.IN_REVIEW, State.APPROVED, State.SCHEDULED)
NAMED = 3


def rules_of_tools(ids: list[int]) -> Iterable[Impact]:
    """Rules that name the tools now, rules that once did, and open changes that do; each stands in the way of undo.

    Reads the ids of every version once: an import touches tools by the thousand, and SQL is slow at such lists.
    """
    touched = set(ids)
    named: dict[int, str] = {}
    once: dict[int, str] = {}
    seen: set[int] = set()
    rows = RuleVersion.objects.order_by("rule__code", "rule_id", "-number")
    for pk, rule, code, published, target, confusables in rows.values_list(
        "pk", "rule_id", "rule__code", "rule__published_id", "target_id", "confusable_ids"
    ):
        newest = rule not in seen
        seen.add(rule)
        if target in touched or not touched.isdisjoint(confusables):
            (named if newest or pk == published else once)[rule] = code
    once = {rule: code for rule, code in once.items() if rule not in named}
    if named:
        yield _impact("rules", named, "rule names them" if len(named) == 1 else "rules name them")
    if once:
        yield _impact("earlier_rules", once, "named them in an earlier version")
    yield from _changes(touched)


def _impact(key: str, codes: dict[int, str], label: str) -> Impact:
    url = reverse("rules:detail", args=[*codes]) if len(codes) == 1 else reverse("rules:list")
    return Impact(key, len(codes), label, url, f"Tools it added are named by {_listed([*codes.values()])}.")


def _changes(touched: set[int]) -> Iterable[Impact]:
    """Open changes hold tool names, not ids, since they may be half typed."""
    held: dict[int, set[str]] = {}
    open_changes = RuleChange.objects.filter(request__state__in=OPEN)
    for request, target, others in open_changes.values_list(
        "request_id", "content__target", "content__confusables"
    ):
        held.setdefault(request, set()).update([str(target), *map(str, others or [])])
    names = sorted(set().union(*held.values()))  # thousands: one array, for placeholders are slow to bind
    named = Tool.objects.filter(RawSQL("catalog_tool.name = ANY (%s)", [names], BooleanField()))
    known = dict(named.values_list("name", "pk"))
    found = sorted(pk for pk, typed in held.items() if any(known.get(name) in touched for name in typed))
    if found:
        label = f"open change request{'' if len(found) == 1 else 's'} about them"
        url = reverse("rules:request", args=found) if len(found) == 1 else reverse("rules:requests")
        listed = _listed([f"change request {pk}" for pk in found])
        yield Impact("open_changes", len(found), label, url, f"Tools it added are named by {listed}.")


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
