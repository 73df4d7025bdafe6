"""Is a model better than another? Everything that both were measured on in the same way, as the gate weighs it."""

from dataclasses import dataclass, field
from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from evaluation.benchmarks.selectors import newest_benchmarks
from evaluation.benchmarks.services import default_decodes
from evaluation.core.gate import CHAMPION, GateRow
from evaluation.core.metrics import ALL
from evaluation.gate.evidence import judged
from evaluation.gate.selectors import KIND, answers, outdated, reports
from evaluation.gate.services import gate_request
from evaluation.models import Benchmark, Evaluation
from trace_site.jobs import Job, JobContext
from training.models import UNDER_WAY, AliasMove, Model
from training.registry.registry import current_aliases


@dataclass(frozen=True, slots=True)
class BenchmarkComparison:
    """One benchmark and decoding that both were measured with. Without `ids` of evaluations: the tests of rules."""

    title: str
    decode: str
    ids: tuple[int, int] | None
    rows: list[GateRow]


@dataclass(slots=True)
class ModelComparison:
    """`other`: the champion; of the champion itself, the model it replaced; None: there is nobody to compare with."""

    model: Model
    other: Model | None
    champion: bool
    answer: str = ""
    pairs: list[BenchmarkComparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[Benchmark] = field(default_factory=list)


def compare_with_champion(model: Model) -> ModelComparison:
    current = current_aliases()
    champion = current.get("champion")
    is_champion = champion == model
    other = current.get("previous") if is_champion else champion
    return compare_models(model, other if other != model else None, is_champion)


def compare_models(model: Model, other: Model | None, is_champion: bool = False) -> ModelComparison:
    """Any two, on everything that both were measured on in the same way."""
    found = ModelComparison(model, other, is_champion)
    if other is None:
        return found
    gate = judged(model, other)
    found.answer = answers(gate, model.pk, other.pk).get(CHAMPION, "")
    rows = [row for row in gate.slices if row.opponent == CHAMPION and row.group == ALL]
    found.pairs = [
        BenchmarkComparison(name, decode, ids, list(of))
        for (name, decode, ids), of in groupby(
            (row for row in rows if row.n), key=lambda row: (row.name, row.decode, row.ids)
        )
    ]
    found.notes = [f"{row.name}, {row.decode}: {row.note}." for row in rows if not row.n] + list(gate.notes)
    found.missing = _missing(other)
    return found


def _missing(other: Model) -> list[Benchmark]:
    """The newest benchmarks that a model was not measured on with all its decodings; two queries."""
    made = Evaluation.objects.filter(model=other, metrics__isnull=False)
    measured = set(made.values_list("benchmark", "decode"))
    return [
        benchmark
        for benchmark in newest_benchmarks()
        if any((benchmark.pk, decode) not in measured for decode in default_decodes(benchmark, other))
    ]


def evaluated(ctx: JobContext, model: Model) -> None:
    """A model that was measured on everything stands before the gate next, unless it is the champion itself."""
    if current_aliases().get("champion") != model:
        with ctx.guard():
            gate_request(candidate=model, actor=ctx.job.created_by)


MODELS = Model.objects.select_related("run").defer("card", "run__log_tail")

LISTED = 20  # reports


@require_GET
def beside(request: HttpRequest, pk: int) -> HttpResponse:
    """Fragment for the pages of a model and its run: it beside the champion, and its gate reports, the newest first;
    polls while a job makes one."""
    model = get_object_or_404(MODELS.all(), pk=pk)
    made = list(reports().filter(candidate=model).defer("report")[:LISTED])
    moves = AliasMove.objects.filter(gate__report__in=[one.pk for one in made]).select_related("actor")
    champion = current_aliases().get("champion")
    against = champion.pk if champion else None
    newest = next((one for one in made if one.champion_id == against), None)
    context = {
        "beside": compare_with_champion(model),
        "reports": [(one, [move for move in moves if move.gate["report"] == one.pk]) for one in made],
        "newest": newest,
        "why_not": outdated(newest) if newest else "",
        "job": Job.objects.filter(
            kind__in=(KIND, "evaluation"), state__in=UNDER_WAY, params__model=model.pk
        ).first(),
    }
    return render(request, "evaluation/_beside_champion.html", context)
