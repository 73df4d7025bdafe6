"""Did my rule help? A rule's own requests and tests: champion beside control and embedding, and how it is cited.

In: a rule. Out: a row a tier, each number of which is a list of stored predictions. A request is the rule's own when
its benchmark says that the rule decides it; it is answered right when the first tool is one of the right tools.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count
from django.urls import reverse

from evaluation.core.metrics import ALL, cited_codes
from evaluation.core.taught import Cell, Query, cells
from evaluation.models import Evaluation, Prediction, RuleTestResult
from evaluation.results.predictions import cites_needlessly
from evaluation.taught.selectors import Part, Taught, taught
from rules.models import Rule
from synthesis.models import SnapshotSample
from training.models import Model

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
