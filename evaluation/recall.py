"""The recall that stands beside coverage: of the champion, per domain, inside and outside what rules cover."""

from typing import Any

from django.db.models import Q

from evaluation.models import Benchmark, Evaluation
from training.models import AliasMove, Model

DECODES = ("trace", "trace-free", "fast", "beam")  # which evaluation of a model is shown, best first


def shown_model() -> tuple[Model | None, str]:
    """Whose recall the page shows: the champion, else the newest evaluated model; and which of the two it is."""
    move = (
        AliasMove.objects.filter(alias=AliasMove.Alias.CHAMPION)
        .select_related("model__run")
        .order_by("-id")
        .first()
    )
    if move is not None:
        return move.model, "champion"
    evaluated = Model.objects.filter(
        evaluations__metrics__isnull=False, evaluations__benchmark__kind=Benchmark.Kind.PRB
    )
    return evaluated.select_related("run").order_by("-id").first(), "newest"


def recall_by_domain() -> dict[str, dict[str, Any]]:
    """What each domain's page shows of recall; two queries.

    {domain: {"model", "alias", "cell", "base", "benchmark", "decode", "groups", "embedding", "same_length"}}, from the
    newest benchmark that has queries in the domain. `groups` and `embedding` map all, covered, uncovered and outside
    to {"n", "metrics": {metric: {mean, low, high, n}}}.
    """
    model, alias = shown_model()
    finished = Evaluation.objects.filter(
        Q(model=model) | Q(model=None), benchmark__kind=Benchmark.Kind.PRB, metrics__isnull=False
    ).select_related("benchmark")
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(finished, key=_preference, reverse=True):
        metrics: dict[str, Any] = row.metrics or {}
        for domain, groups in metrics["slices"].items():
            entry = found.setdefault(domain, {})
            if row.model_id is None:
                embedding = entry.setdefault("embeddings", {})
                embedding.setdefault(row.benchmark_id, groups)
            elif model is not None and "groups" not in entry:
                entry |= {
                    "model": model.pk,
                    "alias": alias,
                    "cell": model.run.cell,
                    "base": model.run.base,
                    "benchmark": str(row.benchmark),
                    "benchmark_id": row.benchmark_id,
                    "evaluation": row.pk,
                    "decode": row.decode,
                    "groups": groups,
                    "same_length": metrics.get("same_length", {}).get(domain, {}),
                }
    for entry in found.values():
        embeddings = entry.pop("embeddings", {})
        newest = entry.get("benchmark_id") or max(embeddings, default=None)
        entry["embedding"] = embeddings.get(newest, {})
    return found


def _preference(row: Evaluation) -> tuple[int, int, int]:
    """Newest benchmark first, then the decode that is served with a trace."""
    rank = DECODES.index(row.decode) if row.decode in DECODES else len(DECODES)
    return row.benchmark_id, -rank, row.pk
