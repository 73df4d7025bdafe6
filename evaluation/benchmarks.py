"""Freezing benchmarks: checked rows become an immutable version, its queries registered as benchmark queries.

The same content is the same version; other content under the same name is the next version.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import transaction

from catalog.core.words import text_key
from catalog.models import LabelledQuery, NeighbourList, Tool
from catalog.queries import few_shots_withdraw
from evaluation.core import items as core
from evaluation.core.items import Item
from evaluation.core.probe_builder import ProbeBuilder
from evaluation.core.probes import counted
from evaluation.models import Benchmark, BenchmarkItem
from trace_site import audit
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_jsonl

BUILT = "built offline from the catalog"


def read(path: Path, kind: str, *, domain: str = "", seed: int = 0) -> list[Item]:
    """The checked items of a file; raises TraceError naming file and line."""
    rows = ((f"{path}:{number}", row) for number, row in read_jsonl(path))
    try:
        return core.parse(kind, rows, domain=domain, seed=seed)
    except TraceError as error:
        error.where = error.where or str(path)
        raise


def build(kind: str, count: int, *, seed: int = 0) -> list[Item]:
    """MCQ_ts or QA_ts questions made from the active catalog and its neighbour lists."""
    tools = list(Tool.objects.filter(status=Tool.Status.ACTIVE).values("pk", "name", "description", "domain"))
    names = {tool["pk"]: tool["name"] for tool in tools}
    lists = NeighbourList.objects.filter(tool__in=names).values_list("tool", "neighbour_ids")
    near = {names[tool]: [names[other] for other in others if other in names] for tool, others in lists}
    if not near:
        raise TraceError(
            "the catalog has no neighbour lists, so no wrong options can be chosen.",
            code="no_neighbours",
            hint="Run manage.py catalog_neighbours first.",
        )
    builder = ProbeBuilder(tools, near, seed=seed)
    rows = builder.mcq(count) if kind == core.MCQ else builder.qa(count)
    return core.parse(kind, ((f"question {row['id']}", row) for row in rows), seed=seed)


def with_domains(items: Sequence[Item]) -> list[Item]:
    """Fill a missing domain from the item's tool; raises TraceError at the first tool the catalog does not have."""
    wanted = {name for item in items for name in item.tools}
    domains = dict(Tool.objects.filter(name__in=wanted).values_list("name", "domain"))
    missing = [(item, name) for item in items for name in item.tools if name not in domains]
    if missing:
        item, name = missing[0]
        more = f" ({len(missing) - 1} more like it)" if len(missing) > 1 else ""
        raise TraceError(
            f"'{name}' is not in the catalog{more}.",
            code="unknown_tool",
            where=item.where,
            hint="Import the catalog this benchmark was made for first.",
        )
    return [
        item
        if item.domain
        else replace(item, domain=domains[item.tools[0]] if item.tools else core.NO_DOMAIN)
        for item in items
    ]


@transaction.atomic
def freeze(
    *,
    name: str,
    kind: str,
    items: Iterable[Item],
    source: str,
    tier: str = "",
    is_development: bool = False,
    actor: Any,
) -> tuple[Benchmark, bool]:
    """The version that holds exactly these items, and whether it was made now."""
    ready = with_domains(list(items))
    if not counted([item.data for item in ready]):
        raise TraceError(
            "every question is about a tool of the half that Stage 1 may learn letters on, so none of them counts.",
            code="empty_benchmark",
            hint="Add questions about other tools.",
        )
    hash_ = core.digest(kind, ready)
    versions = Benchmark.objects.select_for_update().filter(name=name).order_by("-version")
    if same := versions.filter(hash=hash_).first():
        return same, False
    newest = versions.first()
    said = (kind, tier, is_development)
    if newest is not None and (newest.kind, newest.tier, newest.is_development) != said:
        words = ["development" if newest.is_development else "", newest.tier, newest.get_kind_display()]
        raise TraceError(
            f"'{name}' is a {' '.join(filter(None, words))} benchmark.",
            code="conflict",
            hint="Choose another name.",
        )
    benchmark = Benchmark.objects.create(
        name=name,
        version=newest.version + 1 if newest else 1,
        kind=kind,
        tier=tier,
        is_development=is_development,
        hash=hash_,
        count=len(ready),
        random_baseline=core.chance(kind, ready),
        source=source[:300],
        created_by=actor,
    )
    queries = register(benchmark, ready, actor) if kind in core.WITH_QUERIES else {}
    BenchmarkItem.objects.bulk_create(
        [
            BenchmarkItem(
                benchmark=benchmark,
                position=position,
                domain=item.domain,
                query_id=queries.get(_identity(item)),
                data=item.data,
            )
            for position, item in enumerate(ready)
        ],
        batch_size=2000,
    )
    audit.record(
        actor=actor,
        action="benchmark.frozen",
        obj=benchmark,
        detail={"count": len(ready), "hash": hash_, "kind": kind},
    )
    return benchmark, True


def register(
    benchmark: Benchmark, items: Sequence[Item], actor: Any
) -> dict[tuple[str, tuple[str, ...]], int]:
    """Enter the queries in the registry, so that nothing trains on them; few-shot queries that repeat one go."""
    few_shots_withdraw(texts=(item.data["query"] for item in items), because=str(benchmark), actor=actor)
    rows = {
        _identity(item): LabelledQuery(
            collection=str(benchmark),
            use=LabelledQuery.Use.BENCHMARK,
            text=item.data["query"],
            text_key=text_key(item.data["query"]),
            tools=item.data["tools"],
            source=benchmark.source[:200],
            extra={"domain": item.domain},
        )
        for item in items
    }
    LabelledQuery.objects.bulk_create(rows.values(), batch_size=2000)
    return {identity: row.pk for identity, row in rows.items()}


def _identity(item: Item) -> tuple[str, tuple[str, ...]]:
    return text_key(item.data.get("query", "")), tuple(item.data.get("tools", ()))


def latest() -> list[Benchmark]:
    """The newest version of every benchmark."""
    return list(Benchmark.objects.order_by("name", "-version").distinct("name"))
