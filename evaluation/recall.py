"""The recall that stands beside coverage: of the champion, per domain, inside and outside what rules cover."""

from typing import Any

from django.db.models import Q

from evaluation.models import Evaluation
from evaluation.selectors import RESULTS, TIERS
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
    evaluated = Evaluation.objects.filter(RESULTS, model__isnull=False).values("model")
    return Model.objects.filter(pk__in=evaluated).select_related("run").order_by("-id").first(), "newest"


def recall_by_domain() -> dict[str, dict[str, Any]]:
    """The recall of each domain, for programs; two queries.

    {domain: {"model", "alias", "cell", "base", "benchmark", "tier", "decode", "groups", "embedding", "same_length"}},
    from the newest benchmark of the hard tier (else without a tier, else plain) that has queries in the domain.
    `groups` and `embedding` map all, covered, uncovered and outside to
    {"n", "metrics": {metric: {mean, low, high, n}}}.
    """
    model, alias = shown_model()
    finished = Evaluation.objects.filter(RESULTS, Q(model=model) | Q(model=None)).select_related("benchmark")
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(finished, key=_preference, reverse=True):
        metrics: dict[str, Any] = row.metrics or {}
        for domain, groups in metrics["slices"].items():
            entry = found.setdefault(domain, {})
            if row.model_id is None:
                embedding = entry.setdefault("embeddings", {})
                embedding.setdefault(row.benchmark_id, groups)  # the first is the preferred one
            elif model is not None and "groups" not in entry:
                entry |= {
                    "model": model.pk,
                    "alias": alias,
                    "cell": model.run.cell,
                    "base": model.run.base,
                    "benchmark": str(row.benchmark),
                    "benchmark_id": row.benchmark_id,
                    "tier": row.benchmark.tier,
                    "evaluation": row.pk,
                    "decode": row.decode,
                    "groups": groups,
                    "same_length": metrics.get("same_length", {}).get(domain, {}),
                }
    for entry in found.values():
        embeddings = entry.pop("embeddings", {})
        chosen = entry.get("benchmark_id") or next(iter(embeddings), None)
        entry["embedding"] = embeddings.get(chosen, {})
    return found


def _preference(row: Evaluation) -> tuple[int, int, int, int]:
    """The hard tier first, its newest benchmark, then the decode that is served with a trace."""
    rank = DECODES.index(row.decode) if row.decode in DECODES else len(DECODES)
    return -TIERS.index(row.benchmark.tier), row.benchmark_id, -rank, row.pk
