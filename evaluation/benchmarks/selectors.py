"""Reads behind the evaluation pages: one matrix of every model, per-query predictions, comparisons of two."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet

from evaluation.models import Benchmark, Evaluation
from trace_site.lib.charts import Bar
from training.models import Model, Run

GROUPS = ("all", "covered", "uncovered", "outside")
TRACED = (Evaluation.Decode.TRACE, Evaluation.Decode.TRACE_FREE)
SIDES = ("covered", "uncovered")
# column -> (title, help, is the generated list's metric)
COLUMNS: dict[str, tuple[str, str]] = {
    "recall@gen": ("R@gen", "share of the gold tools in the list the model wrote"),
    "hit@1": ("hit@1", "a gold tool stands first"),
    "recall@5": ("R@5", "share of the gold tools among the first 5 (ranked decoding)"),
    "recall@10": ("R@10", "share of the gold tools among the first 10 (ranked decoding)"),
    "precision@gen": ("precision", "share of the written tools that are gold"),
    "set_size": ("set size", "mean number of tools in the list"),
}
# how a table orders what an evaluation holds; the database keeps no order of its own
ORDER = (
    *("recall@gen", "hit@1", "recall@1", "recall@5", "recall@10", "hit@10"),
    *("precision@gen", "f1", "exact_set", "hit@gen", "set_size", "accuracy", "refused"),
)
PROBES = (Benchmark.Kind.MCQ, Benchmark.Kind.QA, Benchmark.Kind.MCQ_EXPERT)
TIERS = (
    Benchmark.Tier.HARD,
    "",
    Benchmark.Tier.PLAIN,
)  # as they are shown; where one number must do, the first
# evaluations of requests whose figures are results: a development half chooses thresholds and is none
RESULTS = Q(benchmark__kind=Benchmark.Kind.PRB, benchmark__is_development=False, metrics__isnull=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """One number with its interval; None where a decoding does not define it."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(slots=True)
class MatrixRow:
    evaluation: Evaluation
    name: str
    group: str
    n: int
    first: bool = False
    cells: list[Cell] = field(default_factory=list)
    off_vocabulary: float | None = None
    citation: float | None = None
    following: dict[str, Any] | None = None


@dataclass(slots=True)
class ProbeRow:
    model: Model
    name: str
    cells: list[tuple[Evaluation | None, Cell]]


def evaluations() -> QuerySet[Evaluation]:
    """Those whose figures may be shown: of no development half."""
    found = Evaluation.objects.filter(benchmark__is_development=False)
    return found.select_related("benchmark", "job", "model__run__snapshot").defer(
        "model__run__snapshot__manifest", "model__card", "model__run__log_tail"
    )


def benchmarks() -> list[Benchmark]:
    """The newest version of every benchmark."""
    return list(Benchmark.objects.order_by("name", "-version").distinct("name"))


def retrieval_benchmarks(tests: Iterable[Benchmark]) -> list[Benchmark]:
    """Those a model is shown on, a tier at a time; development halves are left out."""
    found = [test for test in tests if test.kind == Benchmark.Kind.PRB and not test.is_development]
    return sorted(found, key=lambda test: TIERS.index(test.tier))


def cell_of(found: dict[str, Any] | None) -> Cell:
    if not found:
        return Cell()
    return Cell(found.get("mean"), found.get("low"), found.get("high"), found.get("n"))


def model_name(evaluation: Evaluation) -> str:
    """How a row is called: the cell as the paper writes it, untrained base and Stage 1 by name."""
    if evaluation.model is None:
        return "embedding baseline"
    return run_name(evaluation.model.run)


def run_name(run: Run) -> str:
    if run.memo == run.retrieval == Run.Memo.NONE:
        return f"untrained base {run.base}"
    return f"{run.cell} Stage 1 only" if run.retrieval == Run.Retrieval.NONE else run.cell


def slices(evaluation: Evaluation | None) -> dict[str, Any]:
    """{domain or all: {group: figures}} (probes: {domain or all: figures})."""
    metrics: dict[str, Any] = (evaluation.metrics if evaluation else None) or {}
    found: dict[str, Any] = metrics.get("slices", metrics)
    return found


def matrix(benchmark: Benchmark, domain: str = "all", snapshot: int | None = None) -> list[MatrixRow]:
    """Rows = evaluation x group, the baseline last; one query."""
    found = evaluations().filter(benchmark=benchmark, metrics__isnull=False)
    if snapshot:
        found = found.filter(model__run__snapshot=snapshot) | found.filter(model=None)
    rows: list[MatrixRow] = []
    for evaluation in sorted(found, key=lambda one: (one.model is None, -(one.model_id or 0), one.decode)):
        found_groups = slices(evaluation).get(domain) or {}
        groups = [group for group in GROUPS if group in found_groups]
        rows += [
            matrix_row(evaluation, domain, group, found_groups[group], group == groups[0]) for group in groups
        ]
    return rows


