"""The evaluation job: one model (and the embedding baseline) on frozen benchmarks, decoded in a child process."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings

from catalog.lookalikes import await_look_alikes, half_embedded
from catalog.models import Tool
from evaluation.benchmarks.selectors import SEED, benchmark_rows
from evaluation.benchmarks.services import EMBEDDING_K, K, Unit, plan
from evaluation.core.asking import labelled_item, labelled_question
from evaluation.core.embedding import EmbeddingRows, ranked
from evaluation.core.report import asked_at_once
from evaluation.gate.services import report_make
from evaluation.models import GIVEN_DOMAIN, Benchmark, Evaluation
from evaluation.results import comparison
from evaluation.results.scoring import publish, score
from evaluation.results.unanswered import Unanswered
from evaluation.retrieval.calibration import calibrate
from trace_site.jobs import JobContext
from trace_site.lib.child import Event, run_child
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, read_jsonl, write_atomic, write_jsonl
from trace_site.lib.provenance import hardware_facts
from training.models import Model
from training.registry.registry import Served, current_aliases, export_dir
from training.runs.stages import child_env

ENGINE, ENCODER = "evaluation.ml", "catalog.ml"
TRIES = 3
Rows = list[dict[str, Any]]
GO_ON = "Retry the job; it goes on where it stopped."


class CatalogMoved(Exception):
    """The baseline was to search a catalog that is not the one of its key any more."""


def run_evaluation(ctx: JobContext) -> dict[str, Any]:
    """Measure one model, or the baseline alone; a model that was measured on everything is gated next."""
    params = ctx.params
    model = Model.objects.select_related("run").get(pk=params["model"]) if params["model"] else None
    chosen = Benchmark.objects.filter(pk__in=params["benchmarks"]) if params.get("benchmarks") else None
    result = measure(ctx, model, chosen, params.get("decodes"))
    if model is not None and chosen is None and not params.get("decodes"):
        comparison.evaluated(ctx, model)
    return result


def measure(
    ctx: JobContext,
    model: Model | None,
    chosen: Iterable[Benchmark] | None = None,
    decodes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Make what is missing; a finished evaluation costs no forward.

    Raises JobPostponed while tools are being embedded, TraceError `incomplete` when a planned one is not finished.
    """
    for _ in range(TRIES):
        try:
            return _measure(ctx, model, chosen, decodes)
        except CatalogMoved:
            continue
    problem = f"the catalog was changed while the baseline searched it, {TRIES} times."
    raise TraceError(problem, code="conflict", hint="Retry when no import is under way.")


def _measure(
    ctx: JobContext,
    model: Model | None,
    chosen: Iterable[Benchmark] | None,
    decodes: Sequence[str] | None,
) -> dict[str, Any]:
    units = plan(model, chosen, decodes)
    needs_baseline = any(unit.model is None for unit in units)
    if needs_baseline and half_embedded():
        await_look_alikes(ctx)
    with (
        ctx.guard()
    ):  # what this job began for a catalog that has moved on since: nobody would ever finish it
        begun = Evaluation.objects.filter(job=ctx.job, metrics__isnull=True)
        begun.exclude(key__in=[unit.key for unit in units]).delete()
    result: dict[str, Any] = {"evaluations": [], "computed": 0, "skipped": []}
    if needs_baseline and not Tool.objects.filter(embedding__isnull=False).exists():
        why = "the catalog has no embeddings; run manage.py catalog_neighbours"
        result["skipped"] = [f"embedding baseline: {why}"]
        units = [unit for unit in units if unit.model is not None]
    works = [work for unit in units if (work := open_work(ctx, unit, result))]
    tests = Unanswered.tests(model) if model is not None else None
    progress = JobProgress(ctx, sum(len(work.rows) for work in works) + (tests.count if tests else 0))
    if searches := [work for work in works if work.unit.model is None]:
        embed(ctx, searches, progress)
        for work in searches:
            work.publish(ctx, result)
    if model is not None:
        asked: list[Work | Unanswered] = [work for work in works if work.unit.model is not None]
        if tests and tests.count:
            asked.append(tests)
        predict(ctx, model, asked, progress, result)
        calibrate(ctx, model)
    planned = result["evaluations"]
    open_ = len(planned) - Evaluation.objects.filter(pk__in=planned, metrics__isnull=False).count()
    if open_ > 0:
        message = f"{open_} of {len(planned)} evaluations are not finished."
        raise TraceError(message, code="incomplete", hint=GO_ON)
    return result


