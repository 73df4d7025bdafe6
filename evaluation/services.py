"""Asking for benchmarks and evaluations."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from catalog.blocks import retired_names
from catalog.models import Tool
from evaluation import benchmarks
from evaluation.core import items
from evaluation.models import Benchmark, Evaluation
from trace_site import jobs
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.core.questions import TAUGHT
from training.known import tools_of
from training.models import Model, Run
from training.registry import export_dir, refuse_removed

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
    part: str = items.WHOLE,
    domain: str = "",
    seed: int = 0,
    actor: Any = None,
) -> tuple[Benchmark, bool]:
    """Freeze a file of benchmark rows, or a half of it; returns the version and whether it is new."""
    if tier and kind != items.PRB:
        raise TraceError(f"only a {items.PRB} benchmark has a tier.", code="bad_request", where="tier")
    found = items.part_of(benchmarks.read(path, kind, domain=domain, seed=seed), part)
    return benchmarks.freeze(
        name=name,
        kind=kind,
        items=found,
        source=path.name,
        tier=tier,
        is_development=part == items.DEVELOPMENT,
        actor=actor,
    )


def probe_benchmarks_build(
    *, name: str, count: int = PROBES, seed: int = 0, actor: Any = None
) -> list[Benchmark]:
    """Freeze MCQ_ts and QA_ts built from the catalog, as `mcq-ts-NAME` and `qa-ts-NAME`."""
    built = []
    for kind in (items.MCQ, items.QA):
        found = benchmarks.build(kind, count, seed=seed)
        benchmark, _ = benchmarks.freeze(
            name=f"{kind}-ts-{name}", kind=kind, items=found, source=benchmarks.BUILT, actor=actor
        )
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
    is_probe = benchmark.kind not in items.WITH_QUERIES
    if is_probe != (decode == Decode.LETTERS):
        raise TraceError(
            f"a {benchmark.get_kind_display()} benchmark cannot be decoded as {decode}.",
            code="bad_decode",
            hint="Use letters." if is_probe else "Use fast, trace, trace-free or beam.",
        )


@transaction.atomic
def evaluation_request(
    *,
    model: Model | None,
    benchmark: Benchmark | None = None,
    decodes: Sequence[str] = (),
    actor: Any = None,
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
    for benchmark in benchmarks.latest() if chosen is None else chosen:
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
