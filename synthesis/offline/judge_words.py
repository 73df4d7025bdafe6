"""The words that the judge compares: stems of texts, and a rule's cases by the words they are known by.

Nothing here depends on a query, so each rule is read once for all its samples.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from synthesis.core.clauses import Case, cases
from synthesis.core.queries import RuleText, ToolText, by_name
from synthesis.core.words import AnyCase, content_stems

PART = re.compile(r"(?<=[.;])\s+|,\s+(?:and|but|while|whereas)\s+")
NOT = AnyCase(
    r"\b(?:no|not|never|without|isn't|aren't|wasn't|cannot|nor)\s+(?:an?\s|the\s|yet\s|any\s)?(\w+)"
)


@lru_cache(maxsize=50_000)
def stems(text: str) -> frozenset[str]:
    """Content words by their first six letters; negated words are other words."""
    refused = plain_stems(" ".join(match.group(1) for match in NOT.finditer(text)))
    if not refused:
        return plain_stems(text)
    return plain_stems(NOT.remove(text)) | {f"no {word}" for word in refused}


@lru_cache(maxsize=50_000)
def plain_stems(text: str) -> frozenset[str]:
    return frozenset(one[:6] for one in content_stems(text) if len(one) > 1)


def union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


def rarity(sets: Iterable[frozenset[str]]) -> dict[str, float]:
    """Words by how few of the sets hold them; a word that all hold decides nothing.

    Sums over these weights use fsum: sets are walked in another order in every process, and a plain sum would
    differ in its last bit, which is enough to decide a tie otherwise.
    """
    groups = list(sets)
    counts = Counter(word for group in groups for word in group)
    return {word: math.log((len(groups) + 0.5) / count) for word, count in counts.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A case and its words.

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
    return _known_rule(rule, tuple(known[name] for name in rule.tools if name in known))


@lru_cache(maxsize=2048)
def _known_rule(rule: RuleText, tools: tuple[ToolText, ...]) -> KnownRule:
    # what the text of a rule without clauses says at all may be said of any of its cases
    more = frozenset() if rule.clauses else stems(_nameless(rule.text, rule.tools))
    parts, known, said = PART.split(rule.text), [], [rule.text, rule.code.replace("_", " ")]
    for case in cases(rule, by_name(tools)):
        clause = case.clause
        longer = [name for name in rule.tools if clause.route_to in name and name != clause.route_to]
        mine = [part for part in parts if clause.route_to in _nameless(part, longer)]
        told = union(stems(_nameless(part, rule.tools)) for part in mine)
        every = told.union(*map(stems, (clause.when, *clause.signals)))
        known.append(Known(case, stems(clause.when), told, every, every | more))
        said += [clause.when, *clause.signals]
    return KnownRule(tuple(known), tools, rarity(one.every for one in known), " ".join(said))


def _nameless(text: str, names: Iterable[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    return text