def run_gate(ctx: JobContext) -> dict[str, Any]:
    """Measure what a candidate or its opponent was not asked yet, then report; see evaluation.gate."""
    models = Model.objects.select_related("run").in_bulk(
        filter(None, map(ctx.params.get, ("model", "champion")))
    )
    candidate = models[ctx.params["model"]]
    named = models.get(ctx.params.get("champion"))
    opponent = named or current_aliases().get("champion")
    if opponent == candidate:
        hint = "Name another model as its opponent."
        raise TraceError(f"model {candidate.pk} is the champion by now.", code="bad_state", hint=hint)
    measured = [pk for model in (candidate, opponent) if model for pk in measure(ctx, model)["evaluations"]]
    report = report_make(candidate=candidate, champion=opponent, measured=measured, ctx=ctx)
    return {"report": report.pk, "verdict": report.verdict, "champion": report.champion_id}


def run_rule_tests(ctx: JobContext) -> dict[str, Any]:
    """Ask a model the tests of the published rules that it has not answered yet, and requests kept out of training."""
    model = Model.objects.select_related("run").get(pk=ctx.params["model"])
    result: dict[str, Any] = {"rules_tested": 0, "rules_passed": 0, "kept_out": 0}
    while True:  # rules may be published meanwhile
        tests, kept = Unanswered.tests(model), Unanswered.kept_out(model)
        works = [work for work in (tests, kept) if work.count]
        if not works:
            return result
        progress = JobProgress(ctx, tests.count + 2 * kept.count)
        if kept.count and Tool.objects.filter(embedding__isnull=False).exists():
            vectors = encode(ctx, kept.folder, kept.rows, "requests kept out of training", progress)
            kept.embedding = by_embedding(kept.rows, vectors)
        asked: dict[str, Any] = {}
        predict(ctx, model, works, progress, asked)
        result = {name: number + asked.get(name, 0) for name, number in result.items()}


def open_work(ctx: JobContext, unit: Unit, result: dict[str, Any]) -> "Work | None":
    """The row of a unit; None when it is finished."""
    ctx.check()
    with ctx.guard():
        evaluation, _ = Evaluation.objects.get_or_create(
            key=unit.key,
            defaults={
                "model": unit.model,
                "benchmark": unit.benchmark,
                "decode": unit.decode,
                "job": ctx.job,
                "seed": SEED,
                "hardware": hardware_facts(settings.ML_THREADS),
                "clauses": unit.clauses,
            },
        )
    result["evaluations"].append(evaluation.pk)
    if evaluation.metrics is None:
        folder = settings.TRACE_HOME / "evaluations" / unit.key
        return Work(evaluation, benchmark_rows(unit.benchmark), folder, unit)
    return None


@dataclass
class Work:
    """One unfinished evaluation; its folder makes an interrupted one go on where it stopped."""

    evaluation: Evaluation
    rows: Rows
    folder: Path
    unit: Unit
    asked: Rows = field(default_factory=list)
    published: bool = False

    @property
    def decode(self) -> str:
        return self.evaluation.decode

    @property
    def served(self) -> Served:
        return self.unit.served

    def ask(self, export: Path) -> None:
        """Write the items; a question about a tool the model has no token for cannot be asked."""
        spec = read_json(export / "trace.json")
        names = {tool["name"] for tool in spec["tools"]}
        self.asked = [row for row in self.rows if not row.get("tool") or row["tool"] in names]
        write_jsonl(self.folder / "items.jsonl", map(self.item, self.asked))

    def item(self, row: dict[str, Any]) -> dict[str, Any]:
        """What the engine is told of a row."""
        if self.decode == Evaluation.Decode.LETTERS:
            return labelled_question(row)
        domain = row["domain"] if self.decode in GIVEN_DOMAIN else None
        return labelled_item(row, self.served.without, domain=domain)

    def written(self) -> Rows:
        """The answers in the order in which they were given."""
        return [row for _, row in read_jsonl(self.folder / "predictions.jsonl")] if self.asked else []

    def predictions(self, written: Rows) -> Rows:
        """Every item's answer; what could not be asked has no letter."""
        found = {str(row["id"]): row for row in written}
        if missing := [row["id"] for row in self.asked if row["id"] not in found]:
            raise TraceError(
                f"{len(missing)} of {len(self.asked)} answers are missing.",
                code="incomplete_predictions",
                where=f"{self.evaluation.benchmark}, {self.decode}",
                hint=GO_ON,
            )
        return [found.get(row["id"]) or {"id": row["id"], "letter": "", "scores": []} for row in self.rows]

    def publish(self, ctx: JobContext, result: dict[str, Any]) -> None:
        written, evaluation = self.written(), self.evaluation
        predictions = self.predictions(written)
        if not any("backend" in row for row in written):  # a server forms batches of its own
            evaluation.hardware["at_once"] = asked_at_once(written)
        # seconds of bootstrap: not inside the guard, which would hold the job's row against its heartbeat
        metrics, cited = score(evaluation.benchmark, evaluation.decode, predictions, self.rows)
        with ctx.guard():
            if self.unit.key != evaluation.key:
                raise CatalogMoved
            publish(
                evaluation=evaluation, predictions=predictions, rows=self.rows, metrics=metrics, cited=cited
            )
        self.published = True
        result["computed"] += 1


