"""What can be said about a rule without a model. Errors stop publishing; warnings are for people.

In: a rule's content, the state of the tools it may name, the other published rules. Out: findings, each with a
stable code, a sentence, the fix and the place.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import regex

from catalog.core.near_duplicates import jaccard
from catalog.core.twins import api_family
from catalog.core.words import closest
from rules.core.reading import Place, Reading, Situation
from rules.core.rule import RuleContent
from rules.core.rule_book import KnownTools, OtherRule, RuleBook, RuleKey
from rules.core.wording import ALIKE_OVER_SHARED_TOOLS, LEAST_WORDS, Wording
from trace_site.lib.letters import UNSPACED, count_words

USEFUL_WORDS = 8
NAME_LIKE = regex.compile(
    rf"(?V1)(?<![\w/.-])(?!{UNSPACED})\p{{L}}[\w.\-]*/[\w{{}}\-](?:[\w./{{}}\-]*[\w}}])?"
)
CLOSE = 0.8
MOST_UNKNOWN = 20  # words like names that are compared with those of the set
MOST_FINDINGS = 100  # of one rule
LONGEST_SHOWN = 300  # characters of a sentence that a finding quotes
RESTATED = 0.6  # share of a case's telling words that a query must hold to ask for it
CLEARLY = 0.25
CONDITION = re.compile(
    r"\b(?:when|if|unless|while|until|with|for|only|except|in case|where|before|yet)\b", re.IGNORECASE
)
TEXT_ALIKE = 0.8  # share of words (Jaccard) by which one text is almost another
TEXT_ALIKE_FOR_ONE_SET = 0.7
TARGET, TEXT = Place("/tool_name"), Place("/rule_text")


@dataclass(frozen=True, slots=True)
class Finding:
    """`other` is the code of the other rule, where there is one; `path` those of all rules on a cycle."""

    code: str
    level: Literal["error", "warning"]
    sentence: str
    fix: str
    other: str = ""
    place: Place = Place()
    path: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"path": list(self.path)}


def shown(said: str) -> str:
    return said if len(said) <= LONGEST_SHOWN else f"{said[: LONGEST_SHOWN - 1]}…"


def error(code: str, sentence: str, fix: str, place: Place, other: str = "") -> Finding:
    return Finding(code, "error", sentence, fix, other, place)


def warning(code: str, sentence: str, fix: str, place: Place, other: str = "") -> Finding:
    return Finding(code, "warning", sentence, fix, other, place)


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)


def check_rule(content: RuleContent, book: RuleBook, own: RuleKey | None = None) -> list[Finding]:
    """Every finding about one rule, errors first. `own` keeps a rule from being its own duplicate."""
    known = book.rules.get(own) if own else None
    reading = known.reading if known and known.content is content else Reading(content)
    return check_reading(reading, book, own)


def check_reading(reading: Reading, book: RuleBook, own: RuleKey | None = None) -> list[Finding]:
    """As check_rule, for a rule that has been read already."""
    findings = [
        *_text(reading, book.tools),
        *_tools(reading, book.tools),
        *_direction(reading),
        *_clauses(reading, book.tools),
        *_one_case_two_tools(reading),
        *_tests(reading),
        *_tests_against_the_rule(reading),
        *_tests_against_each_other(reading),
        *_tests_against_others(reading, book, own),
        *_contradictions(reading, book, own),
        *_overlapping_sets(reading, book, own),
        *_long_circles(reading, book, own),
    ]
    findings.sort(key=lambda finding: finding.level != "error")
    if (left_out := len(findings) - MOST_FINDINGS) > 0:
        sentence = f"{left_out} more findings are not listed."
        findings[MOST_FINDINGS:] = [warning("more", sentence, "Correct these first.", Place())]
    return findings


# One rule by itself, next to the catalog.


def _text(reading: Reading, tools: KnownTools) -> Iterator[Finding]:
    content = reading.content
    mentions = tools.finder.find(content.text)
    first: dict[str, Place] = {}
    for start, end, name in mentions:
        first.setdefault(name, Place("/rule_text", start, end))
    if first.keys().isdisjoint(content.confusables):
        example = f", such as {content.confusables[0]}" if content.confusables else ""
        fix = f"Say when one of them is used instead, by its full name{example}."
        yield error("no_confusable", "The text names none of the confusables.", fix, TEXT)
    for name, place in first.items():
        if name not in content.tools:
            sentence = f"The text names {name}, which is not in the rule's set."
            fix = "Add it to the confusables or leave it out of the text."
            yield warning("outside_set", sentence, fix, place)
    # words written like a tool's name that are none, though the API or a tool of the set is almost that
    starts = [start for start, _, _ in mentions]
    unknown: dict[str, Place] = {}
    for match in NAME_LIKE.finditer(content.text):
        before = bisect_right(starts, match.start())
        if not (before and match.end() <= mentions[before - 1][1]):
            unknown.setdefault(match[0], Place("/rule_text", match.start(), match.end()))
    for number, (name, place) in enumerate(unknown.items()):
        close = closest(name, content.tools, 1, CLOSE) if number < MOST_UNKNOWN else []
        if close or name.partition("/")[0].casefold() in tools.apis:
            sentence = f"The text names {shown(name)}, which is not in the catalog."
            fix = f"Write {close[0]}." if close else "Write the tool's full name as the catalog has it."
            yield warning("unknown_name", sentence, fix, place)
    if (words := count_words(content.text)) < USEFUL_WORDS:
        sentence = f"The text has {words} words; that is hardly enough to tell the tools apart."
        fix = "Say when the target is used, when another tool is, and why."
        yield warning("short_text", sentence, fix, TEXT)


def _gone(name: str, tools: KnownTools) -> str:
    """Why a tool can be used no more; "" when it can."""
    state = tools.states.get(name)
    return "not in the catalog" if state is None else "" if state.active else "retired"


def _tools(reading: Reading, tools: KnownTools) -> Iterator[Finding]:
    target = reading.content.target
    if gone := _gone(target, tools):
        fix = "Choose an active tool as the target."
        yield error("retired_target", f"The target {target} is {gone}.", fix, TARGET)
    elif tools.states[target].deprecated:
        fix = "Check that the rule should still lead to it."
        yield warning("deprecated_target", f"The target {target} is deprecated.", fix, TARGET)
    for number, name in enumerate(reading.content.confusables):
        if gone := _gone(name, tools):
            fix, place = "Take it out of the set in the next version.", Place(f"/confusables/{number}")
            yield warning("retired_confusable", f"{name} is {gone}.", fix, place)


def _direction(reading: Reading) -> Iterator[Finding]:
    """Whether the text and the clauses lead to the target at all."""
    target = reading.content.target
    about = [statement for statement in reading.statements if target in statement.tools]
    elsewhere = next((case for case in reading.said if case.tool != target), None)
    if not about:
        fix = "Say when it is used, by its full name."
        yield warning("no_target", f"The text does not name the target {target}.", fix, TEXT)
    elif elsewhere and all(statement.stance != "use" for statement in about):
        dead = all(statement.stance == "dead" for statement in about)
        yield (error if dead else warning)(
            "text_elsewhere",
            f"The text tells to use {elsewhere.tool}, but the rule's target is {target}.",
            f"Make {elsewhere.tool} the target, or say in the text when {target} is used.",
            elsewhere.place,
        )
    routes = {clause["route_to"] for clause in reading.content.clauses}
    if routes and target not in routes:
        fix = "Add a clause that does, or choose another target."
        yield warning(
            "unreachable_target", f"No clause leads to the target {target}.", fix, Place("/clauses")
        )


def _clauses(reading: Reading, tools: KnownTools) -> Iterator[Finding]:
    named = {tool for statement in reading.statements for tool in statement.tools}
    for number, clause in enumerate(reading.content.clauses):
        name, words = clause["route_to"], f"Clause {number + 1} routes to {clause['route_to']}"
        place = Place(f"/clauses/{number}/route_to")
        if name not in reading.content.tools:
            fix = "Route it to the target or a confusable, or add the tool to the confusables."
            yield error("clause_outside_set", f"{words}, which is not in the rule's set.", fix, place)
        elif gone := _gone(name, tools):
            yield error("clause_retired", f"{words}, which is {gone}.", "Route it elsewhere.", place)
        elif tools.states[name].deprecated:
            fix = "Route it to a tool that stays, or remove the clause."
            yield error("clause_deprecated", f"{words}, which is deprecated.", fix, place)
        elif name not in named:
            fix = "The text is what is taught: say there when this tool is used, or remove the clause."
            yield warning("clause_unsaid", f"{words}, which the text does not name.", fix, place)


def _one_case_two_tools(reading: Reading) -> Iterator[Finding]:
    """One finding for each clause, and one for the text: the first error, else the first warning."""
    worst: dict[str, tuple[bool, Situation, Situation, Situation]] = {}
    for first, second in combinations(reading.situations, 2):  # clauses come before the text
        if first.tool == second.tool:
            continue
        both_clauses = TEXT.pointer not in (first.place.pointer, second.place.pointer)
        later = first if first.place.pointer != TEXT.pointer == second.place.pointer else second
        at = later.place.pointer
        if at in worst and (worst[at][0] or not both_clauses):
            continue
        same = first.wording.same_as(second.wording)
        certain = same and both_clauses
        if certain or (at not in worst and (same or first.wording.alike(second.wording))):
            worst[at] = (certain, first, second, later)
    for certain, first, second, later in worst.values():
        yield (error if certain else warning)(
            "self_contradiction",
            f"The rule leads to {first.tool} and to {second.tool} in one situation: “{shown(later.said)}”.",
            "Say what sets the two cases apart, or keep one of them.",
            later.place,
        )


# Whether a rule's test queries agree with the rule, with each other, and with the tests of other rules.


def _tests(reading: Reading) -> Iterator[Finding]:
    if not reading.content.tests:
        fix = "Add one query for the target and one for an exception."
        yield warning("no_test", "The rule has no test query.", fix, Place("/tests"))
    tools = set(reading.content.tools)
    for number, test in enumerate(reading.content.tests):
        outside = (place for place, name in enumerate(test["tools"]) if name not in tools)
        if (position := next(outside, None)) is not None:
            sentence = f"Test {number + 1} expects {test['tools'][position]}, which is not in the rule's set."
            place = Place(f"/tests/{number}/tools/{position}")
            yield error("test_outside_set", sentence, "Expect the target or a confusable.", place)


def _tests_against_the_rule(reading: Reading) -> Iterator[Finding]:
    """A query that restates one case of the rule, and the case of the tool it expects not nearly as well."""
    signals: dict[str, list[tuple[str, str, str]]] = {}  # (tool, line, phrase) by their first word
    for clause, phrases in zip(reading.content.clauses, reading.signals, strict=True):
        for said, signal in dict(zip(clause["signals"], phrases, strict=True)).items():
            if signal.sequence:
                signals.setdefault(signal.sequence[0], []).append((clause["route_to"], signal.line, said))
    for number, (test, query) in enumerate(zip(reading.content.tests, reading.queries, strict=True)):
        # tool -> how well the query restates one of its cases, 1 for a phrase that signals it; and the rule's words
        met: dict[str, tuple[float, str]] = {}
        for case in reading.situations:
            met[case.tool] = max(met.get(case.tool, (0.0, "")), (query.restated(case.wording), case.said))
        asked = query.line
        for word in signals.keys() & set(query.sequence):
            for tool, line, said in signals[word]:
                if line in asked:
                    met[tool] = max(met.get(tool, (0.0, "")), (1.0, said))
        right = max((share for tool, (share, _) in met.items() if tool in test["tools"]), default=0.0)
        wrong = [(share, tool, said) for tool, (share, said) in met.items() if tool not in test["tools"]]
        share, tool, said = max(wrong, default=(0.0, "", ""))
        if share >= RESTATED and share - right >= CLEARLY:
            yield warning(
                "test_contradicts",
                f"Test {number + 1} expects {test['tools'][0]}, but the rule leads such a query to {tool}: "
                f"“{shown(said)}”.",
                "Correct the expected tool, or say in the rule what makes this query another case.",
                Place(f"/tests/{number}"),
            )


def _tests_against_each_other(reading: Reading) -> Iterator[Finding]:
    """One finding for each test: the first error, else the first warning."""
    tools = [frozenset(test["tools"]) for test in reading.content.tests]
    for later, query in enumerate(reading.queries):
        others = [n for n in range(later) if tools[n] != tools[later]]
        same = next((n for n in others if reading.queries[n].sequence == query.sequence), None)
        found = next((n for n in others if reading.queries[n].alike(query)), None) if same is None else same
        if found is not None:
            sentence = f"Tests {found + 1} and {later + 1} ask the same and expect different tools."
            fix = "A model can pass only one of them: keep the right one."
            yield (warning if same is None else error)("test_clash", sentence, fix, Place(f"/tests/{later}"))


def _tests_against_others(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    """Against the tests of rules that share a tool, and those of any rule that ask nearly the same."""
    sharing = [book.rules[key] for key in book.holding(reading.content.tools)]
    near = {(rule.key, position): rule for rule in sharing for position in range(len(rule.reading.queries))}
    for number, (test, query) in enumerate(zip(reading.content.tests, reading.queries, strict=True)):
        asked = near | {(rule.key, position): rule for rule, position in book.queries_like(query)}
        for (key, position), other in sorted(asked.items(), key=lambda item: item[0]):
            theirs, again = other.content.tests[position]["tools"], other.reading.queries[position]
            same = query.sequence == again.sequence
            if key == own or set(theirs) == set(test["tools"]) or not (same or query.alike(again)):
                continue
            certain = same and not set(theirs) & set(test["tools"])
            yield (error if certain else warning)(
                "test_clash",
                f"Test {number + 1} expects {test['tools'][0]}; a test of {other.code} asks the same and expects "
                f"{theirs[0]}.",
                "A model can pass only one of them: correct one, or make the queries differ.",
                Place(f"/tests/{number}"),
                other.code,
            )


# Next to the other rules: contradiction, repetition, shadow, circles, targets led away from.


def _contradictions(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    """One situation, different tools: an error where the words are the same and the sets overlap."""
    worst: dict[RuleKey, tuple[bool, Situation, Situation]] = {}
    for certain, mine, key, theirs in _gainsaid(reading, book):
        if key != own and (key not in worst or certain > worst[key][0]):
            worst[key] = (certain, mine, theirs)
    for key, (certain, mine, theirs) in sorted(worst.items(), key=lambda item: item[0]):
        yield (error if certain else warning)(
            "contradiction",
            f"{key[1]} leads to {theirs.tool} in the situation in which this rule leads to {mine.tool}: "
            f"“{shown(theirs.said)}”.",
            "Say in both what sets the two cases apart, or keep one of the two rules.",
            mine.place,
            key[1],
        )


def _gainsaid(reading: Reading, book: RuleBook) -> Iterator[tuple[bool, Situation, RuleKey, Situation]]:
    """(certain, this rule's situation, the other rule, its situation), fewer words alike sufficing for shared tools."""
    sharing = sorted(book.holding(reading.content.tools))
    for mine in reading.situations:
        for key in sharing:
            for theirs in book.rules[key].reading.situations:
                if mine.tool != theirs.tool and mine.wording.alike(theirs.wording, ALIKE_OVER_SHARED_TOOLS):
                    yield mine.wording.same_as(theirs.wording), mine, key, theirs
        for other, theirs in book.cases_like(mine.wording):
            # where no tool is shared: nearly the same words for one API, exactly the same for different ones
            if _family(mine.tool) == _family(theirs.tool):
                alike = mine.wording.alike(theirs.wording)
            else:
                alike = len(mine.wording.telling) >= LEAST_WORDS and mine.wording.same_as(theirs.wording)
            if mine.tool != theirs.tool and alike:
                yield False, mine, other.key, theirs


def _family(tool: str) -> str:
    return api_family(tool.partition("/")[0])[0]


def _overlapping_sets(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    """Against every rule whose set overlaps, in the order of their keys."""
    ours = reading.content
    for key in sorted(book.holding(ours.tools) - {own}):
        other = book.rules[key]
        theirs = other.content
        same_target = theirs.target == ours.target
        # without a condition
        dead = any(
            ours.target in one.tools and one.stance == "dead" and not CONDITION.search(one.words)
            for one in other.reading.statements
        )
        if dead and not same_target:
            yield warning(
                "unreachable_target",
                f"{other.code} says of the target {ours.target} that it is no longer used, and leads to "
                f"{theirs.target}.",
                "Lead to that tool too, or correct the other rule.",
                TARGET,
                other.code,
            )
        one_set = same_target and set(ours.tools) == set(theirs.tools)
        least = TEXT_ALIKE_FOR_ONE_SET if one_set else TEXT_ALIKE
        repeated = jaccard(reading.words, other.reading.words) >= least
        if repeated:
            sentence = f"The text is almost that of {other.code}."
            fix = "Keep one of the two, or say what differs."
            yield warning("near_duplicate", sentence, fix, TEXT, other.code)
        if not same_target:
            yield from _drawn_apart(ours, other)
        # of two that say the same it is enough to say so
        elif _shadows(other.reading, reading) and not (repeated and _shadows(reading, other.reading)):
            sentence = f"{other.code} already leads to {ours.target} in every situation of this rule."
            fix = "Withdraw this rule, or say which case it adds."
            yield warning("shadowed", sentence, fix, TEXT, other.code)


def _drawn_apart(ours: RuleContent, other: OtherRule) -> Iterator[Finding]:
    """Another target over tools of this rule."""
    theirs = other.content
    shared = [name for name in ours.tools if name in theirs.tools]
    if ours.target in theirs.confusables and theirs.target in ours.confusables:
        sentence = f"{other.code} leads from {ours.target} to {theirs.target}, and this rule leads back."
        place = Place(f"/confusables/{ours.confusables.index(theirs.target)}")
        yield warning("circular", sentence, "Say in both texts which one wins.", place, other.code)
    elif len(shared) > 1:
        sentence = (
            f"{other.code} leads to {theirs.target} and shares {len(shared)} tools: {', '.join(shared[:3])}."
        )
        fix = "Merge the two rules, or say in both texts how they differ."
        yield warning("overlap", sentence, fix, Place("/confusables"), other.code)


def _shadows(wide: Reading, narrow: Reading) -> bool:
    """Whether every case of the narrow rule is a case of the wide one, with the same tool."""
    if not set(narrow.content.tools) <= set(wide.content.tools) or not narrow.situations:
        return False
    return all(
        any(case.tool == wider.tool and _within(case.wording, wider.wording) for wider in wide.situations)
        for case in narrow.situations
    )


def _within(case: Wording, wider: Wording) -> bool:
    """Inside the other, or the same in other words; what the other says more narrows it."""
    return case.inside(wider) or (not case.telling <= wider.telling and case.alike(wider))


def _long_circles(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    """Ways over two or more other rules that lead from the target back to a confusable."""
    target = reading.content.target
    for number, confusable in enumerate(reading.content.confusables):
        way = book.way(target, confusable, own)
        if not way or len(way) < 2:
            continue
        tools = " → ".join([target, *(tool for tool, _ in way), target])
        codes = tuple(code for _, (_, code) in way)
        sentence = f"Rules lead in a circle: {tools} (over {', '.join(codes)} and this rule)."
        fix, place = (
            "Say in these texts which one wins, or take one tool out of a set.",
            f"/confusables/{number}",
        )
        yield Finding("circular", "warning", sentence, fix, codes[0], Place(place), codes)
