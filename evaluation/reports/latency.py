"""How long answers took: engine, decoding, lengths, requests at once and hardware of each figure; what is unknown."""

from typing import Any

from django.db.models import Avg, F, FloatField, Func, Value
from django.db.models.fields.json import KT
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import evaluations, model_name, slices
from evaluation.core.metrics import ALL
from evaluation.models import Evaluation, LabelledRequest
from evaluation.reports.measures import Choice
from trace_site.lib.charts import Bar, BarChart, bar_chart

NOT_MEASURED = (
    "One request alone: an evaluation answers many in a batch, and the time of a query is that of its batch "
    "divided by its queries.",
    "Throughput at other numbers of concurrent requests, and the time to the first token.",
    "What a server did beside these requests: it forms its own batches, of everybody's.",
    "Prompts in tokens: the words of a query are counted; a prompt adds what the base's chat format does.",
)
MOST_BARS = 16


@require_GET
def latency(request: HttpRequest) -> HttpResponse:
    """Three queries, however many evaluations there are."""
    choice = Choice.of_query(request.GET)
    found = (
        evaluations()
        .filter(benchmark=choice.benchmark, metrics__isnull=False)
        .order_by("-model_id", "decode")
    )
    rows = [row_of(one) for one in found if (one.metrics or {}).get("speed", {}).get("seconds_mean")]
    context = {
        "choice": choice,
        "rows": rows,
        "words": mean_words(choice.benchmark.pk) if choice.benchmark else None,
        "chart": chart(rows),
        "not_measured": NOT_MEASURED,
        "machines": len({row["machine"] for row in rows}),
    }
    return render(request, "evaluation/latency.html", context)


def row_of(of: Evaluation) -> dict[str, Any]:
    metrics, facts = of.metrics or {}, of.hardware or {}
    speed = metrics["speed"]
    size = (slices(of).get(ALL) or {}).get(ALL, {}).get("metrics", {}).get("set_size")
    own = "own engine" if of.model_id else "own encoder, exact search"
    return {
        "of": of,
        "name": model_name(of.model),
        "engine": of.backend or own,
        "at_once": facts.get("at_once"),
        "base": of.model.run.base if of.model else "",
        "ms": 1000 * speed["seconds_mean"],
        "p95_ms": 1000 * speed["seconds_p95"],
        "rate": 1 / speed["seconds_mean"],
        "tokens": speed["tokens_mean"],
        "size": size["mean"] if size else None,
        "machine": machine(facts),
    }


def machine(facts: dict[str, Any]) -> str:
    if "cores" not in facts:
        return "not stored"
    what = facts.get("gpu") or facts.get("cpu") or "unknown processor"
    return f"{what}, {facts.get('threads')} of {facts.get('cores')} cores, {facts.get('memory_gb')} GB"


def mean_words(benchmark: int) -> float | None:
    words = Func(KT("data__query"), Value(r"\s+"), function="regexp_split_to_array")
    many = Func(words, Value(1), function="array_length", output_field=FloatField())
    items = LabelledRequest.objects.filter(benchmark=benchmark).annotate(many=many)
    found: float | None = items.aggregate(mean=Avg(F("many")))["mean"]
    return found


def bar_note(row: dict[str, Any]) -> str:
    model = f"model {row['of'].model_id}, " if row["of"].model_id else ""  # two may be of one cell
    at_once = f", {row['at_once']} at once" if row["at_once"] else ""
    return f"{model}{row['tokens']:.0f} tokens written{at_once}, {row['engine']}"


def chart(rows: list[dict[str, Any]]) -> BarChart | None:
    """The newest models, a bar a decoding."""
    bars = [
        Bar(f"{row['name']}, {row['of'].decode}", row["ms"], note=bar_note(row)) for row in rows[:MOST_BARS]
    ]
    return bar_chart("Milliseconds per query, in a batch", bars, unit=" ms", top=None) if bars else None
