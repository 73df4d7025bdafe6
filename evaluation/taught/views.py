"""What the rules taught, in single requests: the page before and after, and a rule's own requests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from catalog.models import Tool
from evaluation.core.metrics import cited_codes
from evaluation.models import BenchmarkItem, Prediction
from evaluation.taught.selectors import Part, Taught, rule_help, taught
from rules.models import Rule
from synthesis.samples.checks import Span, trace_spans

# Ten requests before and after: what the control answered, what the champion answers now, and both traces.
#
# In: filters and a seed. Out: the requests that the seed draws from stored predictions of shown benchmarks, and how
# many there are of each outcome. An answer is right when its first tool is one of the right tools.


DRAWN = 10
SHOWN = 3  # tools of an answer
OUTCOMES = {
    "fixed": ("fixed by the rules", "good"),
    "broken": ("broken by the rules", "bad"),
    "right": ("same: both right", "info"),
    "wrong": ("same: both wrong", "idle"),
}
FILTERS = {
    "fixed": ("fixed by the rules", ("fixed",)),
    "broken": ("broken by the rules", ("broken",)),
    "same": ("same", ("right", "wrong")),
    "right": ("same: both right", ("right",)),
    "wrong": ("same: both wrong", ("wrong",)),
}


@dataclass(frozen=True, slots=True)
class Answer:
    tools: list[tuple[str, bool]]
    right: bool
    spans: list[Span]
    cited: list[str]
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class Pair:
    item: BenchmarkItem
    part: Part
    outcome: str
    rule: Rule | None
    before: Answer
    after: Answer

    @property
    def said(self) -> tuple[str, str]:
        return OUTCOMES[self.outcome]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that both models answered."""

    part: Part
    item: int
    domain: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Drawing:
    taught: Taught
    pairs: list[Pair]
    counts: list[tuple[Part, dict[str, int]]]  # of each outcome in the domain, a tier at a time
    found: int  # requests the seed draws from
    tiers: list[Part]
    domains: list[str]


def draw(*, seed: int, show: str = "", tier: str = "", domain: str = "") -> Drawing:
    """The same seed and filters draw the same requests for as long as the champion and its control stay."""
    known = taught()
    parts = _with_traces(known)
    everything = list(_asked(parts))
    chosen = [
        one for one in everything if tier in ("", one.part.benchmark.tier) and domain in ("", one.domain)
    ]
    wanted = [one for one in chosen if show not in FILTERS or one.outcome in FILTERS[show][1]]
    drawn = Random(seed).sample(wanted, min(DRAWN, len(wanted)))
    return Drawing(
        known,
        _pairs(drawn),
        [(part, _counted(part, chosen)) for part in parts if tier in ("", part.benchmark.tier)],
        len(wanted),
        [part for part in parts if part.benchmark.tier],
        sorted({one.domain for one in everything}),
    )


def _counted(part: Part, asked: Iterable[Asked]) -> dict[str, int]:
    return dict.fromkeys(OUTCOMES, 0) | Counter(one.outcome for one in asked if one.part is part)


def _with_traces(known: Taught) -> list[Part]:
    """Of each benchmark the decoding with a trace that both were asked with, else the other."""
    found: dict[int, Part] = {}
    for part in known.parts:
        if part.control is not None:
            found.setdefault(part.benchmark.pk, part)
    return list(found.values())


def _asked(parts: Sequence[Part]) -> Iterable[Asked]:
    """In the order of the benchmarks and their items; one query."""
    sides: dict[int, dict[int, bool]] = {
        one.pk: {} for part in parts for one in (part.champion, part.control) if one
    }
    rows = Prediction.objects.filter(evaluation__in=sides).order_by()
    domains: dict[int, str] = {}
    for evaluation, item, domain, scores in rows.values_list("evaluation", "item", "item__domain", "scores"):
        sides[evaluation][item], domains[item] = scores["hit@1"] >= 1, domain
    for part in parts:
        assert part.control is not None
        before, after = sides[part.control.pk], sides[part.champion.pk]
        for item in sorted(before.keys() & after.keys()):
            yield Asked(part, item, domains[item], _outcome(before[item], after[item]))


