"""A model beside the champion: every frozen benchmark and probe that both were measured on, and the tests of rules.

Same benchmark version and same decoding only; what cannot be compared is said. Paired comparisons are stored with
their seed when they are first made, so that a page asks a constant number of queries and computes nothing twice.
"""

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import SEED, backend_of, backend_words, newest_benchmarks, rule_results
from evaluation.benchmarks.services import default_decodes
from evaluation.core.comparison import Difference, differences
from evaluation.core.metrics import judge_rule_test
from evaluation.core.stats import DRAWS
from evaluation.gate.selectors import newest_report
from evaluation.gate.services import gate_request
from evaluation.models import Benchmark, Comparison, Evaluation, GateReport, Prediction
from trace_site.jobs import JobContext
from trace_site.paging import number_of
from training.models import Model
from training.registry.registry import current_aliases

Scores = dict[Any, tuple[str, dict[str, float]]]


@dataclass(frozen=True, slots=True)
class BenchmarkComparison:
    """One benchmark and decoding that both were measured with. Without evaluations: the tests of published rules."""

    title: str
    decode: str
    rows: list[Difference]
    ours: Evaluation | None = None
    theirs: Evaluation | None = None


@dataclass(slots=True)
class ModelComparison:
    """`other`: the champion; of the champion itself, the model it replaced; None: there is nobody to compare with."""

    model: Model
    other: Model | None
    champion: bool
    pairs: list[BenchmarkComparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[Benchmark] = field(default_factory=list)
    draws: int = DRAWS
    seed: int = SEED
    report: GateReport | None = None


def compare_with_champion(model: Model) -> ModelComparison:
    """The whole comparison; what was not compared before is compared and kept."""
    current = current_aliases()
    champion = current.get("champion")
    is_champion = champion == model
    other = current.get("previous") if is_champion else champion
    return compare_models(model, other if other != model else None, is_champion)


def compare_models(model: Model, other: Model | None, is_champion: bool = False) -> ModelComparison:
    """Any two, on everything that both were measured on in the same way."""
    found = ModelComparison(model, other, is_champion)
    if found.other is None:
        return found
    if not is_champion:
        found.report = newest_report(model.pk, found.other.pk)
    made = _finished(model, found.other)
    chosen, found.notes = _matched(model, found.other, made)
    # the newest benchmarks that the other was not measured on with all its decodings
    measured = {(one.benchmark_id, one.decode) for one in made if one.model_id == found.other.pk}
    found.missing = [
        benchmark
        for benchmark in newest_benchmarks()
        if any((benchmark.pk, decode) not in measured for decode in default_decodes(benchmark, found.other))
    ]
    stored = _stored(chosen)
    found.pairs = [
        BenchmarkComparison(ours.benchmark.title, ours.decode, stored[ours.pk, theirs.pk], ours, theirs)
        for ours, theirs in chosen
    ]
    if tests := _rule_tests(model, found.other):
        if backend_of(model) != backend_of(found.other):
            found.notes.append(
                "tests of the rules: one model answers through a server, the other by our own engine."
            )
        found.pairs.append(BenchmarkComparison("tests of the rules", Evaluation.Decode.FAST, tests))
    return found


def _finished(*models: Model) -> list[Evaluation]:
    """Retrieval benchmarks first, decodings in the order of their definition; one query."""
    rows = Evaluation.objects.filter(model__in=models, metrics__isnull=False).select_related("benchmark")
    kinds, decodes = Benchmark.Kind.values, Evaluation.Decode.values

    def order(one: Evaluation) -> tuple[int, str, int, int]:
        return kinds.index(one.benchmark.kind), one.benchmark.name, decodes.index(one.decode), one.pk

    return sorted(rows.defer("metrics"), key=order)


def _matched(
    model: Model, other: Model, made: list[Evaluation]
) -> tuple[list[tuple[Evaluation, Evaluation]], list[str]]:
    """Pairs of evaluations on the newest version that both have, per benchmark and decoding, of one backend where there
    are any; and what has no pair, or one of two backends."""
    by: defaultdict[tuple[str, str], list[dict[int, dict[str, Evaluation]]]] = defaultdict(lambda: [{}, {}])
    for one in made:
        if not one.benchmark.is_development:
            versions = by[one.benchmark.name, one.decode][one.model_id != model.pk]
            versions.setdefault(one.benchmark.version, {})[one.backend] = one
    pairs, notes = [], []
    for (name, decode), (ours, theirs) in by.items():
        both = ours.keys() & theirs.keys()
        if both:
            a, b = _alike(ours[max(both)], theirs[max(both)])
            pairs.append((a, b))
            if a.backend != b.backend:
                each = f"model {model.pk} answered {backend_words(a)}, model {other.pk} {backend_words(b)}"
                notes.append(f"{name} v{max(both)}, {decode}: {each}.")
        newest = max([*ours, *theirs])
        if newest in both:
            continue
        if ours and theirs:
            measured = f"model {model.pk} on v{max(ours)}, model {other.pk} on v{max(theirs)}"
            rest = f"compared on v{max(both)}" if both else "not compared"
            notes.append(f"{name}, {decode}: {measured}, so {rest}.")
        else:
            only = model.pk if ours else other.pk
            notes.append(f"{name} v{newest}, {decode}: only model {only} was measured so.")
    return pairs, notes


def _alike(ours: dict[str, Evaluation], theirs: dict[str, Evaluation]) -> tuple[Evaluation, Evaluation]:
    """The newest two of the same backend, else the newest of each."""
    shared = ours.keys() & theirs.keys()
    a = max((ours[one] for one in shared or ours), key=lambda one: one.pk)
    return a, theirs[a.backend] if shared else max(theirs.values(), key=lambda one: one.pk)


def _stored(pairs: list[tuple[Evaluation, Evaluation]]) -> dict[tuple[int, int], list[Difference]]:
    """Rows of every pair; predictions are read once for all pairs that nobody compared yet."""
    ids = [(ours.pk, theirs.pk) for ours, theirs in pairs]
    known = Comparison.objects.filter(evaluation__in=[a for a, _ in ids], against__in=[b for _, b in ids])
    rows = {
        (one.evaluation_id, one.against_id): [Difference(**row) for row in one.rows]
        for one in known.filter(draws=DRAWS, seed=SEED)
    }
    waiting = [pair for pair in ids if pair not in rows]
    if not waiting:
        return rows
    scores: dict[int, Scores] = {one: {} for pair in waiting for one in pair}
    predictions = Prediction.objects.filter(evaluation__in=scores).order_by()
    columns = ("evaluation", "item", "item__domain", "scores")
    for evaluation, item, domain, found in predictions.values_list(*columns):
        scores[evaluation][item] = (domain, found)
    made = {pair: differences(scores[pair[0]], scores[pair[1]], seed=SEED) for pair in waiting}
    fresh = [
        Comparison(
            evaluation_id=ours, against_id=theirs, rows=[asdict(row) for row in found], draws=DRAWS, seed=SEED
        )
        for (ours, theirs), found in made.items()
    ]
    Comparison.objects.bulk_create(fresh, ignore_conflicts=True)
    return rows | made


def _rule_tests(model: Model, other: Model) -> list[Difference]:
    """Tests of rule versions that both were asked; one query."""
    sides: dict[int, Scores] = {model.pk: {}, other.pk: {}}
    rows = rule_results().filter(model__in=sides).order_by()
    columns = ("model", "version", "version__rule__domain", "results")
    for asked, version, domain, results in rows.values_list(*columns):
        for number, row in enumerate(results):
            passed = judge_rule_test(row["query"], row["tools"], row["found"]).passed
            sides[asked][version, number] = (domain, {"passed": float(passed)})
    return differences(sides[model.pk], sides[other.pk], seed=SEED)


def evaluated(ctx: JobContext, model: Model) -> None:
    """A model that was measured on everything stands before the gate next, unless it is the champion itself."""
    if current_aliases().get("champion") != model:
        with ctx.guard():
            gate_request(candidate=model, actor=ctx.job.created_by)


MODELS = Model.objects.select_related("run").defer("card", "run__log_tail")


@require_GET
def two_models(request: HttpRequest) -> HttpResponse:
    """Any two models on everything that both were measured on."""
    options = list(MODELS.all())
    a, b = (number_of(request.GET.get(name, "")) for name in ("a", "b"))
    ours, theirs = (next((one for one in options if one.pk == pk), None) for pk in (a, b))
    context: dict[str, Any] = {"options": options, "a": ours, "b": theirs, "same": a and a == b}
    if ours and theirs and ours != theirs:
        context["beside"] = compare_models(ours, theirs)
    return render(request, "evaluation/compare_models.html", context)


# Fragments: a model beside the champion, for its own page and for its run's.


@require_GET
def beside(request: HttpRequest, pk: int) -> HttpResponse:
    return _shown(request, get_object_or_404(MODELS.all(), pk=pk))


@require_GET
def beside_of_run(request: HttpRequest, run_id: int) -> HttpResponse:
    """The same, asked with the run; a run without a model has nothing to show."""
    model = MODELS.filter(run=run_id).first()
    return _shown(request, model) if model else HttpResponse("")


def _shown(request: HttpRequest, model: Model) -> HttpResponse:
    return render(request, "evaluation/_beside_champion.html", {"beside": compare_with_champion(model)})
