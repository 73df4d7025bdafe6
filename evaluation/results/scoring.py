"""From stored predictions to stored numbers: scoring once, and again when rules or clusters have moved on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from catalog.models import Tool
from evaluation.benchmarks.selectors import RESULTS, TIERS, slices
from evaluation.core import coverage, report
from evaluation.core.items import counted
from evaluation.core.metrics import ALL, item_scores
from evaluation.coverage.selectors import query_groups
from evaluation.models import Benchmark, BenchmarkItem, Evaluation, Prediction
from rules.models import Rule
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.registry.registry import Score

SEED = 0
Decode = Evaluation.Decode
Rows = Sequence[dict[str, Any]]


def benchmark_rows(benchmark: Benchmark) -> list[dict[str, Any]]:
    """The items that count, as engines and metrics read them; the id is the row's."""
    rows = BenchmarkItem.objects.filter(benchmark=benchmark).order_by("position")
    return counted([{**row.data, "id": str(row.pk), "domain": row.domain} for row in rows])


@dataclass(frozen=True)
class Scored:
    """The numbers of one evaluation, the clustering versions behind its groups, and each query's group."""

    metrics: dict[str, Any]
    clusterings: dict[str, int]
    groups: dict[str, str]


def score(benchmark: Benchmark, decode: str, predictions: Rows, rows: Rows) -> Scored:
    if decode == Decode.LETTERS:
        left_out = benchmark.count - len(rows)
        return Scored(report.probe_report(predictions, rows, left_out=left_out, seed=SEED), {}, {})
    if benchmark.kind == Benchmark.Kind.OUTSIDE:
        return Scored(report.outside_report(predictions, rows, [None] * len(rows), seed=SEED), {}, {})
    groups, definition, clusterings = grouping(rows)
    numbers = report.retrieval_report(
        predictions,
        rows,
        groups,
        decode=decode,
        codes=Rule.objects.values_list("code", flat=True),
        embedding=baseline_lists(benchmark) if decode != Decode.EMBEDDING else None,
        seed=SEED,
    )
    return Scored({**numbers, "groups": definition}, clusterings, groups)


def grouping(rows: Rows) -> tuple[dict[str, str], dict[str, Any], dict[str, int]]:
    """Each query's group by what is published now, the definition to show, and the clusterings used."""
    names = {name for row in rows for name in row["tools"]}
    ids = dict(Tool.objects.filter(name__in=names).values_list("name", "pk"))
    groups, clusterings = query_groups()
    found = {row["id"]: groups.group(ids[name] for name in row["tools"] if name in ids) for row in rows}
    counts = dict.fromkeys(coverage.GROUPS, 0) | Counter(found.values())
    shown = {"definition": coverage.GROUP_DEFINITION, "counts": counts, "hash": content_hash(found)}
    return found, shown, clusterings


def baseline_lists(benchmark: Benchmark) -> dict[str, list[str]] | None:
    """The embedding baseline's ranked names by item id; None while it has not been computed."""
    made = Evaluation.objects.filter(benchmark=benchmark, model=None, metrics__isnull=False)
    if (newest := made.order_by("-id").first()) is None:
        return None
    stored = Prediction.objects.filter(evaluation=newest).values_list("item", "output")
    return {str(item): output["tools"] for item, output in stored}


def publish(*, evaluation: Evaluation, predictions: Rows, rows: Rows, scored: Scored) -> None:
    """Store predictions and numbers together; call it inside the job's guard.

    Raises TraceError `incomplete` unless every item that counts has its prediction then.
    """
    items = {row["id"]: row for row in rows}
    made = []
    for row in predictions:
        item = str(row["id"])
        scores: dict[str, Any] = {**item_scores(row, items[item], evaluation.decode)}
        if scored.groups:
            scores["group"] = scored.groups[item]
        output = {name: value for name, value in row.items() if name != "id"}
        made.append(Prediction(evaluation=evaluation, item_id=int(item), output=output, scores=scores))
    Prediction.objects.bulk_create(made, batch_size=1000, ignore_conflicts=True)
    stored = Prediction.objects.filter(evaluation=evaluation).count()
    if stored != len(rows):
        raise TraceError(
            f"{stored} of {len(rows)} answers are stored.",
            code="incomplete",
            where=str(evaluation),
            hint="Retry the job; it goes on where it stopped.",
        )
    evaluation.metrics, evaluation.clusterings = scored.metrics, scored.clusterings
    if backends := {backend_name(row["backend"]) for row in predictions if "backend" in row}:
        evaluation.hardware["backend"] = ", ".join(sorted(backends))
    evaluation.save(update_fields=["metrics", "clusterings", "hardware"])


def backend_name(backend: dict[str, str]) -> str:
    """The server that answered in place of our own engine."""
    return f"{backend['engine'] or 'a server'} {backend['version']}".strip() + f" at {backend['host']}"


def rescored(evaluation: Evaluation) -> Scored | None:
    """The numbers computed again from the stored predictions; None when nothing behind them has changed."""
    old = evaluation.metrics or {}
    if evaluation.decode == Decode.LETTERS or evaluation.benchmark.kind == Benchmark.Kind.OUTSIDE:
        return None
    rows = benchmark_rows(evaluation.benchmark)
    _, definition, _ = grouping(rows)
    needs_baseline = evaluation.model_id is not None and not old["ranked"] and "same_length" not in old
    if definition["hash"] == old["groups"]["hash"] and not needs_baseline:
        return None
    stored = Prediction.objects.filter(evaluation=evaluation).values_list("item", "output")
    predictions = [{"id": str(item), **output} for item, output in stored]
    found = score(evaluation.benchmark, evaluation.decode, predictions, rows)
    same = found.metrics["groups"]["hash"] == old["groups"]["hash"] and "same_length" not in found.metrics
    return None if same else found


def publish_rescored(*, evaluation: Evaluation, scored: Scored) -> None:
    """Replace numbers and groups; the predictions themselves never change."""
    moved = []
    for prediction in Prediction.objects.filter(evaluation=evaluation):
        group = scored.groups[str(prediction.item_id)]
        if prediction.scores.get("group") != group:
            prediction.scores["group"] = group
            moved.append(prediction)
    Prediction.objects.bulk_update(moved, ["scores"], batch_size=1000)
    Evaluation.objects.filter(pk=evaluation.pk).update(metrics=scored.metrics, clusterings=scored.clusterings)


# The one figure that tables of other apps show of a model: hit@1 on the hard tier (else where there is no tier).

PREFERRED = (Decode.TRACE, Decode.FAST)


def of_models(models: list[int]) -> dict[int, Score]:
    """{model id: score}; all of one benchmark, so that they can be compared. One query."""
    made = Evaluation.objects.filter(RESULTS, model__in=models, decode__in=PREFERRED)
    rows = list(made.select_related("benchmark"))
    if not rows:
        return {}
    counts = Counter((-TIERS.index(row.benchmark.tier), row.benchmark_id) for row in rows)
    _, chosen = max(counts, key=lambda one: (one[0], counts[one], one[1]))
    found: dict[int, Score] = {}
    for row in sorted(rows, key=lambda row: -PREFERRED.index(row.decode)):
        cell = (slices(row).get(ALL) or {}).get(ALL, {}).get("metrics", {}).get("hit@1")
        if cell and row.benchmark_id == chosen and row.model_id is not None:
            label = f"hit@1, {row.decode}, {row.benchmark.title}"
            url = reverse("evaluation:detail", args=[row.pk])
            found[row.model_id] = Score(cell["mean"], cell["low"], cell["high"], cell["n"], label, url)
    return found
