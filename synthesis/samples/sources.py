"""What synthesis reads of catalog and rules, as the pure objects that core and writers use."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, Q, QuerySet

from catalog.models import LabelledQuery, NeighbourList, Tool, ToolRevision
from rules.models import Rule, RuleVersion
from synthesis.core.filters import FilterContext
from synthesis.core.keys import granted_mark, tool_mark
from synthesis.core.names import ToolNames, rule_codes
from synthesis.core.queries import Clause, RuleText, ToolText
from synthesis.core.recipe import Recipe
from synthesis.core.words import NearDuplicates
from trace_site.lib.errors import TraceError


@dataclass(slots=True)
class CatalogView:
    """The active catalog by name."""

    tools: dict[str, ToolText]
    ids: dict[str, int]
    domains: dict[str, str]
    neighbours: dict[str, list[str]] = field(default_factory=dict)
    _marks: dict[str, str] = field(default_factory=dict)

    def mark(self, name: str) -> str:
        """`granted_mark` of an active tool; before its plus stands its `tool_mark`."""
        if name not in self._marks:
            self._marks[name] = granted_mark(self.tools[name])
        return self._marks[name]

    @property
    def deprecated(self) -> frozenset[str]:
        return frozenset(name for name, tool in self.tools.items() if tool.deprecated)

    def pool(self, names: Iterable[str]) -> tuple[ToolText, ...]:
        return tuple(self.tools[name] for name in names if name in self.tools)

    def filter_context(
        self,
        recipe: Recipe,
        seen: Iterable[str] = (),
        codes: Iterable[str] = (),
        rejected: Iterable[str] = (),
    ) -> FilterContext:
        """What filter V knows of a run; `seen`: queries not to repeat, `codes`: of all rules, `rejected`: queries that
        people refused."""
        index = NearDuplicates()
        for text in seen:
            index.add(text)
        names = ToolNames(self.tools)
        limits = recipe.query.words, recipe.trace.words
        return FilterContext(
            names, self.deprecated, index, rule_codes(codes), *limits, rejected=frozenset(rejected)
        )


def tool_text(tool: Tool) -> ToolText:
    return ToolText(tool.name, tool.description, tuple(tool.permissions), tool.deprecated, tool.content_hash)


MOST_REVISIONS = 50  # of one tool that are looked through


def has_mark(tool: ToolText, mark: str) -> bool:
    """Whether it says what the mark was made of: with its permissions where the mark has them."""
    return mark == (granted_mark(tool) if "+" in mark else tool_mark(tool))


def texts_then(marks: Mapping[str, str]) -> dict[str, tuple[str, datetime]]:
    """{tool: (its description, since when)} of the newest revision with the mark kept of it."""
    found: dict[str, tuple[str, datetime]] = {}
    rows = ToolRevision.objects.filter(tool__name__in=marks).order_by("-id")
    for data, at in rows.values_list("data", "at")[: MOST_REVISIONS * len(marks)]:
        text = ToolText(data["name"], data["description"], tuple(data["permissions"]), data["deprecated"])
        if text.name in marks and has_mark(text, marks[text.name]):
            found.setdefault(text.name, (text.description, at))
    return found


def load_catalog(*, neighbours: bool = True) -> CatalogView:
    """Every active tool; with its neighbours, which must have been computed."""
    view = catalog_around(None) if neighbours else _view(Tool.objects.filter(status=Tool.Status.ACTIVE))
    if not view.tools:
        raise TraceError(
            "the catalog is empty.",
            code="empty_catalog",
            hint="Import tools first: manage.py catalog_import.",
        )
    if neighbours and (missing := len(view.tools) - len(view.neighbours)):
        raise TraceError(
            f"{missing:,} tools have no neighbours yet.",
            code="no_neighbours",
            hint="Compute them first: manage.py catalog_neighbours.",
        )
    return view


MOST_AROUND = 1000  # tools whose pools are read one by one; for more the whole catalog is


def catalog_around(names: Iterable[str] | None) -> CatalogView:
    """The part of the active catalog, at least, that the pools of these tools are made of; None: all. Three queries.

    A tool whose look-alikes are not found yet has none.
    """
    active, lists = Tool.objects.filter(status=Tool.Status.ACTIVE), NeighbourList.objects.all()
    if names is not None and len(wanted := set(names)) <= MOST_AROUND:
        lists = lists.filter(tool__name__in=wanted)
        near = {pk for others in lists.values_list("neighbour_ids", flat=True) for pk in others}
        active = active.filter(Q(name__in=wanted) | Q(pk__in=near))
    view = _view(active)
    known = {pk: name for name, pk in view.ids.items()}
    for pk, others in lists.values_list("tool_id", "neighbour_ids"):
        if pk in known:
            view.neighbours[known[pk]] = [known[other] for other in others if other in known]
    return view


def _view(active: QuerySet[Tool]) -> CatalogView:
    columns = ("id", "name", "description", "permissions", "deprecated", "content_hash", "domain_id")
    view = CatalogView({}, {}, {})
    for row in active.order_by("name").values_list(*columns):
        pk, name, description, permissions, deprecated, digest, domain = row
        view.tools[name] = ToolText(name, description, tuple(permissions), deprecated, digest)
        view.ids[name] = pk
        view.domains[name] = domain
    return view


def published_rules(
    domain: str = "", code: str = "", only: Collection[int] = ()
) -> list[tuple[RuleVersion, RuleText]]:
    """The current version of every published rule (of one; or of those whose version is named), by domain and code."""
    named: dict[str, Any] = {"rule__domain_id": domain, "rule__code": code, "pk__in": only}
    rows = RuleVersion.objects.filter(rule__published_id=F("pk"), **{k: v for k, v in named.items() if v})
    versions = list(rows.select_related("rule").order_by("rule__domain_id", "rule__code"))
    return list(zip(versions, rule_texts(versions), strict=True))


def published_codes() -> list[str]:
    """The codes of all published rules, which no query may hold and no trace may cite out of turn."""
    return list(Rule.objects.filter(published__isnull=False).values_list("code", flat=True))


def rule_texts(versions: Iterable[RuleVersion]) -> list[RuleText]:
    """Rule versions as the writers see them; confusables that have been retired keep their names."""
    versions = list(versions)
    wanted = {pk for version in versions for pk in version.tool_ids}
    names = dict(Tool.objects.filter(pk__in=wanted).values_list("pk", "name"))
    return [
        RuleText(
            code=version.rule.code,
            version=version.number,
            target=names[version.target_id],
            confusables=tuple(names[pk] for pk in version.confusable_ids),
            text=version.text,
            clauses=tuple(map(clause_of, version.clauses)),
            hash=version.content_hash,
            domain=version.rule.domain_id,
        )
        for version in versions
    ]


def clause_of(said: Mapping[str, Any]) -> Clause:
    signals = tuple(said.get("signals", ()))
    return Clause(said["when"], said["route_to"], bool(said.get("exception")), signals)


def few_shot_queries(limit: int = 200) -> list[str]:
    """Real queries to learn the tone from; disjoint from every benchmark by the registry."""
    rows = LabelledQuery.objects.filter(use=LabelledQuery.Use.FEW_SHOT)
    return list(rows.order_by("id").values_list("text", flat=True)[:limit])
