"""Reads of the rule editor: a target's look-alikes from every source, the drafts around a rule, what the checks say."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q, QuerySet
from pgvector.django import CosineDistance

from catalog.models import Cluster, NeighbourList, Tool
from catalog.selectors import twins
from rules.book import CatalogNames, Problem, cached_book, content_problems
from rules.changes.proposals import change_label
from rules.core.check import Finding, check_rule
from rules.core.draft import content_of, draft_problems
from rules.core.rule_book import RuleKey
from rules.core.rules_file import MOST_PROBLEMS
from rules.models import OPEN, ChangeRequest, Rule, RuleChange

SUGGESTED = 12
TWINS = 8


@dataclass(frozen=True, slots=True)
class LookAlike:
    """`score` is the cosine to the target, None without embeddings; `sources` say why it is suggested."""

    tool: Tool
    score: float | None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSet:
    """T(r) as chosen so far, the catalog's suggestions for it, and names that are no tools."""

    target: Tool | None
    chosen: list[LookAlike]
    suggested: list[LookAlike]
    unknown: list[str]


def tool_set(target: str, chosen: Sequence[str]) -> ToolSet:
    """The set and what could join it: version twins first, newest on top, then the rest by similarity."""
    known = {tool.name: tool for tool in _tools(Q(name__in=[target, *chosen]))}
    unknown = [name for name in chosen if name not in known]
    picked = [known[name] for name in chosen if name in known]
    aim = known.get(target)
    if aim is None:
        return ToolSet(None, [LookAlike(tool, None) for tool in picked], [], unknown)
    near = NeighbourList.objects.filter(tool=aim).first()
    sources = _sources(aim, near)
    for tool in [aim, *picked]:
        sources.pop(tool.pk, None)
    others = list(_tools(Q(pk__in=sources, status=Tool.Status.ACTIVE)))
    listed = dict(zip(near.neighbour_ids, near.scores, strict=True)) if near else {}
    scores = listed | _scores(aim, [*picked, *others])
    order = {pk: place for place, (pk, why) in enumerate(sources.items()) if "twin" in why}
    suggested = [LookAlike(tool, scores.get(tool.pk), tuple(sources[tool.pk])) for tool in others]
    suggested.sort(key=lambda item: (order.get(item.tool.pk, len(order)), -(item.score or 0), item.tool.name))
    return ToolSet(
        aim, [LookAlike(tool, scores.get(tool.pk)) for tool in picked], suggested[:SUGGESTED], unknown
    )


def found_tools(tools: Sequence[Tool], typed: str, target: str) -> list[LookAlike]:
    """What a search found, the name typed in full first, with the cosine to the target where there is one."""
    aim = _tools(Q(name=target)).first() if target and tools else None
    scores = _scores(aim, tools) if aim else {}
    wanted = typed.casefold()
    tools = sorted(tools, key=lambda tool: wanted not in (tool.name.casefold(), tool.endpoint.casefold()))
    return [LookAlike(tool, scores.get(tool.pk)) for tool in tools if tool != aim]


def tool_names(ids: Iterable[int]) -> list[str]:
    """Active tools by id, in the order given, those that stay before deprecated ones."""
    wanted = {pk: place for place, pk in enumerate(ids)}
    rows = _tools(Q(pk__in=wanted, status=Tool.Status.ACTIVE))
    return [tool.name for tool in sorted(rows, key=lambda tool: (tool.deprecated, wanted[tool.pk]))]


def _sources(target: Tool, near: NeighbourList | None) -> dict[int, list[str]]:
    """Tool id -> why it is suggested: twin, neighbour, cluster. Twins come first, the newest on top."""
    found = {twin["tool"].pk: ["twin"] for twin in (twins(target) if target.family else [])[:TWINS]}
    for pk in near.neighbour_ids if near else ():
        found.setdefault(pk, []).append("neighbour")
    cluster = Cluster.objects.filter(pk=target.cluster_id).first() if target.cluster_id else None
    for pk in cluster.tool_ids if cluster else ():
        found.setdefault(pk, []).append("cluster")
    return found


def _scores(target: Tool, tools: Sequence[Tool]) -> dict[int, float]:
    """Tool id -> cosine."""
    rows = Tool.objects.filter(pk__in=[tool.pk for tool in tools], embedding__isnull=False)
    own = Tool.objects.filter(pk=target.pk).values_list("embedding", flat=True).first()
    if own is None or not tools:
        return {}
    return {pk: 1 - far for pk, far in rows.values_list("pk", CosineDistance("embedding", own))}


def _tools(where: Q) -> QuerySet[Tool]:
    return Tool.objects.filter(where).defer("embedding", "search", "words")


def my_requests(user: Any, change: RuleChange | None) -> list[tuple[int, str]]:
    """The user's other draft requests that do not hold this rule yet, newest first: (id, what it is called)."""
    rows = ChangeRequest.objects.filter(author=user, state=ChangeRequest.State.DRAFT)
    if change:
        rows = rows.exclude(pk=change.request_id)
        if change.rule_id:
            rows = rows.exclude(changes__rule=change.rule_id)
    found = rows.order_by("-id").prefetch_related("changes__rule")[:SUGGESTED]
    return [
        (row.pk, row.title or ", ".join(map(change_label, row.changes.all())) or "empty") for row in found
    ]


def drafts_beside(rule: Rule | None, user: Any) -> list[RuleChange]:
    """Other people's open changes of the rule."""
    if rule is None:
        return []
    rows = RuleChange.objects.filter(rule=rule, request__state__in=OPEN).exclude(request__author=user)
    return list(rows.select_related("request", "edited_by").order_by("id"))


def check_draft(
    draft: dict[str, Any], *, code: str = "", own: RuleKey | None = None
) -> tuple[list[Problem], list[Finding]]:
    """The problems, and the findings about what has none, with their places in the draft as typed.

    No findings while target, look-alikes or text are missing. An unfinished row or an unknown tool is left out.
    """
    if problems := draft_problems(draft):
        return problems, []
    content = content_of(draft)
    names = CatalogNames(name for _, name in content.names())
    problems = content_problems(content, names, code=code)
    if content.target in names.retired:  # a finding says so, with its way out
        problems = [(pointer, sentence) for pointer, sentence in problems if pointer != "/tool_name"]
    broken = {tuple(pointer.split("/")[1:3]) for pointer, _ in problems}
    whole = {
        name: [row for row in range(len(draft[name])) if (name, str(row)) not in broken]
        for name in ("confusables", "clauses", "tests")
    }
    problems = problems[:MOST_PROBLEMS]
    if {("tool_name",), ("rule_text",)} & broken or not whole["confusables"]:
        return problems, []
    finished = draft | {name: [draft[name][row] for row in rows] for name, rows in whole.items()}
    findings = check_rule(content_of(finished), cached_book(), own)
    return problems, [_as_typed(finding, whole, draft["text"]) for finding in findings]


def _as_typed(finding: Finding, rows: dict[str, list[int]], text: str) -> Finding:
    """The finding with its place counted in the draft: rows as numbered there, the text with its leading blanks."""
    place = finding.place
    _, name, *rest = f"{place.pointer}/".split("/")
    if name in rows and rest[0].isdecimal():
        pointer = f"/{name}/{rows[name][int(rest[0])]}"
        return replace(finding, place=replace(place, pointer=pointer))
    blanks = len(text) - len(text.lstrip())
    if name == "rule_text" and blanks and place.start is not None and place.end is not None:
        moved = replace(place, start=place.start + blanks, end=place.end + blanks)
        return replace(finding, place=moved)
    return finding