def matrix_row(
    evaluation: Evaluation, domain: str, group: str, found: dict[str, Any], first: bool
) -> MatrixRow:
    metrics = found.get("metrics", {})
    rate = (found.get("off_vocabulary") or {}).get("rate")
    return MatrixRow(
        evaluation,
        model_name(evaluation),
        group,
        found.get("n", 0),
        first,
        [cell_of(metrics.get(name)) for name in COLUMNS],
        rate if evaluation.decode == Evaluation.Decode.TRACE_FREE else None,
        (found.get("citation") or {}).get("rate"),
        following_of(evaluation, domain, group, found),
    )


def following_of(
    evaluation: Evaluation, domain: str, group: str, found: dict[str, Any]
) -> dict[str, Any] | None:
    """The counts of answers that follow their trace, and the filters that lead to them; None without traces."""
    if evaluation.decode not in TRACED or evaluation.benchmark.kind == Benchmark.Kind.OUTSIDE:
        return None
    chosen = {name: value for name, value in (("domain", domain), ("group", group)) if value != "all"}
    counts = found.get("following") or {"n": 0, "not_measured": found["n"]}  # stored before this was counted
    return {**counts, "filters": "".join(f"{urlencode({name: value})}&" for name, value in chosen.items())}


def domains_of(rows: Iterable[Evaluation]) -> list[str]:
    return sorted({domain for row in rows for domain in slices(row) if domain != "all"})


def probe_rows(snapshot: int | None = None) -> tuple[list[Benchmark], list[ProbeRow]]:
    """Models x knowledge probes; one query for benchmarks, one for evaluations."""
    tests = [test for test in benchmarks() if test.kind in PROBES]
    found = evaluations().filter(benchmark__in=tests, metrics__isnull=False, model__isnull=False)
    if snapshot:
        found = found.filter(model__run__snapshot=snapshot)
    by_model: dict[Model, dict[int, Evaluation]] = {}
    for evaluation in found.order_by("-model_id", "pk"):  # of two the newer one
        assert evaluation.model is not None
        by_model.setdefault(evaluation.model, {})[evaluation.benchmark_id] = evaluation
    rows = [
        ProbeRow(
            model, run_name(model.run), [(own.get(test.pk), probe_cell(own.get(test.pk))) for test in tests]
        )
        for model, own in by_model.items()
    ]
    return tests, rows


def probe_cell(evaluation: Evaluation | None, domain: str = "all") -> Cell:
    return cell_of((slices(evaluation).get(domain) or {}).get("accuracy"))


def for_model(model: Model) -> list[Evaluation]:
    return list(evaluations().filter(model=model).order_by("benchmark__kind", "benchmark__name", "decode"))


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One domain and group of one evaluation."""

    domain: str
    group: str
    n: int
    cells: list[tuple[str, Cell]]
    random: float | None = None
    same_length: Cell | None = None
    citation: float | None = None
    following: dict[str, Any] | None = None


def slice_rows(evaluation: Evaluation) -> list[SliceRow]:
    """Every number of one evaluation, all domains first."""
    found = slices(evaluation)
    domains = sorted(found, key=lambda name: (name != "all", name))
    if evaluation.decode == Evaluation.Decode.LETTERS:
        return [
            SliceRow(
                name,
                "all",
                found[name]["n"],
                [("accuracy", cell_of(found[name]["accuracy"]))],
                found[name]["random"],
            )
            for name in domains
        ]
    same = (evaluation.metrics or {}).get("same_length", {})
    return [
        SliceRow(
            domain,
            group,
            found[domain][group]["n"],
            [
                (name, cell_of(found[domain][group]["metrics"][name]))
                for name in ORDER
                if name in found[domain][group]["metrics"]
            ],
            None,
            cell_of((same.get(domain, {}).get(group) or {}).get("embedding")),
            (found[domain][group].get("citation") or {}).get("rate"),
            following_of(evaluation, domain, group, found[domain][group]),
        )
        for domain in domains
        for group in GROUPS
        if group in found[domain]
    ]


def ordered(metrics: dict[str, Any]) -> list[tuple[str, Cell]]:
    return [(name, cell_of(metrics[name])) for name in ORDER if name in metrics]


def score_bar(evaluation: Evaluation) -> Bar | None:
    """One evaluation as one bar: accuracy of a probe, or recall of the list."""
    found = slices(evaluation).get("all") or {}
    label = evaluation.benchmark.title
    if evaluation.decode == Evaluation.Decode.LETTERS:
        cell = cell_of(found.get("accuracy"))
        note = f"accuracy, guessing gives {found.get('random', 0):.2f}"
    else:
        metrics = (found.get("all") or {}).get("metrics", {})
        name = next((name for name in ("recall@gen", "refused") if name in metrics), "recall@5")
        title = COLUMNS[name][0] if name in COLUMNS else name
        cell, note = cell_of(metrics.get(name)), f"{title}, {evaluation.decode}"
    return Bar(label, cell.mean, cell.low, cell.high, cell.n, note=note) if cell.mean is not None else None
