"""What closing gaps would save and take: clusters and suggested rules that somebody picks, and figures that say what
they rest on.

A picked cluster stands for all its pairs that no rule tells apart, a picked suggestion for those of them that it tells
apart as it is drafted. Wrong answers are read from the count, as old as its `at`; what nobody measured has no
value. The arithmetic is core/confusion.py; what samples cost is of synthesis/generate/estimates.py.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone
from django.utils.http import urlencode

from catalog.models import Cluster
from evaluation.core.confusion import Tally, Term, WhatIf, expected, gap_terms, what_if
from evaluation.core.coverage import UNCOVERED, Pair, pair_of
from evaluation.coverage.counted import ClusterCount, ToolCount, counted
from evaluation.coverage.gaps import GAPS, clusters, narrowed, side_of, with_clusters
from evaluation.coverage.pages import model_words
from evaluation.models import DomainPoint
from rules.models import RuleSuggestion
from rules.suggestions.selectors import proposed, told_apart
from synthesis.core.agreement import FEWEST, Bounds
from synthesis.generate.estimates import Estimate, Figure, Reading, estimate_new, estimate_reading
from synthesis.models import LoopSettings
from trace_site.lib.errors import TraceError
from trace_site.paging import Page, number_of, numbers_of
from training.models import Run
from training.runs.estimates import Estimator
from training.runs.selectors import readable_recipe

SIZE = 25  # gaps of a page
MOST = 100  # clusters, and as many suggestions, of one choice
SHOWN_DRAFTS = 3  # suggestions of a gap


@dataclass(frozen=True, slots=True)
class Choice:
    """`gaps`: ids of clusters, `rules`: of suggestions."""

    domain: str
    gaps: tuple[int, ...] = ()
    rules: tuple[int, ...] = ()

    @classmethod
    def read(cls, domain: str, given: QueryDict) -> "Choice":
        """From `gap=1&gap=2` or `gap=1,2`, and `rule` alike. Raises `bad_input` for too many."""

        def picked(name: str) -> tuple[int, ...]:
            texts = (part.strip() for text in given.getlist(name) for part in text.split(","))
            ids = tuple(dict.fromkeys(numbers_of(texts)))
            if len(ids) > MOST:
                message = f"{len(ids)} are picked at once; at most {MOST} can be."
                raise TraceError(message, code="bad_input", where=name, hint="Pick fewer of them.")
            return ids

        return cls(domain, picked("gap"), picked("rule"))

    def __len__(self) -> int:
        return len(self.gaps) + len(self.rules)

    @property
    def query(self) -> str:
        picked = [*(("gap", pk) for pk in self.gaps), *(("rule", pk) for pk in self.rules)]
        return urlencode([("domain", self.domain), *picked])


class Draft(NamedTuple):
    """A suggested rule: `pairs` of the gap that no rule tells apart and the draft does."""

    row: RuleSuggestion
    gap: ClusterCount
    pairs: frozenset[Pair]


@dataclass(frozen=True, slots=True)
class Pick:
    """`pairs` that would be told apart; `misses`: wrong answers there, None where nobody measured; `measured` of the
    `tools` with such a pair, by `n` labelled requests, `wrong` of them there."""

    gap: ClusterCount
    draft: Draft | None
    pairs: int
    terms: Sequence[Term]
    tools: frozenset[int]
    n: int

    @property
    def misses(self) -> Bounds | None:
        return expected(self.terms)

    @property
    def measured(self) -> int:
        return sum(term.n > 0 for term in self.terms)

    @property
    def wrong(self) -> int:
        return sum(term.wrong for term in self.terms)


def gap_page(domain: str, after: str = "") -> Page:
    """Those behind a rank; one query."""
    start = number_of(after, 9)
    found = clusters(domain, after=start, size=SIZE + 1)
    rows, more = found[:SIZE], len(found) > SIZE
    return Page(rows, after if start else "", str(rows[-1].rank) if more else None)


def drafts_in(domain: str, rows: Iterable[ClusterCount]) -> list[Draft]:
    """Suggested rules whose target lies in these gaps, the surest first; at most three queries."""
    by_id = {row.pk: row for row in rows}
    held = {tool for row in by_id.values() for tool in row.open_tools}
    return _drafts(_suggested(proposed([domain]).filter(target__in=held)), by_id) if held else []


def _suggested(rows: QuerySet[RuleSuggestion]) -> list[RuleSuggestion]:
    return list(rows.select_related("target").order_by("-score", "pk"))


def _drafts(found: Sequence[RuleSuggestion], gaps_by_id: Mapping[int, ClusterCount]) -> list[Draft]:
    """Those in one of these gaps; two queries."""
    apart = told_apart(found)
    home = {tool: pk for pk, gap in gaps_by_id.items() for tool in gap.cluster.tool_ids}
    homes = {home[row.target_id] for row in found if row.target_id in home}
    edges = {
        pk: frozenset(pair_of(a, b) for a, b, *_ in stored)
        for pk, stored in Cluster.objects.filter(pk__in=homes).values_list("pk", "edges")
    }
    # no published rule holds a pair of a suggestion that is still proposed, so each is an open one
    return [
        Draft(row, gaps_by_id[home[row.target_id]], apart[row.pk] & edges[home[row.target_id]])
        for row in found
        if row.target_id in home
    ]


@dataclass(frozen=True)
class Asked:
    """What tools were asked. `wrong`: {(tool, pair): wrong answers at this open pair of it}; `golds`: the right tools
    of each request that one of them answers."""

    tools: dict[int, ToolCount]
    wrong: Counter[tuple[int, Pair]]
    golds: list[list[int]]

    @classmethod
    def of(cls, tools: Collection[int], side: str) -> "Asked":
        found, wanted = counted(), set(tools)
        wrong: Counter[tuple[int, Pair]] = Counter()
        for row in found.outcomes:
            tool, chosen, at = row.miss(side)
            if at == UNCOVERED and tool in wanted and tool and chosen:
                wrong[tool, pair_of(tool, chosen)] += 1
        asked = (row.gold for row in found.outcomes if row.wrong(side) is not None)
        golds = [gold for gold in asked if not wanted.isdisjoint(gold)]
        return cls({tool: row for tool, row in found.tools.items() if tool in wanted}, wrong, golds)

    def terms(self, whole: Collection[int], pairs: Collection[Pair] = ()) -> list[Term]:
        """Of tools at all their open pairs (`whole`), and of the others at these."""
        at: Counter[int] = Counter()
        for pair in pairs:
            for tool in pair:
                at[tool] += self.wrong[tool, pair]
        every = sorted({*whole, *at})
        tallies = {
            tool: Tally(row.n, row.wrong, row.uncovered if tool in whole else at[tool], row.covered)
            for tool, row in self.tools.items()
        }
        return gap_terms(every, tallies, {tool: row.traffic for tool, row in self.tools.items()})

    def pick(self, gap: ClusterCount, draft: Draft | None = None) -> Pick:
        """A gap at all its open pairs, or one of its drafts."""
        if draft is None:
            tools, terms, pairs = frozenset(gap.open_tools), self.terms(gap.open_tools), gap.uncovered
        else:
            tools, terms = frozenset(chain.from_iterable(draft.pairs)), self.terms((), draft.pairs)
            pairs = len(draft.pairs)
        return Pick(gap, draft, pairs, terms, tools, sum(not tools.isdisjoint(gold) for gold in self.golds))


# A choice, and what it comes to.


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
    """`left_out`: how many of the choice are no gaps of now, or rules that are no longer suggested."""

    choice: Choice
    figures: DomainPoint
    picks: list[Pick]
    left_out: int
    pairs: int
    found: WhatIf
    requests: str  # that wrong answers are counted in
    labelled: int  # requests that the wrong answers are measured on
    rules: int
    samples: int
    saves: list[Line]
    takes: list[Line]

    @property
    def drafts(self) -> list[Draft]:
        return [pick.draft for pick in self.picks if pick.draft]

    @property
    def lines(self) -> list[Line]:
        return [*self.saves, *self.takes]

    @property
    def is_thin(self) -> bool:
        """Whether it rests on so few labelled requests that it should be said."""
        return self.labelled < FEWEST


def plan_of(choice: Choice, figures: DomainPoint) -> Plan:
    """A constant number of queries."""
    wanted = _suggested(proposed([choice.domain]).filter(pk__in=choice.rules))
    gaps = narrowed(choice.domain, GAPS)
    holding = Cluster.objects.filter(
        pk__in=[row.pk for row in gaps], tool_ids__overlap=[row.target_id for row in wanted]
    )
    chosen = {*choice.gaps, *holding.values_list("pk", flat=True)}
    around = {row.pk: row for row in with_clusters([row for row in gaps if row.pk in chosen])}
    picked = {pk: row for pk, row in around.items() if pk in choice.gaps}
    drafts = _drafts(wanted, around)
    whole = {tool for row in picked.values() for tool in row.open_tools}
    pairs = {pair for draft in drafts for pair in draft.pairs}
    asked = Asked.of(whole | {tool for pair in pairs for tool in pair}, side_of(figures))
    picks = [
        *(asked.pick(row) for row in picked.values()),
        *(asked.pick(draft.gap, draft) for draft in drafts),
    ]
    alone = {pair for draft in drafts if draft.gap.pk not in picked for pair in draft.pairs}
    terms = asked.terms(whole, alone)
    found = what_if(terms, Tally(n=figures.covered_n, covered=figures.covered_wrong))
    labelled = len(asked.golds)  # each once
    # a suggestion is a rule; a cluster takes one more where suggestions leave some of its pairs open
    said = {pk: {pair for draft in drafts if draft.gap.pk == pk for pair in draft.pairs} for pk in picked}
    rest = sum(row.uncovered > len(said[pk]) for pk, row in picked.items())
    rules, per_rule = len(drafts) + rest, LoopSettings.now().per_rule
    cost, reading = estimate_new([per_rule] * rules), estimate_reading(per_rule * rules)
    return Plan(
        choice,
        figures,
        sorted(picks, key=lambda pick: (pick.gap.rank, pick.draft is not None)),
        len(choice) - len(picks),
        sum(row.uncovered for row in picked.values()) + len(alone),
        found,
        _requests(asked, figures),
        labelled,
        rules,
        per_rule * rules,
        _saves(found, terms, labelled, figures),
        _takes(rules, len(drafts), per_rule, cost, reading, figures),
    )


def _saves(found: WhatIf, terms: Sequence[Term], labelled: int, figures: DomainPoint) -> list[Line]:
    date = f"counted {timezone.localtime(figures.at):%-d %b %Y}"
    now = (
        f"{sum(term.wrong for term in terms)} of {labelled} labelled requests get such a look-alike from the "
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


def _takes(
    rules: int, drafted: int, per_rule: int, cost: Estimate, reading: Reading, figures: DomainPoint
) -> list[Line]:
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


def _requests(asked: Asked, figures: DomainPoint) -> str:
    """What wrong answers are counted in, in words."""
    measured = [row for row in asked.tools.values() if row.n]
    recorded, ones = sum(row.traffic for row in measured), sum(not row.traffic for row in measured)
    days = f"{figures.window_from:%-d %b} to {figures.window_to:%-d %b %Y}"
    if not recorded:
        return f"{ones} request{'s' if ones != 1 else ''}, one a tool: the log of {days} holds none of them"
    one_each = f"one for each of {ones} tool{'s' if ones != 1 else ''} without any"
    return f"{recorded:,} requests recorded {days}{f', and {one_each}' if ones else ''}"
