"""What the rules taught the champion: read beside its control and the embedding, each tier and decoding apart.

The control differs from the champion in nothing but the rule samples. A process keeps what it computed: predictions
never change, and the groups of queries are part of what a result is kept under.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db.models import F, Q
from django.db.models.fields.json import KT
from django.urls import reverse

from evaluation.benchmarks.selectors import RESULTS, TIERS
from evaluation.core.metrics import ALL
from evaluation.core.taught import METRIC, Cell, Query, cells, warnings
from evaluation.coverage.selectors import shown_model
from evaluation.models import Benchmark, Evaluation, Prediction
from training.core.stages import SPEED_ONLY
from training.models import Model, Run

SERVED = (Evaluation.Decode.TRACE, Evaluation.Decode.FAST)
LEARNED = {Run.Retrieval.RULES: Run.Retrieval.REASONED}  # a retrieval with rule samples: the same without
CELL = ("format", "memo", "retrieval", "base", "seed")


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark of one tier, one decoding; the champion's groups count for all three."""

    benchmark: Benchmark
    decode: str
    champion: Evaluation
    control: Evaluation | None
    embedding: Evaluation | None
    cells: dict[tuple[str, str], Cell]

    @property
    def title(self) -> str:
        """The tier in words, which never share a number; a benchmark without one by its name."""
        if not self.benchmark.tier:
            return str(self.benchmark)
        tier, _, words = str(self.benchmark.get_tier_display()).partition(": ")
        return f"{tier.capitalize()} tier: {words}"

    @property
    def short(self) -> str:
        return self.title.partition(":")[0]

    @property
    def definition(self) -> str:
        """What covered, uncovered and outside mean, as it was stored with the evaluation."""
        return str(getattr(self.champion, "definition", None) or "")

    def of(self, domain: str) -> list[Cell]:
        return [cell for key, cell in self.cells.items() if key[0] == domain]

    def warnings(self, domain: str = ALL) -> list[str]:
        """Each tells what it is of, so that it can stand anywhere."""
        about = "" if domain == ALL else f"{domain}, "
        return [
            f"{text}; {about}{self.short.lower()}, {self.decode}." for text in warnings(self.cells, domain)
        ]


@dataclass(slots=True)
class Taught:
    model: Model | None
    alias: str  # champion, or newest where there is no champion
    control: Model | None = None
    parts: list[Part] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "champion" if self.alias == "champion" else "newest model"

    @property
    def learned(self) -> bool:
        """Whether rule samples were among what the model was trained on."""
        return self.model is not None and self.model.run.retrieval in LEARNED

    @property
    def control_cell(self) -> str:
        """The cell that the control is, or would be."""
        if self.model is None or not self.learned:
            return ""
        run = self.model.run
        return f"({run.format}, {run.memo}, {LEARNED[Run.Retrieval(run.retrieval)]})"

    @property
    def make_control(self) -> str:
        """The launch form with the champion's recipe."""
        return f"{reverse('training:create')}?from={self.model.run_id}" if self.model else ""

    @property
    def headline(self) -> list[Part]:
        """One part a tier, for pages that show little: its newest benchmark, with the trace where there is one."""
        found: dict[str, Part] = {}
        for part in self.parts:
            found.setdefault(part.benchmark.tier, part)
        if len(found) > 1:
            found.pop("", None)
        return list(found.values())

    @property
    def benchmarks(self) -> list[list[Part]]:
        """The parts of each benchmark."""
        found: dict[int, list[Part]] = {}
        for part in self.parts:
            found.setdefault(part.benchmark.pk, []).append(part)
        return list(found.values())

    @property
    def unmeasured(self) -> list[Part]:
        """Where a control exists but was not evaluated."""
        return [part for part in self.parts if self.control and part.control is None]

    def warnings(self, domain: str = ALL) -> list[str]:
        return [text for part in self.parts for text in part.warnings(domain)]


def taught() -> Taught:
    """Three queries, and one more for each part that this process has not computed yet."""
    model, alias = shown_model()
    found = Taught(model, alias)
    if model is None:
        return found
    found.control = control_of(model)
    found.parts = list(_parts(model, found.control))
    return found


def control_of(model: Model) -> Model | None:
    """The newest model of the same snapshot, cell, base, recipe and seed that learned from no rule sample."""
    run = model.run
    if run.retrieval not in LEARNED:
        return None
    same = {"snapshot": run.snapshot_id, "base": run.base, "format": run.format, "memo": run.memo}
    rows = Model.objects.filter(
        **{f"run__{name}": value for name, value in same.items()},
        run__seed=run.seed,
        run__retrieval=LEARNED[Run.Retrieval(run.retrieval)],
    )
    wanted = _recipe(run)
    return next(
        (one for one in rows.select_related("run").order_by("-pk") if _recipe(one.run) == wanted), None
    )


def _recipe(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.recipe.items() if name not in (*CELL, *SPEED_ONLY)}


def _parts(model: Model, control: Model | None) -> Iterable[Part]:
    """The newest version of each benchmark the model was measured on, the hard tier first."""
    rows = (
        Evaluation.objects.filter(RESULTS, Q(model=model) | Q(model=None) | Q(model=control))
        .filter(decode__in=[*SERVED, Evaluation.Decode.EMBEDDING])
        .select_related("benchmark")
        .defer("metrics", "hardware", "clusterings")
        .annotate(grouping=KT("metrics__groups__hash"), definition=KT("metrics__groups__definition"))
        .order_by("pk")
    )
    by = {(row.model_id, row.benchmark_id, row.decode): row for row in rows}
    newest = {
        row.benchmark.name: row.benchmark
        for row in sorted(rows, key=lambda row: row.benchmark.version)
        if row.model_id == model.pk
    }
    for benchmark in sorted(newest.values(), key=lambda one: (TIERS.index(one.tier), -one.pk)):
        embedding = by.get((None, benchmark.pk, Evaluation.Decode.EMBEDDING))
        for decode in SERVED:
            if ours := by.get((model.pk, benchmark.pk, decode)):
                theirs = by.get((control.pk, benchmark.pk, decode)) if control else None
                ids = (theirs.pk if theirs else None, embedding.pk if embedding else None)
                found = _cells(ours.pk, *ids, getattr(ours, "grouping", None))
                yield Part(benchmark, str(decode), ours, theirs, embedding, found)


@lru_cache(maxsize=128)
def _cells(
    champion: int, control: int | None, embedding: int | None, grouping: str | None
) -> dict[tuple[str, str], Cell]:
    """Kept under `grouping`, the hash of the champion's groups: they change when rules or clusters do."""
    sides: dict[int, dict[int, Any]] = {one: {} for one in (champion, control, embedding) if one}
    rows = Prediction.objects.filter(evaluation__in=sides).order_by("item")
    for one, item, domain, scores in rows.values_list("evaluation", "item", F("item__domain"), "scores"):
        sides[one][item] = (domain, scores)
    shared = set.intersection(*(set(side) for side in sides.values()))

    def recall(side: int | None, item: int) -> float | None:
        return float(sides[side][item][1][METRIC]) if side else None

    return cells(
        [
            Query(
                domain,
                scores.get("group", ""),
                scores[METRIC],
                recall(control, item),
                recall(embedding, item),
            )
            for item, (domain, scores) in sides[champion].items()
            if item in shared
        ]
    )
