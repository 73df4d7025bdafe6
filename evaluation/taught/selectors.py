"""What the rules taught the champion: read beside its control and the embedding, each tier and decoding apart.

The control differs from the champion in nothing but the rule samples (`control.py`). A process keeps what it computed:
answers never change, and the groups of their requests are part of what a result is kept under.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, F, Q
from django.urls import reverse

from evaluation.benchmarks.selectors import RESULTS, TIERS, rule_results
from evaluation.core.gate import EMBEDDING
from evaluation.core.items import is_exception
from evaluation.core.metrics import ALL, cited_codes
from evaluation.core.taught import METRIC, TaughtCell, ThreeAnswers, taught_cells
from evaluation.coverage.grouped import sorting_now
from evaluation.coverage.selectors import shown_model
from evaluation.gate.evidence import judged
from evaluation.models import Answer, Benchmark, Evaluation
from evaluation.results.answers import cites_needlessly
from evaluation.taught.control import LEARNED, Control, control_of
from rules.models import Rule
from synthesis.models import SnapshotSample
from training.models import Model, Run

SERVED = (Evaluation.Decode.TRACE, Evaluation.Decode.FAST)


def answers_url(of: Evaluation, **filters: str) -> str:
    return f"{reverse('evaluation:detail', args=[of.pk])}?{urlencode(filters)}#predictions"


@dataclass(frozen=True, slots=True)
class TaughtPart:
    """One benchmark of one tier, one decoding; groups are of the items, so of all three."""

    benchmark: Benchmark
    decode: str
    champion: Evaluation
    control: Evaluation | None
    embedding: Evaluation | None
    cells: dict[tuple[str, str], TaughtCell]

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

    def of(self, domain: str) -> list[TaughtCell]:
        return [cell for key, cell in self.cells.items() if key[0] == domain]


@dataclass(slots=True)
class Taught:
    model: Model | None
    alias: str  # champion, or newest where there is no champion
    pairing: Control = Control()
    parts: list[TaughtPart] = field(default_factory=list)

    @property
    def name(self) -> str:
        return "champion" if self.alias == "champion" else "newest model"

    @property
    def control(self) -> Model | None:
        return self.pairing.model

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
    def benchmarks(self) -> list[list[TaughtPart]]:
        """The parts of each benchmark."""
        return [list(of) for _, of in groupby(self.parts, key=lambda part: part.benchmark.pk)]

    @property
    def unmeasured(self) -> list[TaughtPart]:
        """Where a control exists but was not evaluated."""
        return [part for part in self.parts if self.control and part.control is None]

    def warnings(self, domain: str = ALL) -> list[str]:
        """Where the champion is worse than the embedding; each tells what it is of, so that it can stand anywhere."""
        about = "" if domain == ALL else f"{domain}, "
        return [
            f"{cell.warning}; {about}{part.short.lower()}, {part.decode}."
            for part in self.parts
            for cell in part.of(domain)
            if cell.warning
        ]


def taught() -> Taught:
    """The number of queries does not depend on how much was measured, but for what this process has not read yet."""
    model, alias = shown_model()
    pairing = control_of(model) if model else Control()
    return Taught(model, alias, pairing, list(_parts(model, pairing.model)) if model else [])


def _parts(model: Model, control: Model | None) -> Iterator[TaughtPart]:
    """The newest version of each benchmark the model was measured on, the hard tier first."""
    rows = (
        Evaluation.objects.filter(RESULTS, Q(model=model) | Q(model=None) | Q(model=control))
        .filter(decode__in=[*SERVED, Evaluation.Decode.EMBEDDING])
        .select_related("benchmark")
        .defer("metrics")
        .order_by("benchmark__version", "pk")
    )
    by = {(row.model_id, row.benchmark_id, row.decode): row for row in rows}
    # the control as the model itself answered: what another backend answered is no comparison
    alike = {(row.model_id, row.benchmark_id, row.decode, row.backend): row for row in rows}
    newest = {row.benchmark.name: row.benchmark for row in rows if row.model_id == model.pk}
    sorting, gate = sorting_now(), judged(model)
    for benchmark in sorted(newest.values(), key=lambda one: (TIERS.index(one.tier), -one.pk)):
        embedding = by.get((None, benchmark.pk, Evaluation.Decode.EMBEDDING))
        for decode in SERVED:
            if ours := by.get((model.pk, benchmark.pk, decode)):
                side = (control.pk, benchmark.pk, decode, ours.backend) if control else None
                theirs = alike.get(side) if side else None
                ids = (theirs.pk if theirs else None, embedding.pk if embedding else None)
                groups = tuple(sorting.of(benchmark.pk).items())
                rows_of = {
                    (row.domain, row.group): row
                    for row in gate.rows
                    if (row.opponent, row.name, row.decode) == (EMBEDDING, str(benchmark), decode)
                }
                cells = taught_cells(_answers(ours.pk, *ids, groups), rows_of)
                yield TaughtPart(benchmark, str(decode), ours, theirs, embedding, cells)


@lru_cache(maxsize=128)
def _answers(
    champion: int, control: int | None, embedding: int | None, groups: tuple[tuple[int, str], ...]
) -> tuple[ThreeAnswers, ...]:
    """Over the queries that all sides answered; one query. `groups`: each item with its own."""
    group_of = dict(groups)
    sides: dict[int, dict[int, bool]] = {one: {} for one in (champion, control, embedding) if one}
    about: dict[int, tuple[str, bool]] = {}
    rows = Answer.objects.filter(evaluation__in=sides).order_by("item")
    columns = ("evaluation", "item", F("item__domain"), "scores", F("item__data__side"))
    for one, item, domain, scores, side in rows.values_list(*columns):
        sides[one][item] = scores[METRIC] >= 1
        about[item] = (domain, is_exception({"side": side}))
    return tuple(
        ThreeAnswers(
            about[item][0],
            group_of.get(item, ""),
            right,
            sides[control][item] if control else None,
            sides[embedding][item] if embedding else None,
            about[item][1],
        )
        for item, right in sides[champion].items()
        if all(item in side for side in sides.values())
    )


# Did my rule help? A rule's own requests and tests: champion beside control and embedding, and how it is cited.
#
# In: a rule. Out: a row a tier, each number of which is a list of stored answers. A request is the rule's own when
# its benchmark says that the rule decides it; it is answered right when the first tool is one of the right tools.


def rule_help(rule: Rule) -> dict[str, Any]:
    """{"taught", "tiers", "tests", "trained", "older"}: `tests`: (who, model, its stored result or None); `trained`:
    samples of the published version that the champion learned from; `older`: else the newest other version it learned
    from."""
    found, published = taught(), rule.published
    learned: dict[int, int] = {}  # {version: samples of it in the champion's snapshot}
    if found.model is not None and found.learned:
        members = SnapshotSample.objects.filter(
            snapshot=found.model.run.snapshot_id, sample__rule_version__rule=rule
        )
        counts = members.order_by().values_list("sample__rule_version__number").annotate(Count("pk"))
        learned = dict(counts)
    tests = []
    if published and published.tests:
        results = {row.model: row for row in rule_results(item__version=published)}
        asked = ((found.name, found.model), ("control", found.control))
        tests = [(who, model, results.get(model.pk)) for who, model in asked if model]
    number = published.number if published else 0
    return {
        "taught": found,
        "tiers": rule_tiers(rule, found),
        "tests": tests,
        "trained": learned.pop(number, 0),
        "older": max(learned, default=None),
    }


def rule_tiers(rule: Rule, found: Taught) -> list[dict[str, Any]]:
    """The rule's requests of each benchmark, from two queries over the answers of all benchmarks:

    `sides`: (who, right answers or None, the address of the answers); `cited`: of its requests, None where no trace
    was written; `needless`: traces that cite it on the `others`, requests it does not decide.
    """
    parts = [parts[0] for parts in found.benchmarks]
    evaluations = {one.pk for part in parts for one in (part.champion, part.control, part.embedding) if one}
    by: defaultdict[int | None, dict[int, Answer]] = defaultdict(dict)
    rows = Answer.objects.filter(evaluation__in=evaluations, item__data__rule=rule.code)
    for row in rows:
        by[row.evaluation_id][row.item_id] = row
    champions = Answer.objects.filter(evaluation__in=[part.champion for part in parts])
    needless = dict(
        cites_needlessly(champions, rule.code).order_by().values_list("evaluation").annotate(Count("pk"))
    )
    tiers = []
    for part in parts:
        answers = by[part.champion.pk]
        if not answers:
            continue
        items, sides = sorted(answers), []
        right: list[list[bool | None]] = []
        for who, one in (
            (found.name, part.champion),
            ("control", part.control),
            ("embedding", part.embedding),
        ):
            own = [by[one.pk][item].scores["hit@1"] >= 1 if one else None for item in items]
            address = answers_url(one, rule=rule.code) if one else ""
            sides.append((who, sum(map(bool, own)) if one else None, address))
            right.append(own)
        requests = list(zip(*right, strict=True))
        cell = taught_cells([ThreeAnswers("", "", bool(a), b, c) for a, b, c in requests])[ALL, ALL]
        traces = [str(answers[item].output.get("trace", "")) for item in items]
        tiers.append(
            {
                "part": part,
                "n": cell.n,
                # what became of it beside the control; empty without one
                "verdict": cell.over_control.answer if cell.over_control else "",
                "sides": sides,
                "cited": sum(bool(cited_codes(trace, [rule.code])) for trace in traces)
                if any(traces)
                else None,
                "needless": needless.get(part.champion.pk, 0),
                "needless_url": answers_url(part.champion, needless=rule.code),
                "others": part.benchmark.count - len(items),
            }
        )
    return tiers
