"""The evaluation job: one model (and the embedding baseline) on frozen benchmarks, one child process per decoding."""

from pathlib import Path
from typing import Any

from django.conf import settings

from catalog.models import Tool
from evaluation.core import embedding
from evaluation.models import Benchmark, Evaluation
from evaluation.scoring import SEED, benchmark_rows, publish, publish_rescored, rescored, score
from evaluation.services import EMBEDDING_K, K, Unit, plan
from trace_site.jobs import JobContext
from trace_site.lib import hardware
from trace_site.lib.child import Event, run_child
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, read_jsonl, write_jsonl
from training.models import Model
from training.registry import export_dir
from training.stages import child_env

ENGINE, ENCODER = "evaluation.ml", "catalog.ml"
Rows = list[dict[str, Any]]


def run_evaluation(ctx: JobContext) -> dict[str, Any]:
    """Make what is missing; a finished evaluation costs no forward, at most a rescoring from its predictions."""
    params = ctx.params
    model = Model.objects.select_related("run").get(pk=params["model"]) if params["model"] else None
    chosen = Benchmark.objects.filter(pk__in=params["benchmarks"]) if params.get("benchmarks") else None
    units = plan(model, chosen, params.get("decodes"))
    total, before = sum(unit.benchmark.count for unit in units), 0
    result: dict[str, Any] = {"evaluations": [], "computed": 0, "rescored": 0, "skipped": []}
    for unit in units:
        ctx.check()
        run_unit(ctx, unit, before, total, result)
        before += unit.benchmark.count
    return result


def run_unit(ctx: JobContext, unit: Unit, before: int, total: int, result: dict[str, Any]) -> None:
    if unit.model is None and not Tool.objects.filter(embedding__isnull=False).exists():
        result["skipped"].append(
            "embedding baseline: the catalog has no embeddings; run manage.py catalog_neighbours"
        )
        return
    with ctx.guard():
        evaluation, _ = Evaluation.objects.get_or_create(
            key=unit.key,
            defaults={
                "model": unit.model,
                "benchmark": unit.benchmark,
                "decode": unit.decode,
                "job": ctx.job,
                "seed": SEED,
                "hardware": hardware.facts(settings.ML_THREADS),
            },
        )
    result["evaluations"].append(evaluation.pk)
    if evaluation.metrics is not None:
        if scored := rescored(evaluation):
            with ctx.guard():
                publish_rescored(evaluation=evaluation, scored=scored)
            result["rescored"] += 1
        return
    rows = benchmark_rows(unit.benchmark)
    work = _Work(ctx, unit, settings.TRACE_HOME / "evaluations" / unit.key, before, total)
    predictions = work.embedding(rows) if unit.model is None else work.predict(unit.model, rows)
    scored = score(
        unit.benchmark, unit.decode, predictions, rows
    )  # seconds of bootstrap: not inside the guard
    with ctx.guard():
        publish(evaluation=evaluation, predictions=predictions, rows=rows, scored=scored)
    result["computed"] += 1


class _Work:
    """The child processes of one unit; their files make an interrupted unit go on where it stopped."""

    def __init__(self, ctx: JobContext, unit: Unit, folder: Path, before: int, total: int) -> None:
        self.ctx, self.folder, self.before, self.total = ctx, folder, before, total
        self.label = f"{unit.benchmark}, {unit.decode}"
        self.decode = unit.decode

    def predict(self, model: Model, rows: Rows) -> Rows:
        """Answers of the model; a question about a tool it has never seen cannot be asked and gets no letter."""
        export = export_dir(model)
        asked, unknown = split_known(rows, export) if self.decode == Evaluation.Decode.LETTERS else (rows, [])
        write_jsonl(self.folder / "items.jsonl", asked)
        if asked:
            files = ["--in", self.folder / "items.jsonl", "--out", self.folder / "predictions.jsonl"]
            self.run(ENGINE, ["predict", "--model", export, *files, "--decode", self.decode, "--k", K])
        given = self.read("predictions.jsonl", {row["id"] for row in asked})
        return given + [{"id": row["id"], "letter": "", "scores": []} for row in unknown]

    def read(self, name: str, wanted: set[str]) -> Rows:
        found = {str(row["id"]): row for _, row in read_jsonl(self.folder / name)} if wanted else {}
        if missing := sorted(wanted - found.keys()):
            raise TraceError(
                f"{len(missing)} of {len(wanted)} answers are missing.",
                code="incomplete_predictions",
                where=self.label,
                hint="Retry the job; it goes on where it stopped.",
            )
        return [found[key] for key in sorted(wanted, key=int)]

    def embedding(self, rows: Rows) -> Rows:
        """Queries encoded as the catalog encodes tools, ranked by cosine over the stored rows."""
        import numpy as np

        write_jsonl(self.folder / "texts.jsonl", [{"id": row["id"], "text": row["query"]} for row in rows])
        out = self.folder / "encoded"
        self.run(
            ENCODER,
            ["encode", "--in", self.folder / "texts.jsonl", "--out", out, "--encoder", settings.ENCODER],
        )
        tools = Tool.objects.filter(status=Tool.Status.ACTIVE, embedding__isnull=False).order_by("name")
        stored = sorted(tools.values_list("name", "embedding"))  # by code point, as ties are settled
        names = [name for name, _ in stored]
        matrix = np.asarray([np.asarray(row) for _, row in stored], dtype=np.float32)
        lists = embedding.ranked(np.load(out / "embeddings.npy"), matrix, names, EMBEDDING_K)
        return [
            {"id": str(key), "tools": [name for name, _ in found], "scores": [score for _, score in found]}
            for key, found in zip(read_json(out / "ids.json"), lists, strict=True)
        ]

    def run(self, module: str, arguments: list[Any]) -> None:
        run_child(
            module,
            [*map(str, arguments), "--threads", str(settings.ML_THREADS)],
            cwd=settings.BASE_DIR,
            log=self.folder / "errors.txt",
            on_event=self.on_event,
            tick=self.ctx.check,
            env=child_env(),
        )

    def on_event(self, event: Event) -> None:
        if event.get("event") == "progress":
            note = f"{self.label}: {event.get('note', '')}"
            self.ctx.progress(self.before + int(event["done"]), self.total, note)


def split_known(rows: Rows, export: Path) -> tuple[Rows, Rows]:
    """Questions about tools the model has tokens for, and the others."""
    names = {tool["name"] for tool in read_json(export / "trace.json")["tools"]}
    known = [row for row in rows if not row.get("tool") or row["tool"] in names]
    return known, [row for row in rows if row.get("tool") and row["tool"] not in names]
