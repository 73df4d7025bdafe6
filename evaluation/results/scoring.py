"""From predictions to stored numbers. They are counted again by other rules and clusters in `recount.py`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.urls import reverse

from catalog.models import Tool
from evaluation.benchmarks.selectors import RESULTS, TIERS, slices
from evaluation.core import coverage, report
from evaluation.core.coverage import QueryGroups
from evaluation.core.metrics import ALL, RANKED_DECODES, item_scores
from evaluation.core.report import Counted
from evaluation.coverage.selectors import Definition, groups_by
from evaluation.models import Benchmark, BenchmarkItem, Evaluation, Prediction
from evaluation.results import groups
from evaluation.results.groups import definition_to_count_by
from rules.models import Rule
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.registry.registry import Score

SEED = 0
Decode = Evaluation.Decode
Rows = Sequence[dict[str, Any]]


def benchmark_rows(benchmark: Benchmark) -> list[dict[str, Any]]:
    """The items as engines and metrics read them; the id is the row's."""
    rows = BenchmarkItem.objects.filter(benchmark=benchmark).order_by("position")
    return [{**row.data, "id": str(row.pk), "domain": row.domain} for row in rows]


@dataclass(frozen=True)
class Scored:
    """The numbers of one evaluation, the definition of its groups (None: it has none), and of each query its group and
    the rules its trace cites."""

    metrics: dict[str, Any]
    definition: Definition | None = None
    groups: dict[str, str] = field(default_factory=dict)
    cited: dict[str, list[str]] = field(default_factory=dict)


def score(benchmark: Benchmark, decode: str, predictions: Rows, rows: Rows) -> Scored:
    if decode == Decode.LETTERS:
        return Scored(report.probe_report(predictions, rows, seed=SEED))
    if benchmark.kind == Benchmark.Kind.OUTSIDE:
        return Scored(report.outside_report(predictions, rows, [None] * len(rows), seed=SEED))
    grouping = Grouping.of(definition_to_count_by(), rows)
    return score_requests(benchmark, decode, predictions, grouping)


@dataclass(frozen=True)
class Grouping:
    """The items of a benchmark under a definition: each one's group, what is shown of them, and the codes of all rules,
    which is what a trace can cite."""

    definition: Definition
    rows: Rows
    groups: dict[str, str]
    codes: list[str]

    @classmethod
    def of(cls, definition: Definition, rows: Rows, by: QueryGroups | None = None) -> "Grouping":
        names = {name for row in rows for name in row["tools"]}
        ids = dict(Tool.objects.filter(name__in=names).values_list("name", "pk"))
        by = by or groups_by(definition)
        found = {row["id"]: by.group(ids[name] for name in row["tools"] if name in ids) for row in rows}
        codes = sorted(Rule.objects.values_list("code", flat=True).distinct())
        return cls(definition, rows, found, codes)

    @cached_property
    def shown(self) -> dict[str, Any]:
        counts = dict.fromkeys(coverage.GROUPS, 0) | Counter(self.groups.values())
        return {"definition": self.definition.words, "counts": counts, "hash": content_hash(self.groups)}

    @cached_property
    def codes_hash(self) -> str:
        return content_hash(self.codes)


def score_requests(
    benchmark: Benchmark, decode: str, predictions: Rows, grouping: Grouping, before: Counted | None = None
) -> Scored:
    given = report.answers(predictions, grouping.rows, decode, grouping.codes)
    baseline, lists = None, None
    if decode not in RANKED_DECODES:
        kept = before.report.get("baseline") if before else None
        if baseline := kept or newest_baseline(benchmark):
            lists = baseline_lists(baseline)
        if before and baseline != kept:
            before = before._replace(same_baseline=False)
    numbers = report.retrieval_report(given, grouping.groups, embedding=lists, seed=SEED, before=before)
    cited = {} if numbers["ranked"] else {one.id: one.cited for one in given}
    metrics = {**numbers, "groups": grouping.shown, "codes": grouping.codes_hash, "baseline": baseline}
    return Scored(metrics, grouping.definition, grouping.groups, cited)


def newest_baseline(benchmark: Benchmark) -> int | None:
    """The evaluation of the embedding that lists are compared with at their own length; None while there is none."""
    made = Evaluation.objects.filter(benchmark=benchmark, decode=Decode.EMBEDDING, metrics__isnull=False)
    return made.order_by("-id").values_list("pk", flat=True).first()


def baseline_lists(evaluation: int) -> dict[str, list[str]]:
    """Ranked names by item id."""
    stored = Prediction.objects.filter(evaluation=evaluation).values_list("item", "output__tools")
    return {str(item): tools for item, tools in stored}


def publish(*, evaluation: Evaluation, predictions: Rows, rows: Rows, scored: Scored) -> None:
    """Store predictions and numbers together; call it inside the job's guard.

    Raises DefinitionMoved when another definition of groups is in force by now, and TraceError `incomplete` unless
    every item that counts has its prediction then.
    """
    if scored.definition:
        evaluation.definition = groups.hold(scored.definition, evaluation.job)
        evaluation.clusterings = scored.definition.clusterings
    items = {row["id"]: row for row in rows}
    made = []
    for row in predictions:
        item = str(row["id"])
        scores: dict[str, Any] = {**item_scores(row, items[item], evaluation.decode)}
        if scored.groups:
            scores["group"] = scored.groups[item]
        if item in scored.cited:
            scores["cited"] = scored.cited[item]
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
    evaluation.metrics = scored.metrics
    if backends := {backend_name(row["backend"]) for row in predictions if "backend" in row}:
        evaluation.hardware["backend"] = ", ".join(sorted(backends))
    evaluation.save(update_fields=["metrics", "clusterings", "definition", "hardware"])


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
