"""Reads of the catalog pages and resources: one tool with everything known about it, imports, domains."""

import json
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet
from django.shortcuts import get_object_or_404

from catalog.core.edges import say
from catalog.core.twins import newest_first, twin_key
from catalog.models import CatalogImport, Cluster, Clustering, Domain, NeighbourList, Tool
from trace_site.access import PROGRAM, WRITERS
from trace_site.impact import functions_named
from trace_site.lib.letters import entered

HEAVY = ("embedding", "search", "words")


def domains_counted() -> QuerySet[Domain]:
    """With `active`, `deprecated` and `retired` tools."""
    active, deprecated = Q(tools__status=Tool.Status.ACTIVE), Q(tools__deprecated=True)
    return Domain.objects.annotate(
        active=Count("tools", filter=active),
        deprecated=Count("tools", filter=active & deprecated),
        retired=Count("tools", filter=~active & Q(tools__isnull=False)),
    )


def clusters(domain: str = "") -> QuerySet[Cluster]:
    """Those of every domain's newest clustering."""
    newest = Clustering.objects.order_by("domain_id", "-version").distinct("domain_id")
    rows = Cluster.objects.filter(clustering__in=newest.values("pk"))
    if domain:
        rows = rows.filter(clustering__domain=domain)
    return rows.select_related("clustering", "dismissed_by")


def pair_reasons(cluster: Cluster) -> list[list[str]]:
    """Of each edge, in order: why the two tools are look-alikes, in words."""
    least = f"each is near the other, by a cosine of at least {cluster.clustering.tau or 0:.2f}"
    return [list(say(signals[1])) if signals else [least] for _, _, _, *signals in cluster.edges]


def tool(**one: Any) -> Tool:
    """By `pk` or `name`."""
    rows = Tool.objects.select_related("domain", "cluster", "blocked_by").defer(*HEAVY)
    named = {key: as_stored(entered(value)) if key == "name" else value for key, value in one.items()}
    return get_object_or_404(rows, **named)


def as_stored(value: Any) -> Any:
    """What JSON gave, with the names of tools as the catalog has them: before texts had one spelling some came
    decomposed, and tools are never renamed."""
    odd = Tool.objects.extra(where=["name IS NOT NFC NORMALIZED OR name ~ '[\u2010\u2011]'"])
    names = {part for name, api in odd.values_list("name", "api") for part in (name, f"{api}/")}
    spelt = {entered(name): name for name in names if entered(name) != name}
    if not spelt:
        return value
    apis = [name.removesuffix("/") for name in spelt]
    taken = Tool.objects.filter(Q(name__in=spelt) | Q(api__in=apis)).values_list("name", "api")
    for part in {part for name, api in taken for part in (name, f"{api}/")} & spelt.keys():
        del spelt[part]
    text = json.dumps(value)
    for name in sorted(spelt, key=len, reverse=True):
        text = text.replace(json.dumps(name)[1:-1], json.dumps(spelt[name])[1:-1])
    return json.loads(text)


def rule_writers() -> QuerySet[User]:
    """Whom look-alikes can be given to, by name."""
    may_write = Q(is_superuser=True) | Q(groups__name__in=WRITERS)
    people = User.objects.exclude(groups__name=PROGRAM)
    return people.filter(may_write, is_active=True).distinct().order_by("username")


def tools_by_id(ids: Sequence[int]) -> list[Tool]:
    """In the order of `ids`."""
    found = Tool.objects.select_related("domain").defer(*HEAVY).in_bulk(ids)
    return [found[pk] for pk in ids if pk in found]


def tools_by_name(names: Sequence[str]) -> dict[str, Tool]:
    """In the order of `names`; unknown names are left out."""
    found = Tool.objects.defer(*HEAVY).in_bulk(names, field_name="name")
    return {name: found[name] for name in names if name in found}


def neighbours(tool: Tool) -> list[dict[str, Any]]:
    """{"tool", "score"} of the tool's nearest tools, best first; empty before `catalog_neighbours` has run."""
    near = NeighbourList.objects.filter(tool=tool).first()
    if near is None:
        return []
    scores = dict(zip(near.neighbour_ids, near.scores, strict=True))
    return [{"tool": other, "score": scores[other.pk]} for other in tools_by_id(near.neighbour_ids)]


def twins(tool: Tool) -> list[dict[str, Any]]:
    """{"tool", "newer" than the given one} of the active tools that are the same endpoint in other versions of its API,
    the newest first.
    """
    kin = Tool.objects.filter(family=tool.family, status=Tool.Status.ACTIVE).exclude(api=tool.api).order_by()
    key = twin_key(tool.name)
    same = [name for name in kin.values_list("name", flat=True) if twin_key(name) == key]
    ordered = newest_first([tool.name, *same]) if same else []
    place = ordered.index(tool.name) if same else 0
    found = tools_by_name([name for name in ordered if name != tool.name])
    return [{"tool": other, "newer": ordered.index(name) < place} for name, other in found.items()]


def imports() -> QuerySet[CatalogImport]:
    """Without the id lists, which no list shows."""
    rows = CatalogImport.objects.select_related("domain", "actor", "undone_by")
    return rows.defer("retired_ids", "returned_ids")


def import_row(pk: int) -> CatalogImport:
    return get_object_or_404(CatalogImport.objects.select_related("domain", "actor", "undone_by"), pk=pk)


def ruled_tools() -> Q | None:
    """The condition on Tool behind the filter "held by a rule": an app to the right names it in its AppConfig."""
    return next((held() for held in functions_named("ruled_tools")), None)
