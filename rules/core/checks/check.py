"""What can be said about a rule without a model. Errors stop publishing; warnings are for people.

In: a rule's content, the state of the tools it may name, the other published rules. Out: findings, each with a
stable code, a sentence, the fix and the place.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import combinations

from rules.core.checks.finding import Finding, Place, error, has_errors, warning
from rules.core.checks.index import OtherRule, RuleKey
from rules.core.checks.others import contradictions, long_circles, set_findings
from rules.core.checks.reading import Reading, Situation
from rules.core.checks.rule_book import KnownTools, RuleBook, ToolState
from rules.core.rule import RuleContent
from rules.core.wording import Wording

# What one rule shows by itself, next to the catalog: its text, its target, its clauses.


USEFUL_WORDS = 8
NAME_LIKE = re.compile(r"(?<![\w/.-])[A-Za-z][\w.-]*/[\w{}-](?:[\w./{}-]*[\w}])?")
CLOSE = 0.8
TEXT = Place("/rule_text")


def text_findings(reading: Reading, tools: KnownTools) -> Iterator[Finding]:
    content = reading.content
    spans = tools.mentions.spans(content.text)
    named = {name for name, _, _ in spans}
    if not named & set(content.confusables):
        example = f", such as {content.confusables[0]}" if content.confusables else ""
        yield error(
            "no_confusable",
            "The text names none of the confusables.",
            f"Say when one of them is used instead, by its full name{example}.",
            TEXT,
        )
    for name in dict.fromkeys(name for name, _, _ in spans if name not in content.tools):
        start, end = next((start, end) for found, start, end in spans if found == name)
        yield warning(
            "outside_set",
            f"The text names {name}, which is not in the rule's set.",
            "Add it to the confusables or leave it out of the text.",
            Place("/rule_text", start, end),
        )
    yield from _misspelt(reading, tools, spans)
    words = len(content.text.split())
    if words < USEFUL_WORDS:
        yield warning(
            "short_text",
            f"The text has {words} words; that is hardly enough to tell the tools apart.",
            "Say when the target is used, when another tool is, and why.",
            TEXT,
        )


def _misspelt(reading: Reading, tools: KnownTools, spans: list[tuple[str, int, int]]) -> Iterator[Finding]:
    """Words written like a tool's name that are none, though the API or a tool of the set is almost that."""
    content = reading.content
    for match in NAME_LIKE.finditer(content.text):
        name = match[0]
        if any(start <= match.start() and match.end() <= end for _, start, end in spans):
            continue
        close = get_close_matches(name, content.tools, n=1, cutoff=CLOSE)
        if close or name.partition("/")[0].casefold() in tools.apis:
            yield warning(
                "unknown_name",
                f"The text names {name}, which is not in the catalog.",
                f"Write {close[0]}." if close else "Write the tool's full name as the catalog has it.",
                Place("/rule_text", match.start(), match.end()),
            )


def target_findings(reading: Reading, tools: KnownTools) -> Iterator[Finding]:
    content = reading.content
    place = Place("/tool_name")
    state = tools.states.get(content.target)
    if state is None or not state.active:
        gone = "retired" if state else "not in the catalog"
        yield error(
            "retired_target",
            f"The target {content.target} is {gone}.",
            "Choose an active tool as the target.",
            place,
        )
    elif state.deprecated:
        yield warning(
            "deprecated_target",
            f"The target {content.target} is deprecated.",
            "Check that the rule should still lead to it.",
            place,
        )
    for number, name in enumerate(content.confusables):
        state = tools.states.get(name)
        if state is None or not state.active:
            yield warning(
                "retired_confusable",
                f"{name} is {'retired' if state else 'not in the catalog'}.",
                "Take it out of the set in the next version.",
                Place(f"/confusables/{number}"),
            )
    yield from _direction_findings(reading)


