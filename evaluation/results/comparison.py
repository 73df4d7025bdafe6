"""A model beside the champion: every frozen benchmark and probe that both were measured on, and the tests of rules.

Same benchmark version and same decoding only; what cannot be compared is said. Paired comparisons are stored with
their seed when they are first made, so that a page asks a constant number of queries and computes nothing twice.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from evaluation.benchmarks.services import default_decodes, latest
from evaluation.core.golden import judge
from evaluation.core.stats import DRAWS
from evaluation.core.versus import Row, said, versus
from evaluation.models import Benchmark, Comparison, Evaluation, Prediction, RuleTestResult
from evaluation.results.scoring import SEED
from trace_site import jobs
from trace_site.access import ADMIN, PRODUCT_MANAGER
from trace_site.jobs import Job, JobContext
from trace_site.lib.files import content_hash
from trace_site.notices.services import Notice, tell
from training.models import Model
from training.registry.registry import current_aliases

KIND = "candidate"
Scores = dict[Any, tuple[str, dict[str, float]]]


@dataclass(frozen=True, slots=True)
class Pair:
    """One benchmark and decoding that both were measured with. Without evaluations: the tests of published rules."""

    title: str
    decode: str
    rows: list[Row]
    ours: Evaluation | None = None
    theirs: Evaluation | None = None


@dataclass(slots=True)
class Beside:
    """`other`: the champion; of the champion itself, the model it replaced; None: there is nobody to compare with."""

    model: Model
    other: Model | None
    champion: bool
    pairs: list[Pair] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[Benchmark] = field(default_factory=list)
    draws: int = DRAWS
    seed: int = SEED

    @property
    def verdict(self) -> str:
        return said([row for pair in self.pairs for row in pair.rows])


def compare_with_champion(model: Model) -> Beside:
    """The whole comparison; what was not compared before is compared and kept."""
    current = current_aliases()
    champion = current.get("champion")
    is_champion = champion is not None and champion.pk == model.pk
    found = Beside(model, current.get("previous") if is_champion else champion, is_champion)
    if found.other is None or found.other.pk == model.pk:
        found.other = None
        return found
    chosen, found.notes = _matched(model, found.other)
    found.missing = _unmeasured(found.other, chosen)
    stored = _stored(chosen)
    found.pairs = [
        Pair(ours.benchmark.title, ours.decode, stored[ours.pk, theirs.pk], ours, theirs)
        for ours, theirs in chosen
    ]
    if tests := _rule_tests(model, found.other):
        found.pairs.append(Pair("tests of the rules", Evaluation.Decode.FAST, tests))
    return found


def _evaluations(*models: Model) -> list[Evaluation]:
    """Finished ones: retrieval benchmarks first, decodings in the order of their definition; one query."""
    rows = Evaluation.objects.filter(model__in=models, metrics__isnull=False).select_related("benchmark")
    kinds, decodes = Benchmark.Kind.values, Evaluation.Decode.values
    return sorted(
        rows.defer("metrics", "hardware", "clusterings"),
        key=lambda one: (
            kinds.index(one.benchmark.kind),
            one.benchmark.name,
            decodes.index(one.decode),
            one.pk,
        ),
    )


def _matched(model: Model, other: Model) -> tuple[list[tuple[Evaluation, Evaluation]], list[str]]:
    """Pairs of evaluations on the newest version that both have, per benchmark and decoding; and what has no pair."""
    by: defaultdict[tuple[str, str], list[dict[int, Evaluation]]] = defaultdict(lambda: [{}, {}])
    shown = (one for one in _evaluations(model, other) if not one.benchmark.is_development)
    for one in shown:
        by[one.benchmark.name, one.decode][one.model_id != model.pk][one.benchmark.version] = one
    pairs, notes = [], []
    for (name, decode), (ours, theirs) in by.items():
        both = ours.keys() & theirs.keys()
        if both:
            pairs.append((ours[max(both)], theirs[max(both)]))
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


def _unmeasured(other: Model, pairs: list[tuple[Evaluation, Evaluation]]) -> list[Benchmark]:
    """Newest benchmarks that the other was not measured on with all its decodings."""
    have = {(theirs.benchmark_id, theirs.decode) for _, theirs in pairs}
    missing = [b for b in latest() if any((b.pk, decode) not in have for decode in default_decodes(b, other))]
    if not missing:
        return []
    made = {(one.benchmark_id, one.decode) for one in _evaluations(other)}
    return [b for b in missing if any((b.pk, decode) not in made for decode in default_decodes(b, other))]


def _stored(pairs: list[tuple[Evaluation, Evaluation]]) -> dict[tuple[int, int], list[Row]]:
    """Rows of every pair; predictions are read once for all pairs that nobody compared yet."""
    ids = [(ours.pk, theirs.pk) for ours, theirs in pairs]
    known = Comparison.objects.filter(evaluation__in=[a for a, _ in ids], against__in=[b for _, b in ids])
    rows = {
        (one.evaluation_id, one.against_id): [Row(**row) for row in one.rows]
        for one in known.filter(draws=DRAWS, seed=SEED)
    }
    if waiting := [pair for pair in ids if pair not in rows]:
        scores = _scores({one for pair in waiting for one in pair})
        made = {pair: versus(scores[pair[0]], scores[pair[1]], seed=SEED) for pair in waiting}
        Comparison.objects.bulk_create(
            [
                Comparison(
                    evaluation_id=ours,
                    against_id=theirs,
                    rows=[row.as_dict() for row in found],
                    draws=DRAWS,
                    seed=SEED,
                )
                for (ours, theirs), found in made.items()
            ],
            ignore_conflicts=True,
        )
        rows |= made
    return rows


def _scores(evaluations: set[int]) -> dict[int, Scores]:
    """{evaluation: {item: (domain, scores)}}; one query."""
    found: dict[int, Scores] = {evaluation: {} for evaluation in evaluations}
    rows = Prediction.objects.filter(evaluation__in=evaluations).order_by()
    for evaluation, item, domain, scores in rows.values_list("evaluation", "item", "item__domain", "scores"):
        found[evaluation][item] = (domain, scores)
    return found


def _rule_tests(model: Model, other: Model) -> list[Row]:
    """Tests of rule versions that both were asked; one query."""
    sides: dict[int, Scores] = {model.pk: {}, other.pk: {}}
    rows = RuleTestResult.objects.filter(model__in=sides).order_by()
    for asked, version, domain, results in rows.values_list(
        "model", "version", "version__rule__domain", "results"
    ):
        for number, row in enumerate(results):
            passed = judge(row["query"], row["tools"], row["found"]).passed
            sides[asked][version, number] = (domain, {"passed": float(passed)})
    return versus(sides[model.pk], sides[other.pk], seed=SEED)


def evaluated(ctx: JobContext, model: Model) -> None:
    """After a model was measured on everything: compare, measure the champion where it was not, tell people once."""
    found = compare_with_champion(model)
    if found.champion:
        return
    with ctx.guard():
        if found.other is not None and found.missing:
            catch_up(found.other, found.missing, ctx.job)
        key = f"{KIND}:{model.pk}"
        if not Notice.objects.filter(key=key).exists():
            people = User.objects.filter(
                Q(is_superuser=True) | Q(groups__name__in=(ADMIN, PRODUCT_MANAGER)), is_active=True
            )
            tell(
                people.distinct(),
                KIND,
                _told(found),
                link=reverse("training:model", args=[model.pk]),
                key=key,
            )


def catch_up(other: Model, missing: list[Benchmark], job: Job) -> Job:
    """Measure the champion on benchmarks that came after it; asked once for the same ones."""
    which = content_hash([benchmark.pk for benchmark in missing])[:16]
    return jobs.enqueue(
        "evaluation",
        {"model": other.pk},
        title=f"evaluate model {other.pk} on new benchmarks, for the comparison",
        created_by=job.created_by,
        idempotency_key=f"evaluation:beside:{other.pk}:{which}",
    )


def _told(found: Beside) -> str:
    model = f"Model {found.model.pk} {found.model.run.cell} is evaluated"
    if found.other is None:
        return f"{model}; there is no champion yet. Promote it when you think it is good."
    if not found.pairs:
        return f"{model}; champion {found.other.pk} was not measured on the same benchmarks yet."
    return f"{model} beside champion {found.other.pk}: {found.verdict}. A person promotes it."


# Fragments: a model beside the champion, for its own page and for its run's.


def _models() -> QuerySet[Model]:
    return Model.objects.select_related("run").defer("card", "run__log_tail")


@require_GET
def beside(request: HttpRequest, pk: int) -> HttpResponse:
    return _shown(request, get_object_or_404(_models(), pk=pk))


@require_GET
def beside_of_run(request: HttpRequest, run_id: int) -> HttpResponse:
    """The same, asked with the run; a run without a model has nothing to show."""
    model = _models().filter(run=run_id).first()
    return _shown(request, model) if model else HttpResponse("")


def _shown(request: HttpRequest, model: Model) -> HttpResponse:
    return render(request, "evaluation/_beside_champion.html", {"beside": compare_with_champion(model)})
