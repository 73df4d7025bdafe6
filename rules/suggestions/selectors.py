"""Reads of the suggested rules: those that are open, ranked; one with its words; what rules cover already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from django.db.models import BooleanField, Count, F, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.http import QueryDict
from django.shortcuts import get_object_or_404

from catalog.models import Tool
from catalog.selectors import tools_by_id
from rules.core.suggestions import STRONG
from rules.models import OPEN, RuleChange, RuleSuggestion, RuleVersion
from trace_site.jobs import Job
from trace_site.paging import SIZE, Page, number_of

KIND = "suggestions"  # of the job that finds them
STRENGTHS = {"strong": Q(score__gte=STRONG), "weak": Q(score__lt=STRONG)}
# two conditions, so that each finds its rules by an index: a rule that aims at the same tool, one that aims elsewhere
OPEN_STILL = """
NOT EXISTS (SELECT FROM rules_rule r JOIN rules_ruleversion v ON v.id = r.published_id
            WHERE v.target_id = rules_rulesuggestion.target_id
              AND v.confusable_ids && rules_rulesuggestion.confusable_ids)
AND NOT EXISTS (SELECT FROM rules_rule r JOIN rules_ruleversion v ON v.id = r.published_id
                WHERE v.confusable_ids @> ARRAY[rules_rulesuggestion.target_id]
                  AND (v.confusable_ids || v.target_id) && rules_rulesuggestion.confusable_ids)
AND NOT EXISTS (SELECT FROM catalog_tool t
                WHERE t.id = ANY (rules_rulesuggestion.target_id || rules_rulesuggestion.confusable_ids)
                  AND t.status <> 'active')
"""


@dataclass(frozen=True, slots=True)
class SuggestionFilter:
    """What the list is narrowed by; empty values narrow nothing. `state`: open or dismissed."""

    domain: str = ""
    kind: str = ""
    strength: str = ""
    state: str = ""

    @classmethod
    def read(cls, data: QueryDict) -> "SuggestionFilter":
        return cls(**{field.name: data.get(field.name, "") for field in fields(cls)})

    @property
    def narrows(self) -> bool:
        return any((self.domain, self.kind, self.strength, self.state == "dismissed"))


@dataclass(frozen=True, slots=True)
class Suggested:
    """A row of the list: the tools by name, the target first; the open change somebody makes of it, if any."""

    row: RuleSuggestion
    tools: list[Tool]
    draft: RuleChange | None

    @property
    def strong(self) -> bool:
        return self.row.score >= STRONG


def held_pairs(names: Mapping[int, str]) -> set[frozenset[str]]:
    """The pairs of these tools that one published rule holds, by name."""
    published = RuleVersion.objects.filter(rule__published_id=F("pk")).order_by()
    found: set[frozenset[str]] = set()
    for target, confusables in published.values_list("target_id", "confusable_ids"):
        held = [names[pk] for pk in (target, *confusables) if pk in names]
        found |= {frozenset((left, right)) for left in held for right in held if left != right}
    return found


def proposed(domains: Sequence[str] = ()) -> QuerySet[RuleSuggestion]:
    """Not dismissed, no pair of a target and a look-alike in a published rule, all tools in use."""
    still = RawSQL(OPEN_STILL, (), output_field=BooleanField())
    rows = RuleSuggestion.objects.filter(still, dismissed_reason="")
    return rows.filter(domain__in=domains) if domains else rows


def suggestion_list(
    chosen: SuggestionFilter, after: str = "", size: int = SIZE
) -> tuple[Page, dict[str, int]]:
    """The strongest first, after the key `score/id`; and how many there are of each kind. Five queries."""
    rows = _narrowed(chosen)
    counts: dict[str, int] = dict(rows.order_by().values_list("kind").annotate(Count("pk")))
    score, _, pk = after.partition("/")
    try:
        start = (float(score), number_of(pk))
    except ValueError:
        start, after = (0.0, 0), ""
    if after:
        rows = rows.filter(Q(score__lt=start[0]) | Q(score=start[0], pk__gt=start[1]))
    found = list(rows.select_related("domain", "dismissed_by").order_by("-score", "pk")[: size + 1])
    more, found = len(found) > size, found[:size]
    last = f"{found[-1].score!r}/{found[-1].pk}" if more else None
    return Page(suggested(found), after, last), counts


def _narrowed(chosen: SuggestionFilter) -> QuerySet[RuleSuggestion]:
    dismissed = RuleSuggestion.objects.exclude(dismissed_reason="")
    rows = dismissed if chosen.state == "dismissed" else proposed()
    if chosen.domain:
        rows = rows.filter(domain=chosen.domain)
    if chosen.kind:
        rows = rows.filter(kind=chosen.kind)
    return rows.filter(STRENGTHS.get(chosen.strength, Q()))


def suggestion(pk: int) -> RuleSuggestion:
    return get_object_or_404(RuleSuggestion.objects.select_related("domain", "target", "dismissed_by"), pk=pk)


def suggested(rows: Sequence[RuleSuggestion]) -> list[Suggested]:
    """With tools and drafts: two queries for all rows."""
    tools = {tool.pk: tool for tool in tools_by_id([pk for row in rows for pk in row.tool_ids])}
    targets = {row.content["target"] for row in rows}
    open_changes = RuleChange.objects.filter(
        action=RuleChange.Action.SAVE, request__state__in=OPEN, content__target__in=targets
    )
    drafts = list(open_changes.select_related("request", "edited_by").order_by("pk")) if rows else []
    return [
        Suggested(row, [tools[pk] for pk in row.tool_ids if pk in tools], _draft_of(row, drafts))
        for row in rows
    ]


def _draft_of(row: RuleSuggestion, drafts: Sequence[RuleChange]) -> RuleChange | None:
    target, names = row.content["target"], set(row.content["confusables"])
    same = (draft for draft in drafts if draft.content["target"] == target)
    return next((draft for draft in same if names.intersection(draft.content["confusables"])), None)


def quotes(row: RuleSuggestion) -> list[dict[str, Any]]:
    """{"tool": its name, "parts": [(words, whether they are the ones that speak)]} of each quoted text."""
    found = []
    for part in row.evidence:
        pieces, at = [], 0
        for start, end in part["marks"]:
            start = max(start, at)  # marks may overlap
            if end <= start:
                continue
            pieces += [(part["text"][at:start], False), (part["text"][start:end], True)]
            at = end
        pieces.append((part["text"][at:], False))
        found.append({"tool": part["tool"], "parts": [piece for piece in pieces if piece[0]]})
    return found


def last_run() -> Job | None:
    """The newest run, whatever became of it."""
    return Job.objects.filter(kind=KIND).order_by("-pk").first()