def _direction_findings(reading: Reading) -> Iterator[Finding]:
    """Whether the text and the clauses lead to the target at all."""
    target = reading.content.target
    about = [statement for statement in reading.statements if target in statement.tools]
    elsewhere = next((case for case in reading.said if case.tool != target), None)
    if not about:
        yield warning(
            "no_target",
            f"The text does not name the target {target}.",
            "Say when it is used, by its full name.",
            TEXT,
        )
    elif elsewhere and all(statement.stance != "use" for statement in about):
        dead = all(statement.stance == "dead" for statement in about)
        first = about[0]
        yield (error if dead else warning)(
            "text_elsewhere",
            f"The text tells to use {elsewhere.tool}, but the rule's target is {target}.",
            f"Make {elsewhere.tool} the target, or say in the text when {target} is used.",
            elsewhere.place
            if elsewhere.place.start is not None
            else Place("/rule_text", first.start, first.end),
        )
    routes = {clause["route_to"] for clause in reading.content.clauses}
    if routes and target not in routes:
        yield warning(
            "unreachable_target",
            f"No clause leads to the target {target}.",
            "Add a clause that does, or choose another target.",
            Place("/clauses"),
        )


def clause_findings(reading: Reading, tools: KnownTools) -> Iterator[Finding]:
    content = reading.content
    named = {tool for statement in reading.statements for tool in statement.tools}
    for number, clause in enumerate(content.clauses):
        name, words = clause["route_to"], f"Clause {number + 1} routes to {clause['route_to']}"
        place = Place(f"/clauses/{number}/route_to")
        state = tools.states.get(name)
        if name not in content.tools:
            yield error(
                "clause_outside_set",
                f"{words}, which is not in the rule's set.",
                "Route it to the target or a confusable, or add the tool to the confusables.",
                place,
            )
        elif state is None or not state.active:
            gone = "retired" if state else "not in the catalog"
            yield error("clause_retired", f"{words}, which is {gone}.", "Route it elsewhere.", place)
        elif state.deprecated:
            fix = "Route it to a tool that stays, or remove the clause."
            yield error("clause_deprecated", f"{words}, which is deprecated.", fix, place)
        elif name not in named:
            yield warning(
                "clause_unsaid",
                f"{words}, which the text does not name.",
                "The text is what is taught: say there when this tool is used, or remove the clause.",
                place,
            )


def agreement_findings(reading: Reading) -> Iterator[Finding]:
    """One situation, two tools, inside one rule."""
    told: set[tuple[str, str]] = set()
    for first, second in combinations(reading.situations, 2):
        pair = (first.place.pointer, second.place.pointer)
        if first.tool == second.tool or not _one_case(first, second):
            continue
        later = (
            first if first.place.pointer != "/rule_text" and second.place.pointer == "/rule_text" else second
        )
        if pair in told:
            continue
        told.add(pair)
        same = first.wording.same_as(second.wording) and "/rule_text" not in pair
        yield (error if same else warning)(
            "self_contradiction",
            f"The rule leads to {first.tool} and to {second.tool} in one situation: “{later.said}”.",
            "Say what sets the two cases apart, or keep one of them.",
            later.place,
        )


def _one_case(first: Situation, second: Situation) -> bool:
    return first.wording.same_as(second.wording) or first.wording.alike(second.wording)


# Whether a rule's test queries agree with the rule, with each other, and with the tests of other rules.


RESTATED = 0.6  # share of a case's telling words that a query must hold to ask for it
CLEARLY = 0.25


