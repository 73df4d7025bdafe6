"""Reads of the catalog pages: searching tools, and one tool with everything known about it."""

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib.postgres.search import SearchQuery, SearchRank
from django.db.models import Exists, F, OuterRef, QuerySet
from django.shortcuts import get_object_or_404

from catalog.core.tokens import FORMATS, tool_units
from catalog.core.words import name_words
from catalog.models import CatalogImport, Cluster, Clustering, Domain, NeighbourList, Tool, ToolRevision

SEARCH_LIMIT = 100


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """What the catalog list is narrowed by; empty values narrow nothing."""

    search: str = ""
    domain: str = ""
    api: str = ""
    state: str = ""
    clustered: str = ""
    ruled: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    tool: Tool
    score: float


def domains() -> QuerySet[Domain]:
    return Domain.objects.all()


def apis(domain: str = "") -> list[str]:
    rows = Tool.objects.filter(domain_id=domain) if domain else Tool.objects.all()
    return list(rows.order_by("api").values_list("api", flat=True).distinct())


def current_clusterings() -> QuerySet[Clustering]:
    """The newest frozen clustering of every domain."""
    return Clustering.objects.order_by("domain_id", "-version").distinct("domain_id")


def tools(chosen: ToolFilter, ruled_ids: Callable[[], set[int]] | None = None) -> QuerySet[Tool]:
    """Matching tools; the best matches first when there are words to search, else unordered (pages order by name)."""
    rows = Tool.objects.select_related("domain").defer("embedding", "search", "words")
    if chosen.domain:
        rows = rows.filter(domain_id=chosen.domain)
    if chosen.api:
        rows = rows.filter(api=chosen.api)
    rows = _by_state(rows, chosen.state)
    if chosen.clustered:
        inside = Cluster.objects.filter(
            clustering__in=current_clusterings().values("pk"), tool_ids__contains=[OuterRef("pk")]
        )
        rows = rows.filter(Exists(inside) if chosen.clustered == "yes" else ~Exists(inside))
    if chosen.ruled and ruled_ids is not None:
        held = ruled_ids()
        rows = rows.filter(pk__in=held) if chosen.ruled == "yes" else rows.exclude(pk__in=held)
    return _search(rows, chosen.search)


def _by_state(rows: QuerySet[Tool], state: str) -> QuerySet[Tool]:
    if state == "retired":
        return rows.filter(status=Tool.Status.RETIRED)
    if state == "all":
        return rows
    rows = rows.filter(status=Tool.Status.ACTIVE)
    return rows.filter(deprecated=state == "deprecated") if state in {"deprecated", "current"} else rows


def _search(rows: QuerySet[Tool], text: str) -> QuerySet[Tool]:
    """Every word must start a word of the name or the description."""
    words = name_words(text)
    if not words:
        return rows
    query = SearchQuery(" & ".join(f"{word}:*" for word in words), search_type="raw", config="english")
    return rows.filter(search=query).order_by(SearchRank(F("search"), query).desc(), "name")


def tool_named(name: str) -> Tool:
    return get_object_or_404(Tool, name=name)


def tool(pk: int) -> Tool:
    return get_object_or_404(Tool.objects.select_related("domain").defer("embedding", "search"), pk=pk)


def tools_by_id(ids: list[int]) -> list[Tool]:
    """In the order of `ids`."""
    found = Tool.objects.select_related("domain").defer("embedding", "search", "words").in_bulk(ids)
    return [found[pk] for pk in ids if pk in found]


def tools_by_name(names: list[str]) -> dict[str, Tool]:
    """In the order of `names`; unknown names are left out."""
    found = Tool.objects.defer("embedding", "search", "words").in_bulk(names, field_name="name")
    return {name: found[name] for name in names if name in found}


def neighbours(tool: Tool) -> list[Neighbour]:
    """The tool's nearest tools, best first; empty before `catalog_neighbours` has run."""
    near = NeighbourList.objects.filter(tool=tool).first()
    if near is None:
        return []
    scores = dict(zip(near.neighbour_ids, near.scores, strict=True))
    return [Neighbour(other, scores[other.pk]) for other in tools_by_id(list(near.neighbour_ids))]


def cluster_of(tool: Tool) -> Cluster | None:
    """The tool's cluster in its domain's newest clustering."""
    newest = Clustering.objects.filter(domain=tool.domain_id).order_by("-version").values("pk")[:1]
    rows = Cluster.objects.select_related("clustering")
    return rows.filter(clustering__in=newest, tool_ids__contains=[tool.pk]).first()


def token_strings(tool: Tool) -> list[tuple[str, str]]:
    """(format, the tokens that name the tool in it)."""
    return [(fmt, "".join(tool_units(tool.name, fmt))) for fmt in FORMATS]


def revisions(tool: Tool) -> QuerySet[ToolRevision]:
    return ToolRevision.objects.filter(tool=tool).select_related("catalog_import__actor")


def imports() -> QuerySet[CatalogImport]:
    return CatalogImport.objects.select_related("domain", "actor")
