"""Reads behind the evaluation pages: benchmarks, evaluations, and the numbers of evaluations as tables show them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Q, QuerySet

from evaluation.core.coverage import EXCEPTIONS, LINES
from evaluation.core.metrics import ALL, LIST_METRICS, METRICS, RANKED_DECODES, RANKED_METRICS
from evaluation.models import GIVEN_DOMAIN, Answer, Benchmark, Evaluation, LabelledRequest
from training.core.recipe import POCKET
from training.models import Model, Run

SEED = 0  # of every bootstrap
TRACED = (Evaluation.Decode.TRACE, Evaluation.Decode.TRACE_FREE)
COLUMNS = {name: metric for name, metric in METRICS.items() if metric.column}
PROBES = (Benchmark.Kind.MCQ, Benchmark.Kind.QA, Benchmark.Kind.MCQ_EXPERT)
# as they are shown; where one number must do, the first
TIERS = (Benchmark.Tier.HARD, "", Benchmark.Tier.PLAIN)
# evaluations of requests whose figures are results: a development half chooses thresholds and is none, and nobody who
# is served gives the domain that a label knows
RESULTS = Q(
    ~Q(decode__in=GIVEN_DOMAIN),
    benchmark__kind=Benchmark.Kind.PRB,
    benchmark__is_development=False,
    metrics__isnull=False,
)


def evaluations() -> QuerySet[Evaluation]:
    """Those whose figures may be shown: of no development half."""
    found = Evaluation.objects.filter(benchmark__is_development=False)
    return found.select_related("benchmark", "job", "model__run__snapshot").defer(
        "model__run__snapshot__manifest", "model__card", "model__run__log_tail"
    )


SERVER = (
    "completions"  # the backend of what a server answers in place of our own engine, whichever server it is
)


def backend_of(model: Model) -> str:
    """What answers for it now: SERVER, or empty for our own engine, which alone serves pocket models."""
    return SERVER if settings.TRACE_BACKEND_URL and model.run.base != POCKET else ""


def asked_alone() -> QuerySet[Answer]:
    """Answers outside of evaluations, each of a model through the backend that answers for it now."""
    found = Answer.objects.filter(evaluation=None)
    if not settings.TRACE_BACKEND_URL:
        return found.filter(backend="")
    served = Q(model__run__base=POCKET, backend="") | ~Q(model__run__base=POCKET) & Q(backend=SERVER)
    return found.filter(Q(model=None) | served)


def rule_answers() -> QuerySet[Answer]:
    return asked_alone().filter(item__origin=LabelledRequest.Origin.RULE_TEST)


class RuleResult(NamedTuple):
    """What a model answered to the tests of a rule version."""

    model: int
    version: int
    rule: int
    code: str
    passed: int
    total: int


def rule_results(**which: Any) -> list[RuleResult]:
    """In the order of codes and versions; `which`: of `rule_answers`. One query."""
    rule = ("item__version__rule", "item__version__rule__code")
    rows = rule_answers().filter(**which).values_list("model", "item__version", *rule)
    counted = rows.annotate(passed=Count("pk", filter=Q(scores__passed=1)), total=Count("pk"))
    return [RuleResult(*row) for row in counted.order_by(rule[1], "item__version", "model")]


def kept_out_answers(model: Model | None) -> QuerySet[Answer]:
    """Of a model, to approved samples outside its snapshot and to reported requests; none of no model."""
    origins = (LabelledRequest.Origin.SAMPLE, LabelledRequest.Origin.REPORT)
    return asked_alone().filter(model__in=[model] if model else [], item__origin__in=origins)


def backend_words(of: Evaluation) -> str:
    return f"through {of.backend}" if of.backend else "by our own engine"


def clause_words(of: Evaluation) -> str:
    """With which clauses of rules it answered; empty where nobody knows."""
    if of.model_id is None:
        return "by descriptions alone, without clauses of rules"
    if of.clauses is None:
        return ""
    if not of.clauses["clauses"]:
        return "without clauses of rules"
    rules, untrained = of.clauses["rules"], of.clauses["untrained"]
    trained = f"{untrained} of them not trained" if untrained else "all of them trained"
    return f"with {of.clauses['clauses']} clauses of {rules} rule{'' if rules == 1 else 's'}, {trained}"


def mixed_backends(shown: Iterable[Evaluation]) -> str:
    """Which models answered how, as a sentence, where figures beside each other have more than one backend."""
    how: dict[str, set[int]] = {}
    for of in shown:
        if of.model_id is not None:
            how.setdefault(backend_words(of), set()).add(of.model_id)
    parts = [f"{words} model {', '.join(map(str, sorted(models)))}" for words, models in sorted(how.items())]
    return f"Not all of these were answered by one engine: {'; '.join(parts)}." if len(parts) > 1 else ""


def newest_benchmarks() -> list[Benchmark]:
    """The newest version of every benchmark."""
    return list(Benchmark.objects.order_by("name", "-version").distinct("name"))


def benchmark_rows(benchmark: Benchmark) -> list[dict[str, Any]]:
    """The items as engines and metrics read them; the id is the row's."""
    rows = LabelledRequest.objects.filter(benchmark=benchmark).order_by("position")
    return [{**row.data, "id": str(row.pk), "domain": row.domain} for row in rows]


