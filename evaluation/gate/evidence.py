"""What a gate report is counted from: both models and the embedding on the newest benchmarks, and the tests of rules.

Only what is served is asked (fast, trace) and the knowledge probes; development halves choose thresholds and are left
out. Of each, what was measured for this report counts, as the models are served now; the groups of a query are those
that rules and clusters of now sort it into.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db.models import Count, F, Max, Q

from evaluation.benchmarks.selectors import backend_words, clause_words, rule_answers
from evaluation.benchmarks.services import default_decodes
from evaluation.core import gate
from evaluation.core.confusion import EMBEDDING, MODEL
from evaluation.core.gate import ChangedRule, Gate, GateRow
from evaluation.core.items import is_exception
from evaluation.core.paired import CANNOT_TELL, FLIPS, Asked
from evaluation.coverage.grouped import Sorting, sorting_now
from evaluation.coverage.outcomes import Labelled, Source, Standing, labelled, measured_by
from evaluation.coverage.selectors import learned_versions, read_tools, stamps
from evaluation.gate.selectors import asked_of, gated_benchmarks
from evaluation.models import Answer, Benchmark, Evaluation
from rules.models import RuleVersion
from trace_site.lib.files import content_hash
from training.models import Model

RULE = 5  # of deciding: what another one decided is decided anew
Decode = Evaluation.Decode
ASKED = (Decode.FAST, Decode.TRACE, Decode.LETTERS)
# one metric a decoding; a written list by two, for a longer list finds more
METRICS: dict[str, tuple[str, ...]] = {
    Decode.FAST: ("hit@1",),
    Decode.TRACE: ("recall@gen", "precision@gen"),
    Decode.LETTERS: ("accuracy",),
}
OUTSIDE = ("refused",)
FIRST = ("hit@1",)  # what a written list and the embedding's ranking share
NOTHING_ASKED = "no benchmark is frozen, so none was asked; import one with benchmark_import"
UNCHANGED = "tests of unchanged rules"
Of = tuple[str, int]  # source and id of a labelled request
Scores = dict[int, tuple[str, dict[str, Any], bool]]  # {item: (domain, scores, whether it is an exception)}


@dataclass(slots=True)
class Evidence:
    """All that both were asked. `embedding`: candidate, then champion, against it."""

    champion: list[Asked] = field(default_factory=list)
    embedding: tuple[list[Asked], list[Asked]] = field(default_factory=lambda: ([], []))
    rules: list[ChangedRule] = field(default_factory=list)
    unmeasured: list[GateRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counted_from: dict[str, Any] = field(default_factory=dict)


def evidence(candidate: Model, champion: Model | None, measured: Collection[int]) -> Evidence:
    """Of the evaluations `measured`; the number of queries does not depend on how much was asked."""
    found = Evidence()
    benchmarks = gated_benchmarks()
    made = Evaluation.objects.filter(pk__in=measured, benchmark__in=benchmarks, metrics__isnull=False)
    by = {(one.model_id, one.benchmark_id, one.decode): one for one in made.order_by("pk").defer("metrics")}
    scores, sorting = _scores([one.pk for one in by.values()]), sorting_now()
    for benchmark in benchmarks:
        decodes = {*default_decodes(benchmark, candidate), *default_decodes(benchmark, champion or candidate)}
        for decode in ASKED:
            if decode in decodes:
                groups = sorting.of(benchmark.pk) if benchmark.kind == Benchmark.Kind.PRB else {}
                asking = Asking(found, benchmark, decode, scores, groups)
                ours = by.get((candidate.pk, benchmark.pk, decode))
                theirs = by.get((champion.pk, benchmark.pk, decode)) if champion else None
                asking.tell_missing(ours, theirs, candidate, champion)
                asking.collect(ours, theirs, by.get((None, benchmark.pk, str(Decode.EMBEDDING))))
    for who, model in (("candidate", candidate), ("champion", champion)):
        said = [clause_words(one) for one in by.values() if model and one.model_id == model.pk]
        found.notes += [f"The {who} answered {words}." for words in dict.fromkeys(filter(None, said))]
    _first_tools(found, candidate, champion, sorting)
    tested = _rule_tests(found, candidate, champion)
    found.counted_from = {
        "rule": RULE,
        **asked_of(candidate, champion),
        "groups": sorting.definition.hash,
        "evaluations": sorted(one.key for one in by.values()),
        "benchmarks": sorted(one.pk for one in benchmarks),
        "rule_tests": tested,
        # groups are counted anew when rules or clusters change, refusals when a model is calibrated anew
        "answers": content_hash(
            [
                [one.name, one.decode, one.metric, one.groups, one.ours, one.theirs]
                for one in (*found.champion, *found.embedding[0])
            ]
        ),
    }
    return found


def _scores(evaluations: Collection[int]) -> dict[int, Scores]:
    columns = ("evaluation", "item", F("item__domain"), "scores", F("item__data__side"))
    found: dict[int, Scores] = {one: {} for one in evaluations}
    rows = Answer.objects.filter(evaluation__in=evaluations).order_by("item")
    for one, item, domain, scores, side in rows.values_list(*columns):
        found[one][item] = (domain, scores, is_exception({"side": side}))
    return found


@dataclass(frozen=True, slots=True)
class Asking:
    """One benchmark, asked with one decoding. `scores`: of every evaluation; `groups`: of every item."""

    found: Evidence
    benchmark: Benchmark
    decode: str
    scores: dict[int, Scores]
    groups: dict[int, str]

    def collect(
        self, ours: Evaluation | None, theirs: Evaluation | None, baseline: Evaluation | None
    ) -> None:
        """Add what the candidate, the champion and the embedding answered."""
        if ours is None:
            return
        is_outside = self.benchmark.kind == Benchmark.Kind.OUTSIDE
        if theirs is not None:
            metrics = OUTSIDE if is_outside else METRICS[self.decode]
            self.compare(self.found.champion, ours, theirs, metrics)
        if baseline is not None and not is_outside:
            for to, one in zip(self.found.embedding, (ours, theirs), strict=True):
                if one is not None:
                    self.compare(to, one, baseline, FIRST)

    def compare(self, to: list[Asked], one: Evaluation, other: Evaluation, metrics: tuple[str, ...]) -> None:
        a, b = (self.scores[each.pk] for each in (one, other))
        for metric in metrics:
            items = [item for item in a if item in b and metric in a[item][1] and metric in b[item][1]]
            if items:
                columns = (
                    [a[item][0] for item in items],
                    [self.groups.get(item, "") for item in items],
                    [float(a[item][1][metric]) for item in items],
                    [float(b[item][1][metric]) for item in items],
                )
                what = (self.benchmark.kind, str(self.benchmark), self.decode, metric, items, *columns)
                exceptions = [a[item][2] for item in items]
                ids = (one.pk, other.pk)
                to.append(Asked(*what, tier=self.benchmark.tier, exceptions=exceptions, ids=ids))
            if lost := sum(metric in told for _, told, _ in b.values()) - len(items):
                self.lacks(
                    f"{metric} is known of {lost} requests of the opponent that the candidate has none of"
                )
            elif not items:
                self.note(f"no request has {metric} of both.")

    def tell_missing(
        self, ours: Evaluation | None, theirs: Evaluation | None, candidate: Model, champion: Model | None
    ) -> None:
        """What keeps the two from being compared as one answers like the other."""
        if ours is None and self.decode not in default_decodes(self.benchmark, candidate):
            self.lacks("the champion answers so, and the candidate cannot", gate.FAIL)
        elif ours is None:
            self.lacks("the candidate was not measured so")
        elif champion and theirs is None and self.decode not in default_decodes(self.benchmark, champion):
            self.note("the champion does not answer so, and nothing can be lost.")
        elif champion and theirs is None:
            self.lacks("the champion was not measured so")
        elif theirs is not None and ours.backend != theirs.backend:
            each = f"the candidate answered {backend_words(ours)}, the champion {backend_words(theirs)}"
            self.note(f"{each}. Each is compared as it is served.")

    def lacks(self, note: str, verdict: str = CANNOT_TELL) -> None:
        what = (self.benchmark.kind, str(self.benchmark), self.benchmark.tier, self.decode, note)
        self.found.unmeasured.append(gate.unmeasured(*what, verdict))

    def note(self, said: str) -> None:
        self.found.notes.append(f"{self.benchmark}, {self.decode}: {said}")


def _first_tools(found: Evidence, candidate: Model, champion: Model | None, sorting: Sorting) -> None:
    """What each chooses first for labelled requests that it did not learn from, as `coverage.outcomes` has them."""
    domains = {tool.id: tool.domain for tool in read_tools(stamps().tools).values()}
    ours, theirs = (
        {(one.source, one.of): one for one in labelled(model, sorting.ids, measured_by(model))}
        if model
        else {}
        for model in (candidate, champion)
    )

    def ask(to: list[Asked], a: dict[Of, Labelled], b: dict[Of, Labelled], sides: tuple[str, str]) -> None:
        known = [
            of
            for of in a
            if of in b and sides[0] in a[of].outcome.firsts and sides[1] in b[of].outcome.firsts
        ]
        if known:
            rows = [a[of] for of in known]
            to.append(
                Asked(
                    kind=gate.LABELLED,
                    name=gate.LABELLED,
                    decode="",
                    metric="hit@1",
                    # a request of a benchmark is the same query wherever it is asked
                    queries=[pk if source == Source.BENCHMARK else (source, pk) for source, pk in known],
                    domains=[domains[one.outcome.gold[0]] for one in rows],
                    groups=[sorting.by.group(one.outcome.gold) for one in rows],
                    ours=[float(a[of].outcome.is_right(sides[0])) for of in known],
                    theirs=[float(b[of].outcome.is_right(sides[1])) for of in known],
                    exceptions=[one.is_exception for one in rows],
                )
            )

    ask(found.champion, ours, theirs, (MODEL, MODEL))
    for to, of in zip(found.embedding, (ours, theirs), strict=True):
        ask(to, of, of, (MODEL, EMBEDDING))


def _rule_tests(found: Evidence, candidate: Model, champion: Model | None) -> list[int]:
    """The tests of published rule versions that both were asked: of changed rules as counts, of the others as a
    slice. Returns the ids of the versions."""
    tests: defaultdict[tuple[Any, ...], defaultdict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    asked = rule_answers().filter(
        model__in=[one for one in (candidate, champion) if one],
        item__version__rule__published=F("item__version"),
    )
    rule = ("item__version__rule", "item__version__rule__code", "item__version__rule__domain")
    columns = ("item__version", "item__version__number", *rule, "model", "scores__passed")
    for *version, model, passed in asked.order_by(rule[1], "item__version", "item__position").values_list(
        *columns
    ):
        tests[tuple(version)][model].append(passed)
    learned, known = (
        learned_versions(one.run.snapshot_id, one.run.retrieval) if one else frozenset()
        for one in (candidate, champion)
    )
    changed = learned - known
    untested = RuleVersion.objects.filter(pk__in=changed, rule__published=F("pk"), tests=[]).count()
    if untested:
        said = "1 changed rule has" if untested == 1 else f"{untested} changed rules have"
        found.notes.append(f"{said} no tests, so nothing tells whether the candidate follows what changed.")
    used, rows = [], []
    for (version, number, pk, code, domain), of in tests.items():
        ours, theirs = of.get(candidate.pk), of.get(champion.pk) if champion else None
        if ours is None or (champion and theirs is None):
            continue
        used.append(version)
        if version in changed:
            passed = None if theirs is None else int(sum(theirs))
            found.rules.append(ChangedRule(pk, code, number, len(ours), int(sum(ours)), passed))
        elif theirs is not None:
            rows += [
                (("rule test", version, place), domain, a, b)
                for place, (a, b) in enumerate(zip(ours, theirs, strict=True))
            ]
    if rows:
        queries, domains, a, b = zip(*rows, strict=True)
        what = ("rules", UNCHANGED, str(Decode.FAST), "passed", queries, domains, [""] * len(rows), a, b)
        found.champion.append(Asked(*what))
    return sorted(used)


def gate_of(found: Evidence, *, flips: int = FLIPS) -> Gate:
    """Both opponents judged; the candidate's losses to the embedding that the champion shares bind nobody."""
    rows, critical = gate.judge(found.champion, gate.CHAMPION, flips=flips)
    ours, reach = gate.judge(found.embedding[0], gate.EMBEDDING, flips=flips)
    theirs, _ = gate.judge(found.embedding[1], gate.EMBEDDING, flips=flips)
    asked = [*rows, *found.unmeasured, *gate.known_weakness(ours, theirs)]
    if (changed := gate.rules_row(found.rules)) is not None:
        # these tests are counted: they say nothing of what else the candidate does
        asked = [changed, *(asked or [gate.unmeasured("prb", "requests", "", "", NOTHING_ASKED)])]
    return Gate(
        rows=tuple(asked),
        rules=tuple(found.rules),
        notes=tuple(found.notes),
        critical={gate.CHAMPION: critical, gate.EMBEDDING: reach},
        flips=flips,
    )


def judged(model: Model, other: Model | None = None) -> Gate:
    """Both on everything that is measured of them by now, whoever is champion; a process keeps it for as long as that
    stays. The number of queries does not depend on how much that is."""
    both = [one for one in (model, other) if one]
    made = Evaluation.objects.filter(Q(model__in=both) | Q(model=None), metrics__isnull=False)
    tests = rule_answers().filter(model__in=both).aggregate(Count("pk"), Max("pk"))
    standing = [
        *sorted(made.values_list("pk", flat=True)),
        *tests.values(),
        [Standing.now(one)[1:] for one in both],  # answers to samples, and reports
        sorting_now().definition.hash,
    ]
    return _judged(model.pk, other.pk if other else None, content_hash(standing))


@lru_cache(maxsize=32)
def _judged(model: int, other: int | None, standing: str) -> Gate:
    models = Model.objects.select_related("run").in_bulk([pk for pk in (model, other) if pk])
    made = Evaluation.objects.filter(Q(model__in=models) | Q(model=None), metrics__isnull=False)
    measured = list(made.values_list("pk", flat=True))
    return gate_of(evidence(models[model], models.get(other or 0), measured))
