"""The one figure that tables of other apps show of a model: hit@1 on the hard tier (else where there is no tier)."""

from collections import Counter

from django.urls import reverse

from evaluation.models import Evaluation
from evaluation.selectors import RESULTS, TIERS, cell_of, slices
from training.scores import Score

PREFERRED = (Evaluation.Decode.TRACE, Evaluation.Decode.FAST)


def of_models(models: list[int]) -> dict[int, Score]:
    """{model id: score}; all of one benchmark, so that they can be compared. One query."""
    rows = list(
        Evaluation.objects.filter(
            RESULTS,
            model__in=models,
            decode__in=PREFERRED,
        ).select_related("benchmark")
    )
    if not rows:
        return {}
    counts = Counter((-TIERS.index(row.benchmark.tier), row.benchmark_id) for row in rows)
    _, chosen = max(counts, key=lambda one: (one[0], counts[one], one[1]))
    found: dict[int, Score] = {}
    for row in sorted(rows, key=lambda row: -PREFERRED.index(row.decode)):
        if row.benchmark_id != chosen or row.model_id is None:
            continue
        figures = (slices(row).get("all") or {}).get("all", {}).get("metrics", {})
        cell = cell_of(figures.get("hit@1"))
        if cell.mean is not None:
            label = f"hit@1, {row.decode}, {row.benchmark.title}"
            url = reverse("evaluation:detail", args=[row.pk])
            found[row.model_id] = Score(cell.mean, cell.low, cell.high, cell.n, label, url)
    return found
