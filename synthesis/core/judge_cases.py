"""A rule's cases as the judge knows them, read once per rule and its tools: nothing here depends on a query."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from synthesis.core.clauses import Case, cases
from synthesis.core.judge_stems import plain_stems, rarity, stems
from synthesis.core.queries import RuleText, ToolText, by_name
from synthesis.core.wordings import Wording

PRIOR = Wording(
    r"""\b(?:even\s(?:when|if|for|in)|also\s(?:for|in|at)|always|no\smatter|regardless|what(?:so)?ever|wherever|outranks?|
    in\s(?:any|every)\scountry|ranks?\sabove|still\swins|whether\sor\snot|alike|at\sonce|never\sadjustments|either\sway|
    takes?\sprecedence|in\sany\sstate|so\s\w+\s\w+\soutrank|matched\sor\snot)\b"""
)
SENTENCE = re.compile(r"(?<=[.])\s+")
SUBSENTENCE = re.compile(r"(?<=[.;])\s+|,\s+(?:and|but|while|whereas)\s+")
NOT_AS = re.compile(r"\bnot\s(?:as|an?)\b")


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A case with the words it is known by.

    `condition`: of its condition; `told`: of the rule's sentences on its tool; `every`: those, condition and signals;
    `stated`: what may state it in a trace; `first`: whether the rule puts it above the others.
    """

    case: Case
    condition: frozenset[str]
    told: frozenset[str]
    every: frozenset[str]
    stated: frozenset[str]
    first: bool

    @property
    def when(self) -> str:
        return self.case.clause.when

    @property
    def tool(self) -> str:
        return self.case.clause.route_to


@dataclass(frozen=True, slots=True, eq=False)
class KnownRule:
    """`live`: the rule's tools in the pool; `weights`: rarity of words over the cases; `matter`: the rule's and its
    cases' words; `text`: those and the rule's code, all that a trace may quote, with its `stems`.
    """

    cases: tuple[Known, ...]
    live: tuple[ToolText, ...]
    weights: dict[str, float]
    matter: str
    text: str
    stems: frozenset[str]


def known_rule(rule: RuleText, pool: Sequence[ToolText]) -> KnownRule:
    known = by_name(pool)
    return _known_rule(rule, tuple(known.get(name) for name in rule.tools))


@lru_cache(maxsize=2048)
def _known_rule(rule: RuleText, tools: tuple[ToolText | None, ...]) -> KnownRule:
    live = tuple(tool for tool in tools if tool is not None)
    found = cases(rule, by_name(live))
    every = [frozenset().union(*map(stems, (case.clause.when, *case.clause.signals))) for case in found]
    told = _told(rule, found, every)
    # what the text of a rule without clauses says at all may be said of any of its cases
    more = frozenset() if rule.clauses else stems(_nameless(rule.text, rule.tools))
    known = tuple(
        Known(case, stems(case.clause.when), words, own | words, own | words | more, first)
        for case, own, (words, first) in zip(found, every, told, strict=True)
    )
    parts = [f"{case.clause.when} {' '.join(case.clause.signals)}" for case in found]
    matter, text = (" ".join([rule.text, *more, *parts]) for more in ((), (rule.code.replace("_", " "),)))
    return KnownRule(known, live, rarity(one.every for one in known), matter, text, plain_stems(text))


def _told(
    rule: RuleText, found: Sequence[Case], every: Sequence[frozenset[str]]
) -> list[tuple[frozenset[str], bool]]:
    """Per case: the words of the rule's sentences on its tool, and whether they put it first."""
    sentences: list[set[str]] = [set() for _ in found]
    prior = [False] * len(found)
    for sentence in SENTENCE.split(rule.text):
        first = PRIOR.search(sentence) is not None
        for part in SUBSENTENCE.split(sentence):
            for number, case in enumerate(found):
                if _names(part, case.clause.route_to, rule.tools):
                    sentences[number] |= stems(_nameless(part, rule.tools))
                    prior[number] |= first
        if not any(name in sentence for name in rule.tools):
            nearest = max(range(len(found)), key=lambda n: (len(every[n] & stems(sentence)), -n), default=-1)
            if nearest >= 0 and every[nearest] & stems(sentence):
                sentences[nearest] |= stems(NOT_AS.split(sentence)[0])
                prior[nearest] |= first
    return [(frozenset(words), first) for words, first in zip(sentences, prior, strict=True)]


def _nameless(text: str, names: Iterable[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    return text


def _names(text: str, tool: str, others: Iterable[str]) -> bool:
    """Whether a text names the tool, apart from longer names that hold it."""
    for longer in others:
        if tool in longer and longer != tool:
            text = text.replace(longer, "")
    return tool in text