def _outcome(before: bool, after: bool) -> str:
    if before == after:
        return "right" if after else "wrong"
    return "fixed" if after else "broken"


def _pairs(drawn: Sequence[Asked]) -> list[Pair]:
    items = [one.item for one in drawn]
    evaluations = {side.pk for one in drawn for side in (one.part.champion, one.part.control) if side}
    rows = Prediction.objects.filter(evaluation__in=evaluations, item__in=items).select_related(
        "item", "evaluation"
    )
    by = {(row.evaluation_id, row.item_id): row for row in rows}
    names, rules = _tools(by.values()), {rule.code: rule for rule in _rules(by.values())}
    pairs = []
    for one in drawn:
        assert one.part.control is not None
        before, after = (by[side.pk, one.item] for side in (one.part.control, one.part.champion))
        rule = rules.get(after.item.data.get("rule", ""))
        answers = (_answer(row, names, rules) for row in (before, after))
        pairs.append(Pair(after.item, one.part, one.outcome, rule, *answers))
    return pairs


def _rules(rows: Iterable[Prediction]) -> Iterable[Rule]:
    """Those that decide a request or stand in a trace."""
    known = Rule.objects.values_list("code", flat=True)
    texts = " ".join(f"{row.output.get('trace', '')} {row.item.data.get('rule', '')}" for row in rows)
    return Rule.objects.filter(code__in=cited_codes(texts, known)).select_related("published")


def _tools(rows: Iterable[Prediction]) -> list[str]:
    """Names a trace may mention: the tools of the APIs that an answer names or that are right."""
    named = {name for row in rows for name in (*row.item.data["tools"], *row.output.get("tools", ()))}
    return list(
        Tool.objects.filter(api__in={name.split("/")[0] for name in named}).values_list("name", flat=True)
    )


def _answer(row: Prediction, names: Sequence[str], rules: dict[str, Rule]) -> Answer:
    gold, tools = row.item.data["tools"], row.output.get("tools", [])
    trace = str(row.output.get("trace") or "")
    cited = cited_codes(trace, rules)
    return Answer(
        [(name, name in gold) for name in tools[:SHOWN]],
        row.scores["hit@1"] >= 1,
        trace_spans(trace, names, gold, cited) if trace else [],
        cited,
        row,
    )


SEED = 0  # of the first ten


@require_GET
def before_after(request: HttpRequest) -> HttpResponse:
    """Ten requests, drawn by the seed in the address, with the answers of the control and of the champion."""
    filters = {name: request.GET.get(name, "") for name in ("show", "tier", "domain")}
    given = request.GET.get("seed", "")
    seed = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else SEED
    drawing = draw(seed=seed, **filters)
    used = {name: value for name, value in filters.items() if value}
    counted = [
        (
            part,
            sum(counts.values()),
            [(OUTCOMES[show][0], count, _query(used, part, show)) for show, count in counts.items()],
        )
        for part, counts in drawing.counts
    ]
    context = {
        "drawing": drawing,
        "taught": drawing.taught,
        "seed": seed,
        "filters": filters,
        "counted": counted,
        "outcomes": OUTCOMES.values(),
        "shows": [(show, label) for show, (label, _) in FILTERS.items()],
        "another": urlencode(used | {"seed": seed + 1}),
    }
    return render(request, "evaluation/before_after.html", context)


def _query(used: dict[str, str], part: Part, show: str) -> str:
    """The filters that lead to what a count counts."""
    return urlencode(used | {"show": show, "tier": part.benchmark.tier})


@require_GET
def did_rule_help(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment for a rule's page: what its author asks after a training."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=rule_id)
    return render(request, "evaluation/_rule_help.html", {"rule": rule, "help": rule_help(rule)})
