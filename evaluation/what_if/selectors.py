"""What closing gaps would save and take: clusters that somebody picks, and figures that say what they rest on.

A picked cluster stands for all its pairs that no rule tells apart. Wrong answers are read from the count, as old as its
`at`; what nobody measured has no value. The arithmetic is core/confusion.py; what samples cost is of
synthesis/generate/estimates.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.utils import timezone
from django.utils.http import urlencode

from evaluation.core.confusion import Tally, Term, WhatIf, what_if
from evaluation.coverage.counted import ClusterCount, ToolCount, counted
from evaluation.coverage.gaps import GAPS, narrowed, side_of, suggested_for, with_clusters
from evaluation.coverage.pages import model_words
from evaluation.models import DomainPoint
from rules.models import RuleSuggestion
from synthesis.core.agreement import FEWEST, Bounds
from synthesis.generate.estimates import Figure, estimate_new, estimate_reading
from synthesis.models import LoopSettings
from trace_site.lib.errors import TraceError
from trace_site.paging import numbers_of
from training.models import Run
from training.runs.estimates import Estimator
from training.runs.selectors import readable_recipe

MOST = 100  # clusters of one choice


@dataclass(frozen=True, slots=True)
class Choice:
    """`gaps`: ids of clusters."""

    domain: str
    gaps: tuple[int, ...] = ()

    @classmethod
    def read(cls, domain: str, given: Iterable[str]) -> "Choice":
        """Ids, or several with commas between. Raises `bad_input` for too many."""
        texts = (part.strip() for text in given for part in text.split(","))
        ids = tuple(dict.fromkeys(numbers_of(texts)))
        if len(ids) > MOST:
            message = f"{len(ids)} are picked at once; at most {MOST} can be."
            raise TraceError(message, code="bad_input", where="gap", hint="Pick fewer of them.")
        return cls(domain, ids)

    @property
    def query(self) -> str:
        return urlencode([("domain", self.domain), *(("gap", pk) for pk in self.gaps)])


class Line(NamedTuple):
    """A figure of the plan. `unit`: answers, rules, samples, calls, tokens, money or seconds; `bounds`: the 95 %
    interval of wrong answers."""

    key: str
    title: str
    unit: str
    figure: Figure
    bounds: Bounds | None = None


@dataclass(frozen=True)
class Plan:
    """`left_out`: how many of the choice are no gaps of now; `suggested`: the strongest rule for each gap that has
    one."""

    choice: Choice
    figures: DomainPoint
    picks: list[ClusterCount]
    left_out: int
    found: WhatIf
    requests: str  # that wrong answers are counted in
    labelled: int  # requests that the wrong answers are measured on
    suggested: list[RuleSuggestion]
    samples: int
    saves: list[Line]
    takes: list[Line]

    @property
    def pairs(self) -> int:
        return sum(gap.uncovered for gap in self.picks)

    @property
    def lines(self) -> list[Line]:
        return [*self.saves, *self.takes]

    @property
    def is_thin(self) -> bool:
        """Whether it rests on so few labelled requests that it should be said."""
        return self.labelled < FEWEST


def plan_of(choice: Choice, figures: DomainPoint) -> Plan:
    """A constant number of queries."""
    picks = with_clusters([row for row in narrowed(choice.domain, GAPS) if row.pk in choice.gaps])
    side, count = side_of(figures), counted()
    tools = {tool: count.tools.get(tool, ToolCount()) for gap in picks for tool in gap.open_tools}
    terms = [Term(row.traffic or 1, row.uncovered, row.n) for row in tools.values()]
    found = what_if(terms, Tally(n=figures.covered_n, covered=figures.covered_wrong))
    asked = (row.gold for row in count.outcomes if row.wrong(side) is not None)
    labelled = sum(not tools.keys().isdisjoint(gold) for gold in asked)
    suggested = {row.pk: row for row in suggested_for([gap.open_tools for gap in picks]) if row}
    per_rule = LoopSettings.now().per_rule
    return Plan(
        choice,
        figures,
        picks,
        len(choice.gaps) - len(picks),
        found,
        _requests(tools.values(), figures),
        labelled,
        list(suggested.values()),
        per_rule * len(picks),
        _saves(found, terms, labelled, figures),
        _takes(len(picks), len(suggested), per_rule, figures),
    )


def _saves(found: WhatIf, terms: Sequence[Term], labelled: int, figures: DomainPoint) -> list[Line]:
    date = f"counted {timezone.localtime(figures.at):%-d %b %Y}"
    now = (
        f"{sum(term.wrong for term in terms)} of {labelled} labelled requests get such a look-alike from "
        f"{model_words(figures)}; {found.measured} of {found.tools} tools are measured, {date}"
    )
    told = f"{figures.covered_wrong} of {figures.covered_n} labelled requests"
    unasked = "not measured: no labelled request that was kept out of training concerns these tools"
    no_rate = "not measured: no labelled request concerns a pair that rules tell apart"

    def line(key: str, title: str, bounds: Bounds | None, basis: str) -> Line:
        if bounds is None:
            return Line(key, title, "answers", Figure(None, no_rate if found.misses else unasked))
        return Line(key, title, "answers", Figure(bounds.value, basis), bounds)

    return [
        line("misses", "Wrong answers now, at the pairs that would be told apart", found.misses, now),
        line(
            "left",
            "Still wrong then, as at pairs that rules tell apart today",
            found.left,
            f"{told} get a look-alike that rules tell apart, {date}",
        ),
        line("gain", "Fewer wrong answers", found.gain, "the first less the second"),
    ]


def _takes(rules: int, drafted: int, per_rule: int, figures: DomainPoint) -> list[Line]:
    cost, reading = estimate_new([per_rule] * rules), estimate_reading(per_rule * rules)
    more = (
        f"{drafted} suggested, {rules - drafted} to be written from nothing" if drafted else "one a cluster"
    )
    lines = [
        Line("rules", "Rules to write", "rules", Figure(rules, f"{more}; a large cluster may need more")),
        Line("samples", "Samples to write", "samples", Figure(cost.samples.value, f"{per_rule} a rule")),
        Line("to_read", "Samples to review", "samples", reading.ready),
        Line("approved", "Samples approved of them", "samples", reading.approved),
    ]
    if cost.calls.value:
        lines += [
            Line("calls", "Calls of the language model", "calls", cost.calls),
            Line("tokens", "Tokens", "tokens", cost.tokens),
        ]
    lines += [
        Line("money", "Cost", "money", cost.money),
        Line("writing", "Time to write", "seconds", cost.seconds),
        Line("reading", "Time to review, one person", "seconds", reading.seconds),
    ]
    runs = Run.objects.select_related("snapshot").defer("log_tail", "snapshot__manifest")
    run = runs.filter(model=figures.model_id).first() if rules and figures.model_id else None
    if run and (recipe := readable_recipe(run)):
        took = Estimator([run.base]).of(recipe, run.snapshot.counts, {}).seconds
        lines.append(Line("training", "One training, whatever is picked", "seconds", took))
    return lines


def _requests(tools: Iterable[ToolCount], figures: DomainPoint) -> str:
    """What wrong answers are counted in, in words."""
    measured = [row for row in tools if row.n]
    recorded, ones = sum(row.traffic for row in measured), sum(not row.traffic for row in measured)
    days = f"{figures.window_from:%-d %b} to {figures.window_to:%-d %b %Y}"
    if not recorded:
        return f"{ones} request{'s' if ones != 1 else ''}, one a tool: the log of {days} holds none of them"
    one_each = f"one for each of {ones} tool{'s' if ones != 1 else ''} without any"
    return f"{recorded:,} requests recorded {days}{f', and {one_each}' if ones else ''}"
