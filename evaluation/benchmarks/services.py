"""Freezing benchmarks: checked rows become an immutable version, its queries registered as benchmark queries.

The same content is the same version; other content under the same name is the next version.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from catalog.blocks import retired_names
from catalog.core.words import text_key
from catalog.models import LabelledQuery, NeighbourList, Tool
from catalog.queries.registry import few_shots_withdraw
from evaluation.core.items import (
    DEVELOPMENT,
    MCQ,
    NO_DOMAIN,
    PRB,
    QA,
    WHOLE,
    WITH_QUERIES,
    Item,
    chance,
    digest,
    parse,
    part_of,
)
from evaluation.core.probes import ProbeBuilder, counted
from evaluation.models import Benchmark, BenchmarkItem, Evaluation
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_jsonl
from training.core.questions import TAUGHT
from training.models import Model, Run
from training.registry.registry import export_dir, refuse_removed, tools_of

BUILT = "built offline from the catalog"


def read(path: Path, kind: str, *, domain: str = "", seed: int = 0) -> list[Item]:
    """The checked items of a file; raises TraceError naming file and line."""
    rows = ((f"{path}:{number}", row) for number, row in read_jsonl(path))
    try:
        return parse(kind, rows, domain=domain, seed=seed)
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
    rows = builder.mcq(count) if kind == MCQ else builder.qa(count)
    return parse(kind, ((f"question {row['id']}", row) for row in rows), seed=seed)


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
        item if item.domain else replace(item, domain=domains[item.tools[0]] if item.tools else NO_DOMAIN)
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
    hash_ = digest(kind, ready)
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
        random_baseline=chance(kind, ready),
        source=source[:300],
        created_by=actor,
    )
    queries = register(benchmark, ready, actor) if kind in WITH_QUERIES else {}
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
    audit_models.record(
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


# Asking for benchmarks and evaluations.


K = 10  # length of a model's ranked list
EMBEDDING_K = 50  # the baseline's list is longer, so that it can be cut to any model's list length
PROBES = 200  # questions of a probe that is built from the catalog
Decode = Evaluation.Decode


def benchmark_import(
    *,
    path: Path,
    kind: str,
    name: str,
    tier: str = "",
    part: str = WHOLE,
    domain: str = "",
    seed: int = 0,
    actor: Any = None,
) -> tuple[Benchmark, bool]:
    """Freeze a file of benchmark rows, or a half of it; returns the version and whether it is new."""
    if tier and kind != PRB:
        raise TraceError(f"only a {PRB} benchmark has a tier.", code="bad_request", where="tier")
    found = part_of(read(path, kind, domain=domain, seed=seed), part)
    return freeze(
        name=name,
        kind=kind,
        items=found,
        source=path.name,
        tier=tier,
        is_development=part == DEVELOPMENT,
        actor=actor,
    )


def probe_benchmarks_build(
    *, name: str, count: int = PROBES, seed: int = 0, actor: Any = None
) -> list[Benchmark]:
    """Freeze MCQ_ts and QA_ts built from the catalog, as `mcq-ts-NAME` and `qa-ts-NAME`."""
    built = []
    for kind in (MCQ, QA):
        found = build(kind, count, seed=seed)
        benchmark, _ = freeze(name=f"{kind}-ts-{name}", kind=kind, items=found, source=BUILT, actor=actor)
        built.append(benchmark)
    return built


def default_decodes(benchmark: Benchmark, model: Model | None) -> list[str]:
    """What is evaluated when nobody chooses. A cell that never learned to write lists is only asked to rank; on a
    development half only what is served is asked, because thresholds are chosen for that."""
    if benchmark.kind == Benchmark.Kind.OUTSIDE:
        return _served(model, benchmark) if model else []
    if benchmark.kind != Benchmark.Kind.PRB:
        return [Decode.LETTERS] if model else []
    if model is None:
        return [Decode.EMBEDDING]
    written = model.run.retrieval != Run.Retrieval.NONE
    traced = written and model.run.retrieval != Run.Retrieval.PLAIN
    decodes: list[str] = [Decode.FAST, *([Decode.TRACE] if traced else [])]
    return [*decodes, Decode.TRACE_FREE] if written and not benchmark.is_development else decodes


def _served(model: Model, benchmark: Benchmark) -> list[str]:
    """How outside requests are answered: as the figures are shown, and to choose thresholds as models are served."""
    reasons = model.run.retrieval not in (Run.Retrieval.NONE, Run.Retrieval.PLAIN)
    return [Decode.FAST, Decode.TRACE] if reasons and benchmark.is_development else [Decode.FAST]


def check_decode(benchmark: Benchmark, decode: str) -> None:
    is_probe = benchmark.kind not in WITH_QUERIES
    if is_probe != (decode == Decode.LETTERS):
        raise TraceError(
            f"a {benchmark.get_kind_display()} benchmark cannot be decoded as {decode}.",
            code="bad_decode",
            hint="Use letters." if is_probe else "Use fast, trace, trace-free or beam.",
        )


@transaction.atomic
def evaluation_request(
    *, model: Model | None, benchmark: Benchmark | None = None, decodes: Sequence[str] = (), actor: Any = None
) -> Job:
    """Queue the evaluation of a model (None: of the embedding baseline) on one benchmark or on all of them."""
    if model is not None:
        refuse_removed(model)
    for decode in decodes:
        if benchmark is not None:
            check_decode(benchmark, decode)
    params = {
        "model": model.pk if model else None,
        "benchmarks": [benchmark.pk] if benchmark else None,
        "decodes": list(decodes) or None,
    }
    subject = f"model {model.pk} {model.run.cell}" if model else "the embedding baseline"
    on = f" on {benchmark}" if benchmark else ""
    return jobs.enqueue("evaluation", params, title=f"evaluate {subject}{on}", created_by=actor)


@dataclass(frozen=True)
class Unit:
    """One evaluation to make or to find made."""

    model: Model | None
    benchmark: Benchmark
    decode: str
    without: tuple[str, ...] = ()  # retired tools, which no answer names

    @property
    def key(self) -> str:
        """Unchanged model, benchmark and decoding: nothing is computed again."""
        who = (
            [self.model.pk, self.model.store_digest]
            if self.model
            else ["embedding", catalog_embeddings_hash()]
        )
        what = {"benchmark": self.benchmark.hash, "id": self.benchmark.pk, "decode": self.decode}
        if self.benchmark.kind in (Benchmark.Kind.MCQ, Benchmark.Kind.QA):
            what["left out"] = TAUGHT  # earlier evaluations counted every question
        if self.without:
            what["without"] = content_hash(list(self.without))
        return content_hash({"who": who, **what})


def plan(
    model: Model | None, chosen: Iterable[Benchmark] | None = None, decodes: Sequence[str] | None = None
) -> list[Unit]:
    """The baseline first, because lists of a model are compared with it at their own length. A model is measured as it
    is served: tools that are retired now are masked; a block is for a day and masks nothing here."""
    units: list[Unit] = []
    without = retired_tools(model) if model is not None else ()
    for benchmark in latest() if chosen is None else chosen:
        units += [Unit(None, benchmark, decode) for decode in default_decodes(benchmark, None)]
        if model is not None:
            wanted = decodes or default_decodes(benchmark, model)
            units += [
                Unit(model, benchmark, decode, () if decode == Decode.LETTERS else without)
                for decode in wanted
            ]
    return sorted(units, key=lambda unit: unit.model is not None)


def retired_tools(model: Model) -> tuple[str, ...]:
    """Those the model has tokens for."""
    retired = retired_names()
    return tuple(sorted(retired & tools_of(export_dir(model), model.store_digest))) if retired else ()


def catalog_embeddings_hash() -> str:
    """What the baseline searches: which tools, embedded from which text by which encoder."""
    keys = (
        Tool.objects.filter(status=Tool.Status.ACTIVE).order_by("name").values_list("name", "embedding_key")
    )
    return content_hash([settings.ENCODER, [list(key) for key in keys]])