def retrieval_benchmarks(tests: Iterable[Benchmark]) -> list[Benchmark]:
    """Those a model is shown on, a tier at a time; development halves are left out."""
    found = [test for test in tests if test.kind == Benchmark.Kind.PRB and not test.is_development]
    return sorted(found, key=lambda test: TIERS.index(test.tier))


def guessing(shown: Iterable[Evaluation], probe: Benchmark, domain: str = ALL) -> dict[str, Any]:
    """{"mean", "n"}: the chance on the questions that the shown evaluations of a probe count, which are not all of its
    own; empty where none has any."""
    found = next(
        (slices(of)[domain] for of in shown if of.benchmark_id == probe.pk and domain in slices(of)), None
    )
    return {"mean": found["random"], "n": found["n"]} if found else {}


def model_name(model: Model | None) -> str:
    """How a row is called: the cell as the paper writes it, untrained base and Stage 1 by name."""
    if model is None:
        return "embedding baseline"
    run = model.run
    if run.memo == run.retrieval == Run.Memo.NONE:
        return f"untrained base {run.base}"
    return f"{run.cell} Stage 1 only" if run.retrieval == Run.Retrieval.NONE else run.cell


def slices(evaluation: Evaluation) -> dict[str, Any]:
    """{domain or all: {all or exceptions: figures}} (probes: {domain or all: figures}); with the groups of rules and
    clusters see `coverage.grouped`."""
    metrics: dict[str, Any] = evaluation.metrics or {}
    found: dict[str, Any] = metrics.get("slices", metrics)
    if evaluation.decode == Evaluation.Decode.LETTERS:
        return found
    return {
        domain: {name: groups[name] for name in (ALL, EXCEPTIONS) if name in groups}
        for domain, groups in found.items()
    }


# what a trace cites: its name among the numbers, what it is called, and the filter of the answers it counts
CITATIONS = (
    ("cited", "cites a rule", "the trace names any rule", "yes"),
    (
        "correct_rule",
        "the right rule",
        "names the rule that decides the request; n: requests a rule decides",
        "right",
    ),
    (
        "correct_rule_when_cited",
        "right when citing",
        "of the traces that name a rule, where one decides",
        "right",
    ),
    ("recall_when_cited", "recall when cited", "share of the right tools found where a rule is named", "yes"),
    ("recall_when_not_cited", "recall when not cited", "the same where none is named", "no"),
)


def metrics_of(evaluation: Evaluation) -> tuple[str, ...]:
    """What its answers are measured by; the first says whether one is right."""
    if evaluation.decode == Evaluation.Decode.LETTERS:
        return ("accuracy",)
    if evaluation.benchmark.kind == Benchmark.Kind.OUTSIDE:
        return ("refused",)
    return RANKED_METRICS if evaluation.decode in RANKED_DECODES else LIST_METRICS


def slice_rows(
    evaluation: Evaluation, found: Mapping[str, Any], same: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Every number of one evaluation, all domains first: `figure_row` of each domain (`over`) and group (`name`)."""
    rows = []
    for domain in sorted(found, key=lambda name: (name != ALL, name)):
        is_probe = evaluation.decode == Evaluation.Decode.LETTERS
        groups = {ALL: found[domain] | {"metrics": found[domain]}} if is_probe else found[domain]
        for group in (one for one in (ALL, *LINES) if one in groups):
            chosen = {name: value for name, value in (("domain", domain), ("group", group)) if value != ALL}
            embedding = (same or {}).get(domain, {}).get(group, {}).get("embedding", {})
            row = figure_row(evaluation, groups[group], chosen)
            rows.append(row | {"over": domain, "name": group, "same_length": embedding})
    return rows


def facet_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The same by what its requests say of themselves: tier, style, side of the rule (`over`), each value (`name`)."""
    return [
        figure_row(evaluation, figures, {facet: value}) | {"over": facet, "name": value}
        for facet, values in ((evaluation.metrics or {}).get("facets") or {}).items()
        for value, figures in values.items()
    ]


def figure_row(
    evaluation: Evaluation, figures: Mapping[str, Any], chosen: Mapping[str, str]
) -> dict[str, Any]:
    """The numbers of some of its requests; what the decoding does not define is empty or None. `cells`: (metric, {mean,
    low, high, n} or nothing) of `metrics_of`; `citations`: (mean with its interval and n, the query of the predictions
    it counts) in the order of CITATIONS; `filters`: the query of its predictions, to which more can be added."""
    metrics, filters = figures.get("metrics", {}), f"{urlencode(chosen)}&" if chosen else ""
    off = figures.get("off_vocabulary") if evaluation.decode == "trace-free" else None
    has_traces = evaluation.decode in TRACED and evaluation.benchmark.kind != Benchmark.Kind.OUTSIDE
    # evaluations that were stored before it was counted have none
    following = figures.get("following") or {"n": 0, "not_measured": figures["n"]}
    cited = figures.get("citation") or {}
    rate = {"mean": cited.get("rate"), "n": figures["n"]}  # what was stored before it had an interval
    return {
        "n": figures["n"],
        "cells": [(name, metrics.get(name, {})) for name in metrics_of(evaluation)],
        "random": figures.get("random"),
        "off_vocabulary": off and off["rate"],
        "citation": cited.get("rate"),
        "citations": [
            (cited.get(name) or rate, f"{filters}cited={which}") for name, *_, which in CITATIONS if cited
        ],
        "filters": filters,
        "following": {**following, "filters": filters} if has_traces else None,
    }
