"""What a gate report is counted from: both models and the embedding on the newest benchmarks, and the tests of rules.

Only what is served is asked (fast, trace) and the knowledge probes; development halves choose thresholds and are left
out. The groups of a query are those stored with the candidate's answer, so one report has one definition.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F

from evaluation.benchmarks.selectors import TIERS, newest_benchmarks
from evaluation.benchmarks.services import default_decodes
from evaluation.core import gate
from evaluation.core.gate import Asked, ChangedRule, GateRow
from evaluation.core.metrics import judge_rule_test
from evaluation.models import Benchmark, Evaluation, GateReport, Prediction, RuleTestResult
from synthesis.models import SnapshotSample
from trace_site.lib.files import content_hash
from training.models import Model, Run

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
KINDS = list(Benchmark.Kind.values)
UNCHANGED = "tests of unchanged rules"
Scores = dict[int, tuple[str, dict[str, Any]]]  # {item: (domain, scores)}


@dataclass(slots=True)
class Evidence:
    """All that both were asked. `embedding`: candidate, then champion, against it."""

    champion: list[Asked] = field(default_factory=list)
    embedding: tuple[list[Asked], list[Asked]] = field(default_factory=lambda: ([], []))
    rules: list[ChangedRule] = field(default_factory=list)
    unmeasured: list[GateRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counted_from: dict[str, Any] = field(default_factory=dict)


def gated_benchmarks() -> list[Benchmark]:
    """The newest versions that a gate asks, the requests first; one query."""
    found = [one for one in newest_benchmarks() if not one.is_development]
    return sorted(found, key=lambda one: (KINDS.index(one.kind), TIERS.index(one.tier), one.name))


def evidence(candidate: Model, champion: Model | None) -> Evidence:
    """Six queries, however much was asked."""
    found = Evidence()
    benchmarks = gated_benchmarks()
    made = Evaluation.objects.filter(benchmark__in=benchmarks, metrics__isnull=False).filter(
        model__in=[one for one in (candidate, champion) if one]
    ) | Evaluation.objects.filter(benchmark__in=benchmarks, metrics__isnull=False, model=None)
    by = {
        (one.model_id, one.benchmark_id, one.decode): one
        for one in made.order_by("pk").defer("metrics", "hardware", "clusterings")
    }
    scores = _scores(by.values())
    for benchmark in benchmarks:
        decodes = {*default_decodes(benchmark, candidate), *default_decodes(benchmark, champion or candidate)}
        for decode in ASKED:
            if decode in decodes:
                sides = [
                    by.get((one.pk, benchmark.pk, decode)) if one else None for one in (candidate, champion)
                ]
                baseline = by.get((None, benchmark.pk, str(Decode.EMBEDDING)))
                _collect(found, benchmark, decode, sides, baseline, scores, champion)
    results = _rule_tests(found, candidate, champion)
    found.counted_from = {
        "evaluations": sorted(one.key for one in by.values()),
        "benchmarks": sorted(one.pk for one in benchmarks),
        "rule_tests": results,
        # groups are counted anew when rules or clusters change, refusals when a model is calibrated anew
        "answers": content_hash(
            [
                [one.name, one.decode, one.metric, one.groups, one.ours, one.theirs]
                for one in (*found.champion, *found.embedding[0])
            ]
        ),
    }
    return found


def _scores(evaluations: Iterable[Evaluation]) -> dict[int, Scores]:
    found: dict[int, Scores] = {one.pk: {} for one in evaluations}
    rows = Prediction.objects.filter(evaluation__in=found).order_by("item")
    for one, item, domain, scores in rows.values_list("evaluation", "item", F("item__domain"), "scores"):
        found[one][item] = (domain, scores)
    return found


def _collect(
    found: Evidence,
    benchmark: Benchmark,
    decode: str,
    sides: list[Evaluation | None],
    baseline: Evaluation | None,
    scores: dict[int, Scores],
    champion: Model | None,
) -> None:
    """Add what the two sides and the embedding answered to one benchmark with one decoding."""
    ours, theirs = sides
    is_outside = benchmark.kind == Benchmark.Kind.OUTSIDE
    label = f"{benchmark}, {decode}"
    lacking = "candidate" if ours is None else "champion" if champion and theirs is None else ""
    if lacking == "champion" and champion and decode not in default_decodes(benchmark, champion):
        found.notes.append(f"{label}: the champion does not answer so, and nothing can be lost.")
    elif lacking:
        note = f"the {lacking} was not measured so"
        found.unmeasured.append(gate.unmeasured(benchmark.kind, str(benchmark), benchmark.tier, decode, note))
    if ours is None:
        return

    def add(to: list[Asked], one: Evaluation, other: Evaluation, metrics: tuple[str, ...]) -> None:
        a, b = scores[one.pk], scores[other.pk]
        for metric in metrics:
            items = [item for item in a if item in b and metric in a[item][1] and metric in b[item][1]]
            if items:
                columns = (
                    [a[item][0] for item in items],
                    # of the candidate, also where the champion meets the embedding
                    [scores[ours.pk].get(item, ("", {}))[1].get("group", "") for item in items],
                    [float(a[item][1][metric]) for item in items],
                    [float(b[item][1][metric]) for item in items],
                )
                what = (benchmark.kind, str(benchmark), decode, metric, items, *columns)
                to.append(Asked(*what, tier=benchmark.tier, ids=(one.pk, other.pk)))
            else:
                found.notes.append(f"{label}: no request has {metric} of both.")

    if theirs is not None:
        add(found.champion, ours, theirs, OUTSIDE if is_outside else METRICS[decode])
    if baseline is not None and not is_outside:
        add(found.embedding[0], ours, baseline, FIRST)
        if theirs is not None:
            add(found.embedding[1], theirs, baseline, FIRST)


def _rule_tests(found: Evidence, candidate: Model, champion: Model | None) -> list[int]:
    """The tests of published rule versions that both were asked: of changed rules as counts, of the others as a
    slice. Returns the ids of the results."""
    results: defaultdict[int, dict[int, RuleTestResult]] = defaultdict(dict)
    asked = RuleTestResult.objects.filter(
        model__in=[one for one in (candidate, champion) if one], version__rule__published=F("version")
    )
    for row in asked.select_related("version__rule").order_by("version__rule__code", "pk"):
        results[row.version_id][row.model_id] = row
    changed = taught_versions(candidate) - (taught_versions(champion) if champion else set())
    used, rows = [], []
    for version, of in results.items():
        ours, theirs = of.get(candidate.pk), of.get(champion.pk) if champion else None
        if ours is None or (champion and theirs is None):
            continue
        used += [one.pk for one in (ours, theirs) if one]
        if version in changed:
            rule = ours.version.rule
            passed = theirs.passed if theirs else None
            found.rules.append(
                ChangedRule(rule.pk, rule.code, ours.version.number, ours.total, ours.passed, passed)
            )
        elif theirs is not None:
            rows += [
                (("rule test", version, number), ours.version.rule.domain_id, _passed(a), _passed(b))
                for number, (a, b) in enumerate(zip(ours.results, theirs.results, strict=True))
            ]
    if rows:
        queries, domains, a, b = zip(*rows, strict=True)
        what = ("rules", UNCHANGED, str(Decode.FAST), "passed", queries, domains, [""] * len(rows), a, b)
        found.champion.append(Asked(*what))
    return sorted(used)


def _passed(test: dict[str, Any]) -> float:
    return float(judge_rule_test(test["query"], test["tools"], test["found"]).passed)


def taught_versions(model: Model) -> set[int]:
    """The rule versions whose samples the model learned from."""
    if model.run.retrieval != Run.Retrieval.RULES:
        return set()
    samples = SnapshotSample.objects.filter(
        snapshot=model.run.snapshot_id, sample__rule_version__isnull=False
    )
    return set(samples.order_by().values_list("sample__rule_version", flat=True).distinct())


def reports() -> Any:
    return GateReport.objects.select_related("candidate__run", "champion__run").defer(
        "candidate__card", "champion__card", "candidate__run__log_tail", "champion__run__log_tail"
    )


def newest_report(candidate: int, champion: int | None) -> GateReport | None:
    found: GateReport | None = reports().filter(candidate=candidate, champion=champion).first()
    return found


def is_outdated(report: GateReport) -> bool:
    """Whether benchmarks were frozen that it does not know; one query."""
    known: list[int] = report.counted_from.get("benchmarks", [])
    return sorted(one.pk for one in gated_benchmarks()) != known
