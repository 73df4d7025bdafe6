"""What the rules taught, in single requests: the page before and after, and a rule's own requests.

Before and after: ten requests, what the control answered, what the champion answers now, and both traces. Drawn by a
seed from stored answers of shown benchmarks. An answer is right when its first tool is one of the right tools.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from evaluation.core.coverage import EXCEPTIONS, LINES
from evaluation.core.items import is_exception
from evaluation.core.metrics import cited_codes
from evaluation.coverage.grouped import sorting_now
from evaluation.models import Answer, LabelledRequest
from evaluation.taught.selectors import Taught, TaughtPart, rule_help, taught
from rules.models import Rule
from synthesis.samples.checks import tools_near, trace_spans
from trace_site.paging import number_of

DRAWN = 10
SHOWN = 3  # tools of an answer
# by whether the control and the champion are right: what it is called, and its tone
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


class AnsweredRequest(NamedTuple):
    """One request that both models answered."""

    part: TaughtPart
    item: int
    domain: str
    group: str
    outcome: str
    is_exception: bool

    def lies_in(self, group: str) -> bool:
        return self.is_exception if group == EXCEPTIONS else group in ("", self.group)


@dataclass(frozen=True, slots=True)
class DrawnRequest:
    item: LabelledRequest
    part: TaughtPart
    group: str
    outcome: str
    said: tuple[str, str]
    rule: Rule | None
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drawing:
    taught: Taught
    pairs: list[DrawnRequest]
    counts: list[tuple[TaughtPart, dict[str, int]]]  # of each outcome in the domain, a tier at a time
    found: int  # requests the seed draws from
    tiers: list[TaughtPart]
    domains: list[str]
    groups: list[str]


def draw(*, seed: int, show: str = "", tier: str = "", domain: str = "", group: str = "") -> Drawing:
    """The same seed and filters draw the same requests for as long as the champion and its control stay."""
    known = taught()
    by_benchmark: dict[
        int, TaughtPart
    ] = {}  # the decoding with a trace that both were asked with, else the other
    for part in known.parts:
        if part.control is not None:
            by_benchmark.setdefault(part.benchmark.pk, part)
    parts = list(by_benchmark.values())
    everything = _answered(parts)
    chosen = [
        one
        for one in everything
        if tier in ("", one.part.benchmark.tier) and domain in ("", one.domain) and one.lies_in(group)
    ]
    wanted = [one for one in chosen if show not in FILTERS or one.outcome in FILTERS[show][1]]
    counts = Counter((one.part.champion.pk, one.outcome) for one in chosen)
    return Drawing(
        known,
        _drawn(Random(seed).sample(wanted, min(DRAWN, len(wanted)))),
        [
            (part, {outcome: counts[part.champion.pk, outcome] for outcome in OUTCOMES})
            for part in parts
            if tier in ("", part.benchmark.tier)
        ],
        len(wanted),
        [part for part in parts if part.benchmark.tier],
        sorted({one.domain for one in everything}),
        [group for group in LINES if any(one.lies_in(group) for one in everything)],
    )


def _answered(parts: Sequence[TaughtPart]) -> list[AnsweredRequest]:
    """In the order of the benchmarks and their items; one query."""
    right: dict[int, dict[int, bool]] = {
        one.pk: {} for part in parts for one in (part.champion, part.control) if one
    }
    rows = Answer.objects.filter(evaluation__in=right).order_by()
    about: dict[int, tuple[str, bool]] = {}  # domain of an item, and whether it is an exception
    columns = ("evaluation", "item", "item__domain", "scores", "item__data__side")
    for evaluation, item, domain, scores, side in rows.values_list(*columns):
        right[evaluation][item] = scores["hit@1"] >= 1
        about[item] = (domain, is_exception({"side": side}))
    found, sorting = [], sorting_now()
    for part in parts:
        assert part.control is not None
        groups = sorting.of(part.benchmark.pk)
        before, after = right[part.control.pk], right[part.champion.pk]
        for item in sorted(before.keys() & after.keys()):
            if before[item] == after[item]:
                outcome = "right" if after[item] else "wrong"
            else:
                outcome = "fixed" if after[item] else "broken"
            domain, exception = about[item]
            found.append(AnsweredRequest(part, item, domain, groups[item], outcome, exception))
    return found


def _drawn(chosen: Sequence[AnsweredRequest]) -> list[DrawnRequest]:
    evaluations = {side.pk for one in chosen for side in (one.part.champion, one.part.control) if side}
    found = Answer.objects.filter(evaluation__in=evaluations, item__in=[one.item for one in chosen])
    rows = list(found.select_related("item", "evaluation"))
    named = {name for row in rows for name in (*row.item.data["tools"], *row.output.get("tools", ()))}
    names = tools_near(named, [str(row.output.get("trace") or "") for row in rows])
    # the rules that decide a request or stand in a trace
    texts = " ".join(f"{row.output.get('trace', '')} {row.item.data.get('rule', '')}" for row in rows)
    codes = cited_codes(texts, Rule.objects.values_list("code", flat=True))
    rules = {rule.code: rule for rule in Rule.objects.filter(code__in=codes).select_related("published")}

    def answer(row: Answer) -> dict[str, Any]:
        gold, trace = row.item.data["tools"], str(row.output.get("trace") or "")
        cited = cited_codes(trace, rules)
        return {
            "tools": [(name, name in gold) for name in row.output.get("tools", [])[:SHOWN]],
            "right": row.scores["hit@1"] >= 1,
            "spans": trace_spans(trace, names, gold, cited) if trace else [],
            "cited": cited,
            "answer": row,
        }

    by = {(row.evaluation_id, row.item_id): row for row in rows}
    drawn = []
    for one in chosen:
        assert one.part.control is not None
        before, after = (by[side.pk, one.item] for side in (one.part.control, one.part.champion))
        rule = rules.get(after.item.data.get("rule", ""))
        said, sides = OUTCOMES[one.outcome], (answer(before), answer(after))
        drawn.append(DrawnRequest(after.item, one.part, one.group, one.outcome, said, rule, *sides))
    return drawn


@require_GET
def before_after(request: HttpRequest) -> HttpResponse:
    """Ten requests, drawn by the seed in the address, with the answers of the control and of the champion."""
    filters = {name: request.GET.get(name, "") for name in ("show", "tier", "domain", "group")}
    seed = number_of(request.GET.get("seed", ""), 9)
    drawing = draw(seed=seed, **filters)
    used = {name: value for name, value in filters.items() if value}
    counted = []
    for part, counts in drawing.counts:
        links = [
            (OUTCOMES[show][0], count, urlencode(used | {"show": show, "tier": part.benchmark.tier}))
            for show, count in counts.items()
        ]
        counted.append((part, sum(counts.values()), links))
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


@require_GET
def did_rule_help(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Fragment for a rule's page: what its author asks after a training."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=rule_id)
    return render(request, "evaluation/_rule_help.html", {"rule": rule, "help": rule_help(rule)})