@dataclass
class JobProgress:
    """One bar over all the children of the job."""

    ctx: JobContext
    total: int
    before: int = 0

    def show(self, event: Event, label: str) -> None:
        if event.get("event") == "progress":
            done = min(self.total, self.before + int(event["done"]))
            self.ctx.progress(done, self.total, f"{label}: {event.get('note', '')}")


def predict(
    ctx: JobContext,
    model: Model,
    works: Sequence["Work | Unanswered"],
    progress: JobProgress,
    result: dict[str, Any],
) -> None:
    """All decodings of a model in one child, so that its weights are read once; published one by one."""
    export = export_dir(model)
    for work in works:
        work.ask(export)
    asked = [work for work in works if work.asked]
    by_out = {str(work.folder / "predictions.jsonl"): work for work in asked}

    def on_event(event: Event) -> None:
        progress.show(event, f"model {model.pk}")
        if event.get("event") == "answered":
            by_out[str(event["out"])].publish(ctx, result)

    if asked:
        arguments: list[Any] = ["predict", "--model", export, "--k", K]
        served = next((work.served for work in asked if work.served.newer or work.served.moved), None)
        if served:
            path, held = asked[0].folder / "held.json", {"tools": served.newer, "clauses": served.clauses}
            write_atomic(path, json.dumps(held, ensure_ascii=False))
            arguments += ["--held", path]
        for work in asked:
            source, out = work.folder / "items.jsonl", work.folder / "predictions.jsonl"
            decode = GIVEN_DOMAIN.get(work.decode, work.decode)
            arguments += ["--file", source, out, decode]
        run(ctx, ENGINE, arguments, asked[0].folder / "errors.txt", on_event)
    for work in works:
        if not work.published:
            work.publish(ctx, result)


def embed(ctx: JobContext, works: Sequence[Work], progress: JobProgress) -> None:
    """The baseline on all its benchmarks, whose requests one child encodes."""
    rows = [row for work in works for row in work.rows]
    vectors = encode(ctx, works[0].folder, rows, "embedding", progress)
    for work in works:
        own, vectors = np.split(vectors, [len(work.rows)])
        found = by_embedding(work.rows, own, given_domain=work.decode in GIVEN_DOMAIN)
        write_jsonl(work.folder / "predictions.jsonl", found)
        work.asked = work.rows


def encode(ctx: JobContext, folder: Path, rows: Rows, label: str, progress: JobProgress) -> EmbeddingRows:
    """Queries encoded as the catalog encodes tools, in the order of the rows."""
    texts, out = folder / "texts.jsonl", folder / "encoded"
    write_jsonl(texts, [{"id": str(at), "text": row["query"]} for at, row in enumerate(rows)])
    arguments = ["encode", "--in", texts, "--out", out, "--encoder", settings.ENCODER]
    run(ctx, ENCODER, arguments, folder / "errors.txt", lambda event: progress.show(event, label))
    progress.before += len(rows)
    vectors: EmbeddingRows = np.load(out / "embeddings.npy")
    return vectors[np.argsort(list(map(int, read_json(out / "ids.json"))))]


def by_embedding(rows: Rows, vectors: EmbeddingRows, *, given_domain: bool = False) -> Rows:
    """Tools ranked by cosine over the stored rows: {id, tools, scores}. `given_domain`: over those of each row's domain
    alone."""
    tools = Tool.objects.filter(status=Tool.Status.ACTIVE, embedding__isnull=False)
    stored = sorted(tools.values_list("name", "domain", "embedding"))  # by name, as ties are settled
    domains = [row["domain"] if given_domain else "" for row in rows]
    lists: dict[int, list[tuple[str, float]]] = {}
    for domain in set(domains):
        chosen = [row for row in stored if not domain or row[1] == domain]
        matrix = np.asarray([np.asarray(row) for *_, row in chosen], dtype=np.float32)
        places = [at for at, of in enumerate(domains) if of == domain]
        found = ranked(vectors[places], matrix, [name for name, *_ in chosen], EMBEDDING_K)
        lists |= dict(zip(places, found, strict=True))
    return [
        {
            "id": str(row["id"]),
            "tools": [name for name, _ in lists[at]],
            "scores": [score for _, score in lists[at]],
        }
        for at, row in enumerate(rows)
    ]


def run(
    ctx: JobContext, module: str, arguments: list[Any], log: Path, on_event: Callable[[Event], None]
) -> None:
    run_child(
        module,
        [*map(str, arguments), "--threads", str(settings.ML_THREADS)],
        cwd=settings.BASE_DIR,
        log=log,
        on_event=on_event,
        tick=ctx.check,
        env=child_env(),
    )
