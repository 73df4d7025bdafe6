"""What can be said about a rule without a model. Errors stop publishing; warnings are for people.

In: a rule's content, the state of the tools it may name, the other published rules. Out: findings, each with a
stable code, a sentence and the fix.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from catalog.core.near_duplicates import DuplicateIndex
from rules.core.mentions import ToolMentions
from rules.core.rule import RuleContent

USEFUL_WORDS = 8
TEXT_THRESHOLD = 0.9


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    level: Literal["error", "warning"]
    sentence: str
    fix: str
    other: str = ""  # the code of the other rule, where there is one

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ToolState:
    """What findings need to know about a tool."""

    active: bool = True
    deprecated: bool = False


RuleKey = tuple[str, str]  # (domain, code)


@dataclass(frozen=True, slots=True)
class OtherRule:
    domain: str
    code: str
    content: RuleContent

    @property
    def key(self) -> RuleKey:
        return (self.domain, self.code)


class RuleBook:
    """The catalog and the rules a rule is judged against; built once, asked for every rule."""

    def __init__(self, tools: Mapping[str, ToolState], rules: Sequence[OtherRule]) -> None:
        self.tools = tools
        self.rules = rules
        self._mentions: ToolMentions | None = None
        self._by_tool: defaultdict[str, list[int]] = defaultdict(list)
        for place, rule in enumerate(rules):
            for name in rule.content.tools:
                self._by_tool[name].append(place)
        self._texts: DuplicateIndex | None = None

    def mentions(self, text: str) -> list[str]:
        if self._mentions is None:
            self._mentions = ToolMentions(self.tools)
        return self._mentions.find(text)

    def sharing(self, content: RuleContent, own: RuleKey | None) -> list[OtherRule]:
        """Other rules whose set overlaps, in the order of their codes."""
        places = {place for name in content.tools for place in self._by_tool.get(name, ())}
        others = (self.rules[place] for place in places)
        return sorted((rule for rule in others if rule.key != own), key=lambda rule: rule.key)

    def alike(self, text: str, own: RuleKey | None) -> list[OtherRule]:
        if self._texts is None:
            self._texts = DuplicateIndex((rule.content.text for rule in self.rules), TEXT_THRESHOLD)
        others = (self.rules[duplicate.position] for duplicate in self._texts.find(text))
        return [rule for rule in others if rule.key != own]


def check_rule(content: RuleContent, book: RuleBook, own: RuleKey | None = None) -> list[Finding]:
    """Every finding about one rule, errors first. `own` keeps a rule from being its own duplicate."""
    findings = [
        *_text_findings(content, book),
        *_target_findings(content, book),
        *_clause_findings(content, book),
        *_test_findings(content),
        *_rule_findings(content, book, own),
    ]
    return sorted(findings, key=lambda finding: finding.level != "error")


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)


def _error(code: str, sentence: str, fix: str) -> Finding:
    return Finding(code, "error", sentence, fix)


def _warning(code: str, sentence: str, fix: str, other: str = "") -> Finding:
    return Finding(code, "warning", sentence, fix, other)


def _text_findings(content: RuleContent, book: RuleBook) -> Iterable[Finding]:
    named = book.mentions(content.text)
    if not set(named) & set(content.confusables):
        yield _error(
            "no_confusable",
            "The text names none of the confusables.",
            f"Say when one of them is used instead, by its full name, such as {content.confusables[0]}.",
        )
    for name in named:
        if name not in content.tools:
            yield _warning(
                "outside_set",
                f"The text names {name}, which is not in the rule's set.",
                "Add it to the confusables or leave it out of the text.",
            )
    words = len(content.text.split())
    if words < USEFUL_WORDS:
        yield _warning(
            "short_text",
            f"The text has {words} words; that is hardly enough to tell the tools apart.",
            "Say when the target is used, when another tool is, and why.",
        )


def _target_findings(content: RuleContent, book: RuleBook) -> Iterable[Finding]:
    state = book.tools.get(content.target)
    if state is None or not state.active:
        yield _error(
            "retired_target",
            f"The target {content.target} is retired.",
            "Choose an active tool as the target.",
        )
    elif state.deprecated:
        yield _warning(
            "deprecated_target",
            f"The target {content.target} is deprecated.",
            "Check that the rule should still lead to it.",
        )
    for name in content.confusables:
        state = book.tools.get(name)
        if state is None or not state.active:
            yield _warning(
                "retired_confusable", f"{name} is retired.", "Take it out of the set in the next version."
            )


def _clause_findings(content: RuleContent, book: RuleBook) -> Iterable[Finding]:
    for number, clause in enumerate(content.clauses, start=1):
        name = clause["route_to"]
        state = book.tools.get(name)
        if name not in content.tools:
            yield _error(
                "clause_outside_set",
                f"Clause {number} routes to {name}, which is not in the rule's set.",
                "Route it to the target or a confusable, or add the tool to the confusables.",
            )
        elif state is None or not state.active:
            yield _error(
                "clause_retired",
                f"Clause {number} routes to {name}, which is retired.",
                "Route it elsewhere.",
            )
        elif state.deprecated:
            yield _error(
                "clause_deprecated",
                f"Clause {number} routes to {name}, which is deprecated.",
                "Route it to a tool that stays, or remove the clause.",
            )


def _test_findings(content: RuleContent) -> Iterable[Finding]:
    if not content.tests:
        yield _warning(
            "no_test", "The rule has no test query.", "Add one query for the target and one for an exception."
        )
    for number, test in enumerate(content.tests, start=1):
        for name in test["tools"]:
            if name not in content.tools:
                yield _error(
                    "test_outside_set",
                    f"Test {number} expects {name}, which is not in the rule's set.",
                    "Expect the target or a confusable.",
                )


def _rule_findings(content: RuleContent, book: RuleBook, own: RuleKey | None) -> Iterable[Finding]:
    for other in book.sharing(content, own):
        theirs = other.content
        if theirs.target == content.target:
            continue
        shared = [name for name in content.tools if name in theirs.tools]
        if content.target in theirs.confusables and theirs.target in content.confusables:
            yield _warning(
                "circular",
                f"{other.code} leads from {content.target} to {theirs.target}, and this rule leads back.",
                "Say in both texts which one wins.",
                other.code,
            )
        elif len(shared) > 1:
            yield _warning(
                "overlap",
                f"{other.code} leads to {theirs.target} and shares {len(shared)} tools: {', '.join(shared[:3])}.",
                "Merge the two rules, or say in both texts how they differ.",
                other.code,
            )
    for other in book.alike(content.text, own):
        yield _warning(
            "near_duplicate",
            f"The text is almost that of {other.code}.",
            "Keep one of the two, or say what differs.",
            other.code,
        )
