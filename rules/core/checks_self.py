"""What one rule shows by itself, next to the catalog: its text, its target, its clauses."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import combinations

from rules.core.finding import Finding, Place, error, warning
from rules.core.rule_book import KnownTools
from rules.core.situations import Reading, Situation

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
