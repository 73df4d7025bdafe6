"""From predictions to stored numbers, which never change; `coverage.grouped` sorts them by rules and clusters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse

from evaluation.benchmarks.selectors import RESULTS, SEED, TIERS, slices
from evaluation.core import report
from evaluation.core.metrics import ALL, item_scores
from evaluation.models import Answer, Benchmark, Evaluation
from rules.models import Rule
from trace_site.lib.errors import TraceError
from training.registry.registry import Score

Decode = Evaluation.Decode
Rows = Sequence[dict[str, Any]]


def score(
    benchmark: Benchmark, decode: str, predictions: Rows, rows: Rows
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The numbers of an evaluation, and of each query of a list the rules that its trace names."""
    if decode == Decode.LETTERS:
        return report.probe_report(predictions, rows, seed=SEED), {}
    if benchmark.kind == Benchmark.Kind.OUTSIDE:
        return report.outside_report(predictions, rows, [None] * len(rows), seed=SEED), {}
    codes = Rule.objects.values_list("code", flat=True).distinct()
    given = report.answers(predictions, rows, decode, codes)
    cited = {} if given[0].ranked else {one.id: list(one.cited) for one in given}
    return report.retrieval_report(given, seed=SEED), cited


def publish(
    *,
    evaluation: Evaluation,
    predictions: Rows,
    rows: Rows,
    metrics: dict[str, Any],
    cited: Mapping[str, list[str]],
) -> None:
    """Store predictions and numbers together; call it inside the job's guard.

    Raises TraceError `incomplete` unless every item that counts has its prediction then.
    """
    items = {row["id"]: row for row in rows}
    made = []
    for row in predictions:
        item = str(row["id"])
        scores: dict[str, Any] = {**item_scores(row, items[item], evaluation.decode)}
        if item in cited:
            scores["cited"] = cited[item]
        output = {name: value for name, value in row.items() if name != "id"}
        made.append(Answer(evaluation=evaluation, item_id=int(item), output=output, scores=scores))
    Answer.objects.bulk_create(made, batch_size=1000, ignore_conflicts=True)
    stored = Answer.objects.filter(evaluation=evaluation).count()
    if stored != len(rows):
        raise TraceError(
            f"{stored} of {len(rows)} answers are stored.",
            code="incomplete",
            where=str(evaluation),
            hint="Retry the job; it goes on where it stopped.",
        )
    evaluation.metrics = metrics
    if backends := {backend_name(row["backend"]) for row in predictions if "backend" in row}:
        evaluation.hardware["backend"] = ", ".join(sorted(backends))
    evaluation.save(update_fields=["metrics", "hardware"])


def backend_name(backend: dict[str, str]) -> str:
    """The server that answered in place of our own engine."""
    return f"{backend['engine'] or 'a server'} {backend['version']}".strip() + f" at {backend['host']}"


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
