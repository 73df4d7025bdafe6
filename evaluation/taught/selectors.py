"""What the rules taught the champion: read beside its control and the embedding, each tier and decoding apart.

The control differs from the champion in nothing but the rule samples. A process keeps what it computed: predictions
never change, and the groups of queries are part of what a result is kept under.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, F, Q
from django.db.models.fields.json import KT
from django.urls import reverse

from evaluation.benchmarks.selectors import RESULTS, TIERS
from evaluation.core.metrics import ALL, cited_codes
from evaluation.core.taught import METRIC, Cell, Query, cells, warnings
from evaluation.coverage.selectors import shown_model
from evaluation.models import Benchmark, Evaluation, Prediction, RuleTestResult
from evaluation.results.predictions import cites_needlessly
from rules.models import Rule
from synthesis.models import SnapshotSample
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


# Did my rule help? A rule's own requests and tests: champion beside control and embedding, and how it is cited.
#
# In: a rule. Out: a row a tier, each number of which is a list of stored predictions. A request is the rule's own when
# its benchmark says that the rule decides it; it is answered right when the first tool is one of the right tools.


LISTED = 50  # requests shown one by one


@dataclass(frozen=True, slots=True)
class Own:
    """One request of the rule: who answered it right; None for a side that was not asked."""

    query: str
    sides: list[bool | None]


@dataclass(frozen=True, slots=True)
class Tier:
    """The rule's requests of one benchmark."""

    part: Part
    cell: Cell
    sides: list[tuple[str, int | None, str]]  # who, right answers, the predictions
    own: list[Own]
    cited: int | None  # of its requests; None where no trace was written
    needless: int  # traces that cite it on requests it does not decide
    others: int  # those requests
    code: str

    @property
    def n(self) -> int:
        return self.cell.n

    @property
    def verdict(self) -> str:
        """What became of it beside the control; empty without one."""
        return self.cell.over_control.verdict if self.cell.over_control else ""

    @property
    def needless_url(self) -> str:
        return _url(self.part.champion, needless=self.code)


@dataclass(frozen=True, slots=True)
class RuleHelp:
    taught: Taught
    tiers: list[Tier]
    tests: list[tuple[str, Model, RuleTestResult | None]]
    trained: int  # samples of the published version that the champion learned from
    older: int | None  # else the newest other version it learned from


def rule_help(rule: Rule) -> RuleHelp:
    found = taught()
    learned = _learned(rule, found)
    number = rule.published.number if rule.published else 0
    others = [version for version in learned if version != number]
    return RuleHelp(
        found, _tiers(rule, found), _tests(rule, found), learned.get(number, 0), max(others, default=None)
    )


def _learned(rule: Rule, found: Taught) -> dict[int, int]:
    """{version: samples of it in the champion's snapshot}; nothing where it learned from no rule sample."""
    if found.model is None or not found.learned:
        return {}
    members = SnapshotSample.objects.filter(
        snapshot=found.model.run.snapshot_id, sample__rule_version__rule=rule
    )
    rows = members.order_by().values_list("sample__rule_version__number").annotate(Count("pk"))
    return dict(rows)


def _tests(rule: Rule, found: Taught) -> list[tuple[str, Model, RuleTestResult | None]]:
    asked = [(found.name, found.model), ("control", found.control)]
    if rule.published is None or not rule.published.tests:
        return []
    results = {row.model_id: row for row in RuleTestResult.objects.filter(version=rule.published)}
    return [(who, model, results.get(model.pk)) for who, model in asked if model]


def _tiers(rule: Rule, found: Taught) -> list[Tier]:
    """Two queries over the predictions of all benchmarks, each with its trace where there is one."""
    parts = [parts[0] for parts in found.benchmarks]
    sides = {one.pk for part in parts for one in (part.champion, part.control, part.embedding) if one}
    by: defaultdict[int, dict[int, Prediction]] = defaultdict(dict)
    for row in Prediction.objects.filter(evaluation__in=sides, item__data__rule=rule.code).select_related(
        "item"
    ):
        by[row.evaluation_id][row.item_id] = row
    needless = _needless(rule.code, [part.champion for part in parts])
    return [_tier(rule, found, part, by, needless) for part in parts if by[part.champion.pk]]


def _needless(code: str, asked: Sequence[Evaluation]) -> dict[int, int]:
    """{evaluation: traces that cite the rule on requests it does not decide}"""
    rows = cites_needlessly(Prediction.objects.filter(evaluation__in=asked), code)
    return dict(rows.order_by().values_list("evaluation").annotate(Count("pk")))


def _tier(
    rule: Rule, found: Taught, part: Part, by: dict[int, dict[int, Prediction]], needless: dict[int, int]
) -> Tier:
    named = ((found.name, part.champion), ("control", part.control), ("embedding", part.embedding))
    items = sorted(by[part.champion.pk])
    right = {
        who: [by[one.pk][item].scores["hit@1"] >= 1 for item in items] if one else [None] * len(items)
        for who, one in named
    }
    own = list(zip(*right.values(), strict=True))
    rows = [by[part.champion.pk][item] for item in items]
    traced = any(row.output.get("trace") for row in rows)
    return Tier(
        part,
        cells([Query("", "", *map(_score, sides)) for sides in own])[ALL, ALL],
        [
            (who, sum(map(bool, right[who])) if one else None, _url(one, rule=rule.code) if one else "")
            for who, one in named
        ],
        [Own(row.item.data["query"], list(sides)) for row, sides in zip(rows, own, strict=True)][:LISTED],
        sum(bool(cited_codes(str(row.output.get("trace", "")), [rule.code])) for row in rows)
        if traced
        else None,
        needless.get(part.champion.pk, 0),
        part.benchmark.count - len(items),
        rule.code,
    )


def _score(right: bool | None) -> Any:
    return None if right is None else float(right)


def _url(of: Evaluation, **filters: str) -> str:
    return f"{reverse('evaluation:detail', args=[of.pk])}?{urlencode(filters)}#predictions"
