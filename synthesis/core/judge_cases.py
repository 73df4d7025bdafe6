"""A rule's cases as the judge knows them, read once per rule and its tools: nothing here depends on a query."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from synthesis.core.clauses import Case, cases
from synthesis.core.judge_stems import rarity, stems
from synthesis.core.queries import RuleText, ToolText, by_name

PART = re.compile(r"(?<=[.;])\s+|,\s+(?:and|but|while|whereas)\s+")


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A case with the words it is known by.

    `condition`: of its condition; `told`: of the rule's sentences on its tool; `every`: those, condition and signals;
    `stated`: what may state it in a trace.
    """

    case: Case
    condition: frozenset[str]
    told: frozenset[str]
    every: frozenset[str]
    stated: frozenset[str]

    @property
    def when(self) -> str:
        return self.case.clause.when

    @property
    def tool(self) -> str:
        return self.case.clause.route_to


@dataclass(frozen=True, slots=True, eq=False)
class KnownRule:
    """`live`: its tools in the pool; `weights`: rarity of words over the cases; `text`: all that a trace may quote."""

    cases: tuple[Known, ...]
    live: tuple[ToolText, ...]
    weights: dict[str, float]
    text: str


def known_rule(rule: RuleText, pool: Sequence[ToolText]) -> KnownRule:
    known = by_name(pool)
    return _known_rule(rule, tuple(known.get(name) for name in rule.tools))


@lru_cache(maxsize=2048)
def _known_rule(rule: RuleText, tools: tuple[ToolText | None, ...]) -> KnownRule:
    live = tuple(tool for tool in tools if tool is not None)
    # what the text of a rule without clauses says at all may be said of any of its cases
    more = frozenset() if rule.clauses else stems(_nameless(rule.text, rule.tools))
    known, said = [], [rule.text, rule.code.replace("_", " ")]
    for case in cases(rule, by_name(live)):
        own = frozenset[str]().union(*map(stems, (case.clause.when, *case.clause.signals)))
        told = frozenset[str]().union(
            *(
                stems(_nameless(part, rule.tools))
                for part in PART.split(rule.text)
                if _names(part, case.clause.route_to, rule.tools)
            )
        )
        known.append(Known(case, stems(case.clause.when), told, own | told, own | told | more))
        said.append(f"{case.clause.when} {' '.join(case.clause.signals)}")
    return KnownRule(tuple(known), live, rarity(one.every for one in known), " ".join(said))


def _nameless(text: str, names: Iterable[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    return text


def _names(text: str, tool: str, others: Iterable[str]) -> bool:
    """Whether a text names the tool, apart from longer names that hold it."""
    return tool in _nameless(text, (name for name in others if tool in name and name != tool))
