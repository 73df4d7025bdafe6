"""Reads of the catalog pages and resources: one tool with everything known about it, imports, domains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet
from django.shortcuts import get_object_or_404

from catalog.core.tokens import FORMATS, tool_units
from catalog.core.twins import newest_first, twin_key
from catalog.models import CatalogImport, Cluster, Clustering, Domain, NeighbourList, Tool, ToolRevision

HEAVY = ("embedding", "search", "words")


@dataclass(frozen=True, slots=True)
class Neighbour:
    tool: Tool
    score: float


@dataclass(frozen=True, slots=True)
class Twin:
    """The same endpoint in another version of the API; `newer` than the tool it was asked for."""

    tool: Tool
    newer: bool


def domains() -> QuerySet[Domain]:
    return Domain.objects.all()


def domains_counted() -> QuerySet[Domain]:
    """With `active`, `deprecated` and `retired` tools."""
    active, deprecated = Q(tools__status=Tool.Status.ACTIVE), Q(tools__deprecated=True)
    return Domain.objects.annotate(
        active=Count("tools", filter=active),
        deprecated=Count("tools", filter=active & deprecated),
        retired=Count("tools", filter=~active & Q(tools__isnull=False)),
    )


def current_clusterings() -> QuerySet[Clustering]:
    """The newest frozen clustering of every domain."""
    return Clustering.objects.order_by("domain_id", "-version").distinct("domain_id")


def clusters(domain: str = "") -> QuerySet[Cluster]:
    """Those of the newest clusterings."""
    rows = Cluster.objects.filter(clustering__in=current_clusterings().values("pk"))
    if domain:
        rows = rows.filter(clustering__domain=domain)
    return rows.select_related("clustering", "dismissed_by")


def tool_named(name: str) -> Tool:
    rows = Tool.objects.select_related("domain", "cluster", "blocked_by").defer(*HEAVY)
    return get_object_or_404(rows, name=name)


def tool(pk: int) -> Tool:
    rows = Tool.objects.select_related("domain", "cluster", "blocked_by").defer(*HEAVY)
    return get_object_or_404(rows, pk=pk)


def tools_by_id(ids: Sequence[int]) -> list[Tool]:
    """In the order of `ids`."""
    found = Tool.objects.select_related("domain").defer(*HEAVY).in_bulk(ids)
    return [found[pk] for pk in ids if pk in found]


def tools_by_name(names: Sequence[str]) -> dict[str, Tool]:
    """In the order of `names`; unknown names are left out."""
    found = Tool.objects.defer(*HEAVY).in_bulk(names, field_name="name")
    return {name: found[name] for name in names if name in found}


def neighbours(tool: Tool) -> list[Neighbour]:
    """The tool's nearest tools, best first; empty before `catalog_neighbours` has run."""
    near = NeighbourList.objects.filter(tool=tool).first()
    if near is None:
        return []
    scores = dict(zip(near.neighbour_ids, near.scores, strict=True))
    return [Neighbour(other, scores[other.pk]) for other in tools_by_id(near.neighbour_ids)]


def twins(tool: Tool) -> list[Twin]:
    """The active tools that are the same endpoint in other versions of its API, the newest first."""
    kin = Tool.objects.filter(family=tool.family, status=Tool.Status.ACTIVE).exclude(api=tool.api).order_by()
    key = twin_key(tool.name)
    same = [name for name in kin.values_list("name", flat=True) if twin_key(name) == key]
    ordered = newest_first([tool.name, *same]) if same else []
    place = ordered.index(tool.name) if same else 0
    found = tools_by_name([name for name in ordered if name != tool.name])
    return [Twin(other, ordered.index(name) < place) for name, other in found.items()]


def token_strings(tool: Tool) -> list[tuple[str, str]]:
    """(format, the tokens that name the tool in it)."""
    return [(fmt, "".join(tool_units(tool.name, fmt))) for fmt in FORMATS]


def revisions(tool: Tool) -> QuerySet[ToolRevision]:
    """Newest first, with the import that wrote each or the one whose undoing did."""
    rows = ToolRevision.objects.filter(tool=tool)
    return rows.select_related("catalog_import__actor", "undo_of__undone_by")


def imports() -> QuerySet[CatalogImport]:
    """Without the id lists, which no list shows."""
    rows = CatalogImport.objects.select_related("domain", "actor", "undone_by")
    return rows.defer("retired_ids", "returned_ids")


def import_row(pk: int) -> CatalogImport:
    return get_object_or_404(CatalogImport.objects.select_related("domain", "actor", "undone_by"), pk=pk)


# Which tools a rule holds, as the app that knows rules says it in its AppConfig.ready(); nothing imports right.


RuledTools = Callable[[], Q]
_ruled: list[RuledTools] = []


def tell_ruled_tools(teller: RuledTools) -> None:
    """Give the condition on Tool behind the list's filter "held by a rule"."""
    _ruled[:] = [teller]


def ruled_tools() -> Q | None:
    """The condition; None where no app knows rules."""
    return _ruled[0]() if _ruled else None