def test_findings(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    content = reading.content
    if not content.tests:
        fix = "Add one query for the target and one for an exception."
        yield warning("no_test", "The rule has no test query.", fix, Place("/tests"))
    for number, test in enumerate(content.tests):
        for place, name in enumerate(test["tools"]):
            if name not in content.tools:
                yield error(
                    "test_outside_set",
                    f"Test {number + 1} expects {name}, which is not in the rule's set.",
                    "Expect the target or a confusable.",
                    Place(f"/tests/{number}/tools/{place}"),
                )
    yield from _against_the_rule(reading)
    yield from _against_each_other(reading)
    yield from _against_others(reading, book, own)


def _against_the_rule(reading: Reading) -> Iterator[Finding]:
    """A query that restates one case of the rule, and the case of the tool it expects not nearly as well."""
    for number, (test, query) in enumerate(zip(reading.content.tests, reading.queries, strict=True)):
        met = _met(reading, query)
        right = max((share for tool, (share, _) in met.items() if tool in test["tools"]), default=0.0)
        wrong = [(share, tool, said) for tool, (share, said) in met.items() if tool not in test["tools"]]
        share, tool, said = max(wrong, default=(0.0, "", ""))
        if share >= RESTATED and share - right >= CLEARLY:
            yield warning(
                "test_contradicts",
                f"Test {number + 1} expects {test['tools'][0]}, but the rule leads such a query to {tool}: “{said}”.",
                "Correct the expected tool, or say in the rule what makes this query another case.",
                Place(f"/tests/{number}"),
            )


def _met(reading: Reading, query: Wording) -> dict[str, tuple[float, str]]:
    """Tool -> how well the query restates one of its cases, 1 for a phrase that signals it; and the rule's words."""
    met: dict[str, tuple[float, str]] = {}
    for case in reading.situations:
        met[case.tool] = max(met.get(case.tool, (0.0, "")), (query.restated(case.wording), case.said))
    for clause, signals in zip(reading.content.clauses, reading.signals, strict=True):
        for signal, said in zip(signals, clause["signals"], strict=True):
            if query.holds(signal):
                met[clause["route_to"]] = max(met.get(clause["route_to"], (0.0, "")), (1.0, said))
    return met


def _against_each_other(reading: Reading) -> Iterator[Finding]:
    tests = reading.content.tests
    for later in range(len(tests)):
        for earlier in range(later):
            left, right = reading.queries[earlier], reading.queries[later]
            if set(tests[earlier]["tools"]) == set(tests[later]["tools"]) or not _one_query(left, right):
                continue
            same = left.sequence == right.sequence
            yield (error if same else warning)(
                "test_clash",
                f"Tests {earlier + 1} and {later + 1} ask the same and expect different tools.",
                "A model can pass only one of them: keep the right one.",
                Place(f"/tests/{later}"),
            )


def _against_others(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    for number, (test, query) in enumerate(zip(reading.content.tests, reading.queries, strict=True)):
        for other, place in _asked_too(reading, query, book):
            theirs = other.content.tests[place]["tools"]
            asked = other.reading.queries[place]
            if other.key == own or set(theirs) == set(test["tools"]) or not _one_query(query, asked):
                continue
            same = query.sequence == asked.sequence and not set(theirs) & set(test["tools"])
            yield (error if same else warning)(
                "test_clash",
                f"Test {number + 1} expects {test['tools'][0]}; a test of {other.code} asks the same and expects "
                f"{theirs[0]}.",
                "A model can pass only one of them: correct one, or make the queries differ.",
                Place(f"/tests/{number}"),
                other.code,
            )


def _asked_too(reading: Reading, query: Wording, book: RuleBook) -> list[tuple[OtherRule, int]]:
    """The tests of rules that share a tool, and those of any rule that ask nearly the same."""
    sharing = (book.shelf.rules[key] for key in book.shelf.holding(reading.content.tools))
    tests = {(rule.key, number): rule for rule in sharing for number in range(len(rule.reading.queries))}
    tests |= {(rule.key, number): rule for rule, number in book.shelf.queries_like(query)}
    return [(tests[place], place[1]) for place in sorted(tests)]


def _one_query(left: Wording, right: Wording) -> bool:
    return left.sequence == right.sequence or left.alike(right)


__all__ = [
    "Finding",
    "OtherRule",
    "Place",
    "RuleBook",
    "RuleKey",
    "ToolState",
    "check_reading",
    "check_rule",
    "has_errors",
]


def check_rule(content: RuleContent, book: RuleBook, own: RuleKey | None = None) -> list[Finding]:
    """Every finding about one rule, errors first. `own` keeps a rule from being its own duplicate."""
    known = book.shelf.rules.get(own) if own else None
    reading = known.reading if known and known.content is content else Reading(content)
    return check_reading(reading, book, own)


def check_reading(reading: Reading, book: RuleBook, own: RuleKey | None = None) -> list[Finding]:
    """As check_rule, for a rule that has been read already."""
    findings = [
        *text_findings(reading, book.tools),
        *target_findings(reading, book.tools),
        *clause_findings(reading, book.tools),
        *agreement_findings(reading),
        *test_findings(reading, book, own),
        *contradictions(reading, book, own),
        *set_findings(reading, book, own),
        *long_circles(reading, book, own),
    ]
    return sorted(findings, key=lambda finding: finding.level != "error")
