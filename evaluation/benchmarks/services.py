"""Freezing benchmarks: checked rows become an immutable version, its queries registered as benchmark queries. And
asking for evaluations: what is to be measured, and what is known already.

The same content is the same version; other content under the same name is the next version.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from catalog.core.scrubbing.child import scrub_many
from catalog.core.words import text_key
from catalog.models import LabelledQuery, NeighbourList, Tool
from catalog.queries.registry import few_shots_withdraw
from catalog.selectors import as_stored
from evaluation.benchmarks.selectors import backend_of, newest_benchmarks
from evaluation.core.items import (
    DEVELOPMENT,
    MCQ,
    NO_DOMAIN,
    PRB,
    QA,
    WHOLE,
    WITH_QUERIES,
    Item,
    build_probes,
    digest,
    parse,
    part_of,
    random_baseline,
)
from evaluation.models import GIVEN_DOMAIN, Benchmark, Evaluation, LabelledRequest
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_rows
from trace_site.lib.letters import entered_all
from training.models import Model, Run
from training.registry.registry import Served, holds_newer, refuse_removed

BUILT = "built offline from the catalog"
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
    """Freeze a file of benchmark rows, or a half of it; returns the version and whether it is new. Its requests
    stay as they are typed, personal data too. Raises TraceError naming file and line."""
    if tier and kind != PRB:
        raise TraceError(f"only a {PRB} benchmark has a tier.", code="bad_request", where="tier")
    read = as_stored(entered_all([[number, row] for number, row in read_rows(path)]))
    rows = ((f"{path}:{number}", row) for number, row in read)
    try:
        items = parse(kind, rows, domain=domain, seed=seed)
    except TraceError as error:
        error.where = error.where or str(path)
        raise
    return freeze(
        name=name,
        kind=kind,
        items=part_of(items, part),
        source=path.name,
        tier=tier,
        is_development=part == DEVELOPMENT,
        actor=actor,
    )


def probe_benchmarks_build(
    *, name: str, count: int = PROBES, seed: int = 0, actor: Any = None
) -> list[Benchmark]:
    """Freeze MCQ_ts and QA_ts made from the active catalog and its neighbour lists, as `mcq-ts-NAME` and
    `qa-ts-NAME`."""
    tools = list(Tool.objects.filter(status=Tool.Status.ACTIVE).values("pk", "name", "description", "domain"))
    names = {tool["pk"]: tool["name"] for tool in tools}
    lists = NeighbourList.objects.filter(tool__in=names).values_list("tool", "neighbour_ids")
    near = {names[tool]: [names[other] for other in others if other in names] for tool, others in lists}
    if not near:
        problem = "the catalog has no neighbour lists, so no wrong options can be chosen."
        raise TraceError(problem, code="no_neighbours", hint="Run manage.py catalog_neighbours first.")
    built = []
    for kind in (MCQ, QA):
        rows = build_probes(kind, tools, near, count, seed=seed)
        items = parse(kind, ((f"question {row['id']}", row) for row in rows), seed=seed)
        benchmark, _ = freeze(name=f"{kind}-ts-{name}", kind=kind, items=items, source=BUILT, actor=actor)
        built.append(benchmark)
    return built


@transaction.atomic
def freeze(
    *,
    name: str,
    kind: str,
    items: Sequence[Item],
    source: str,
    tier: str = "",
    is_development: bool = False,
    actor: Any,
) -> tuple[Benchmark, bool]:
    """The version that holds exactly these items, and whether it was made now."""
    ready = _with_domains(items)
    data = [item.data for item in ready]
    content = digest(kind, ready)
    versions = Benchmark.objects.select_for_update().filter(name=name).order_by("-version")
    if same := versions.filter(hash=content).first():
        return same, False
    newest = versions.first()
    if newest and (newest.kind, newest.tier, newest.is_development) != (kind, tier, is_development):
        words = ["development" if newest.is_development else "", newest.tier, newest.get_kind_display()]
        problem = f"'{name}' is a {' '.join(filter(None, words))} benchmark."
        raise TraceError(problem, code="conflict", hint="Choose another name.")
    benchmark = Benchmark.objects.create(
        name=name,
        version=newest.version + 1 if newest else 1,
        kind=kind,
        tier=tier,
        is_development=is_development,
        hash=content,
        count=len(ready),
        random_baseline=None if kind in WITH_QUERIES else random_baseline(data),
        source=source[:300],
        created_by=actor,
    )
    _store_items(benchmark, ready, actor)
    detail = {"count": len(ready), "hash": content, "kind": kind}
    audit_models.record(actor=actor, action="benchmark.frozen", obj=benchmark, detail=detail)
    return benchmark, True


def _with_domains(items: Sequence[Item]) -> list[Item]:
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


def _store_items(benchmark: Benchmark, items: Sequence[Item], actor: Any) -> None:
    """Queries enter the registry, so that nothing trains on them, as they are typed and without personal data, as what
    is imported to train on comes; few-shot queries that repeat one go. Items with the same words and tools share one
    query there."""
    queries: dict[Any, LabelledQuery] = {}
    identities = [(text_key(item.data.get("query", "")), *item.data.get("tools", ())) for item in items]
    if benchmark.kind in WITH_QUERIES:
        typed = [item.data["query"] for item in items]
        texts = [one.text for one in scrub_many(typed)] + typed
        few_shots_withdraw(texts=texts, because=str(benchmark), actor=actor)
        for text, item in zip(texts, [*items, *items], strict=True):
            key = text_key(text)
            queries[key, *item.data["tools"]] = LabelledQuery(
                collection=str(benchmark),
                use=LabelledQuery.Use.BENCHMARK,
                text=text,
                text_key=key,
                tools=item.data["tools"],
                source=benchmark.source[:200],
                extra={"domain": item.domain},
            )
        LabelledQuery.objects.bulk_create(queries.values(), batch_size=2000)
    rows = [
        LabelledRequest(
            benchmark=benchmark,
            position=position,
            domain=item.domain,
            query=queries.get(identity),
            data=item.data,
        )
        for position, (identity, item) in enumerate(zip(identities, items, strict=True))
    ]
    LabelledRequest.objects.bulk_create(rows, batch_size=2000)


# Asking for evaluations.


def default_decodes(benchmark: Benchmark, model: Model | None) -> list[str]:
    """What is evaluated when nobody chooses. A cell that never learned to write lists is only asked to rank; on a
    development half only what is served is asked, because thresholds are chosen for that; of outside requests only
    the figures of the ranking are shown."""
    is_prb = benchmark.kind == Benchmark.Kind.PRB
    if model is None:
        return [Decode.EMBEDDING] if is_prb else []
    if benchmark.kind not in WITH_QUERIES:
        return [Decode.LETTERS]
    writes = model.run.retrieval != Run.Retrieval.NONE
    reasons = writes and model.run.retrieval != Run.Retrieval.PLAIN
    decodes: list[str] = [Decode.FAST]
    if reasons and (is_prb or benchmark.is_development):
        decodes.append(Decode.TRACE)
    if writes and is_prb and not benchmark.is_development:
        decodes.append(Decode.TRACE_FREE)
    return decodes


@transaction.atomic
def evaluation_request(
    *, model: Model | None, benchmark: Benchmark | None = None, decodes: Sequence[str] = (), actor: Any = None
) -> Job:
    """Queue the evaluation of a model (None: of the embedding baseline) on one benchmark or on all of them."""
    if model is not None:
        refuse_removed(model)
    for decode in decodes:
        is_probe = benchmark is not None and benchmark.kind not in WITH_QUERIES
        if benchmark is not None and is_probe != (decode == Decode.LETTERS):
            raise TraceError(
                f"a {benchmark.get_kind_display()} benchmark cannot be decoded as {decode}.",
                code="bad_decode",
                hint="Use letters." if is_probe else "Use fast, trace, trace-free or beam.",
            )
        if decode in GIVEN_DOMAIN and benchmark is not None and benchmark.kind != Benchmark.Kind.PRB:
            problem = f"its requests have no domain to give, as {decode} would."
            raise TraceError(problem, code="bad_decode", where=str(benchmark), hint="Use fast.")
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
    served: Served = Served()

    @property
    def clauses(self) -> dict[str, int] | None:
        """With how many clauses it answers; None: a probe, the baseline and a model that writes hold none."""
        if self.model is None or self.decode == Decode.LETTERS or not holds_newer(self.model):
            return None
        return self.served.counted(self.model)

    @property
    def key(self) -> str:
        """Unchanged model, benchmark and decoding: nothing is computed again."""
        if self.model:
            who = [self.model.pk, self.model.store_digest]
        else:  # the baseline: which tools are searched, embedded from which text by which encoder
            active = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by("name")
            keys = [list(key) for key in active.values_list("name", "embedding_key")]
            who = ["embedding", content_hash([settings.ENCODER, keys])]
        what = {"benchmark": self.benchmark.hash, "id": self.benchmark.pk, "decode": self.decode}
        if self.model:
            # earlier evaluations told the model the domain of a request, or left questions of a probe out
            what["asked"] = "as served"
        if self.served.without:
            what["without"] = content_hash(list(self.served.without))
        if self.served.newer:
            what["newer"] = content_hash(list(self.served.newer))
        if self.served.moved:
            what["clauses"] = list(self.served.moved)
        if self.model and (backend := backend_of(self.model)):
            what["backend"] = backend  # it is measured as it is served
        return content_hash({"who": who, **what})


def plan(
    model: Model | None, chosen: Iterable[Benchmark] | None = None, decodes: Sequence[str] | None = None
) -> list[Unit]:
    """The baseline first, because lists of a model are compared with it at their own length."""
    benchmarks = list(newest_benchmarks() if chosen is None else chosen)
    given = [Decode.EMBEDDING_DOMAIN] if set(decodes or ()) & GIVEN_DOMAIN.keys() else []
    units = [Unit(None, one, decode) for one in benchmarks for decode in given or default_decodes(one, None)]
    if model is None:
        return units
    served = Served.now(model)
    return units + [
        Unit(model, one, decode, Served() if decode == Decode.LETTERS else served)
        for one in benchmarks
        for decode in decodes or default_decodes(one, model)
    ]
