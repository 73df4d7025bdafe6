"""Whether a rule's test queries agree with the rule, with each other, and with the tests of other rules."""

from collections.abc import Iterator

from rules.core.finding import Finding, Place, error, warning
from rules.core.phrases import RuleKey
from rules.core.rule_book import RuleBook
from rules.core.shelf import OtherRule
from rules.core.situations import Reading
from rules.core.wording import Wording

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
