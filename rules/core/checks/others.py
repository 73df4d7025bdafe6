"""What a rule shows next to the other rules: contradiction, repetition, shadow, circles, targets led away from."""

import re
from collections.abc import Iterator

from catalog.core.near_duplicates import jaccard
from catalog.core.twins import api_family
from rules.core.checks.finding import Finding, Place, error, warning
from rules.core.checks.index import OtherRule, RuleKey
from rules.core.checks.reading import Reading, Situation
from rules.core.checks.rule_book import RuleBook
from rules.core.rule import RuleContent
from rules.core.wording import ALIKE_OVER_SHARED_TOOLS, LEAST_WORDS, Wording

CONDITION = re.compile(
    r"\b(?:when|if|unless|while|until|with|for|only|except|in case|where|before|yet)\b", re.IGNORECASE
)
TEXT = Place("/rule_text")
TEXT_ALIKE = 0.8  # share of words (Jaccard) by which one text is almost another
TEXT_ALIKE_FOR_ONE_SET = 0.7


def contradictions(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    """One situation, different tools: an error where the words are the same and the sets overlap."""
    worst: dict[RuleKey, tuple[bool, Situation, Situation]] = {}
    for certain, mine, key, theirs in _gainsaid(reading, book):
        if key != own and (key not in worst or certain > worst[key][0]):
            worst[key] = (certain, mine, theirs)
    for key in sorted(worst):
        certain, mine, theirs = worst[key]
        yield (error if certain else warning)(
            "contradiction",
            f"{key[1]} leads to {theirs.tool} in the situation in which this rule leads to {mine.tool}: "
            f"“{theirs.said}”.",
            "Say in both what sets the two cases apart, or keep one of the two rules.",
            mine.place,
            key[1],
        )


def _gainsaid(reading: Reading, book: RuleBook) -> Iterator[tuple[bool, Situation, RuleKey, Situation]]:
    """(certain, this rule's situation, the other rule, its situation), fewer words alike sufficing for shared tools."""
    sharing = sorted(book.shelf.holding(reading.content.tools))
    for mine in reading.situations:
        for key in sharing:
            for theirs in book.shelf.rules[key].reading.situations:
                if mine.tool != theirs.tool and mine.wording.alike(theirs.wording, ALIKE_OVER_SHARED_TOOLS):
                    yield mine.wording.same_as(theirs.wording), mine, key, theirs
        for other, theirs in book.shelf.cases_like(mine.wording):
            if mine.tool != theirs.tool and _one_case(mine, theirs):
                yield False, mine, other.key, theirs


def _one_case(mine: Situation, theirs: Situation) -> bool:
    """Where no tool is shared: nearly the same words for one API, exactly the same for different ones."""
    if _family(mine.tool) == _family(theirs.tool):
        return mine.wording.alike(theirs.wording)
    return len(mine.wording.telling) >= LEAST_WORDS and mine.wording.same_as(theirs.wording)


def _family(tool: str) -> str:
    return api_family(tool.partition("/")[0])[0]


def set_findings(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    """Against every rule whose set overlaps, in the order of their keys."""
    for key in sorted(book.shelf.holding(reading.content.tools) - {own}):
        other = book.shelf.rules[key]
        yield from _led_away(reading, other)
        repeated = _repeats(reading, other)
        if repeated:
            said = f"The text is almost that of {other.code}."
            yield warning(
                "near_duplicate", said, "Keep one of the two, or say what differs.", TEXT, other.code
            )
        if other.content.target == reading.content.target:
            yield from _shadowed(reading, other, repeated)
        else:
            yield from _drawn_apart(reading.content, other)


def _shadowed(reading: Reading, other: OtherRule, repeated: bool) -> Iterator[Finding]:
    """Of two that say the same it is enough to say so."""
    if _shadows(other.reading, reading) and not (repeated and _shadows(reading, other.reading)):
        yield warning(
            "shadowed",
            f"{other.code} already leads to {reading.content.target} in every situation of this rule.",
            "Withdraw this rule, or say which case it adds.",
            TEXT,
            other.code,
        )


def _drawn_apart(ours: RuleContent, other: OtherRule) -> Iterator[Finding]:
    """Another target over tools of this rule."""
    theirs = other.content
    shared = [name for name in ours.tools if name in theirs.tools]
    if ours.target in theirs.confusables and theirs.target in ours.confusables:
        yield warning(
            "circular",
            f"{other.code} leads from {ours.target} to {theirs.target}, and this rule leads back.",
            "Say in both texts which one wins.",
            Place(f"/confusables/{ours.confusables.index(theirs.target)}"),
            other.code,
        )
    elif len(shared) > 1:
        yield warning(
            "overlap",
            f"{other.code} leads to {theirs.target} and shares {len(shared)} tools: {', '.join(shared[:3])}.",
            "Merge the two rules, or say in both texts how they differ.",
            Place("/confusables"),
            other.code,
        )


def _repeats(reading: Reading, other: OtherRule) -> bool:
    """Whether the texts are nearly the same; the bar is lower for the same target over the same tools."""
    ours, theirs = reading.content, other.content
    one_set = ours.target == theirs.target and set(ours.tools) == set(theirs.tools)
    return jaccard(reading.words, other.reading.words) >= (TEXT_ALIKE_FOR_ONE_SET if one_set else TEXT_ALIKE)


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


def _led_away(reading: Reading, other: OtherRule) -> Iterator[Finding]:
    """Another rule says, without a condition, that this rule's target is no longer to be used."""
    target = reading.content.target
    for statement in other.reading.statements:
        if target not in statement.tools or statement.stance != "dead" or other.content.target == target:
            continue
        if not CONDITION.search(statement.words):
            yield warning(
                "unreachable_target",
                f"{other.code} says of the target {target} that it is no longer used, and leads to "
                f"{other.content.target}.",
                "Lead to that tool too, or correct the other rule.",
                Place("/tool_name"),
                other.code,
            )
            return


def long_circles(reading: Reading, book: RuleBook, own: RuleKey | None) -> Iterator[Finding]:
    """Ways over two or more other rules that lead from the target back to a confusable."""
    content = reading.content
    for number, confusable in enumerate(content.confusables):
        way = book.way_back(content.target, confusable, own)
        if not way or len(way) < 2:
            continue
        tools = [content.target, *(tool for tool, _ in way), content.target]
        codes = tuple(code for _, (_, code) in way)
        yield Finding(
            "circular",
            "warning",
            f"Rules lead in a circle: {' → '.join(tools)} (over {', '.join(codes)} and this rule).",
            "Say in these texts which one wins, or take one tool out of a set.",
            codes[0],
            Place(f"/confusables/{number}"),
            codes,
        )
