"""The cases of a rule. Experts may write them as clauses; a rule with text only has them derived here.

In: a RuleText. Out: clauses (what must hold -> tool). Derived ones come from the sentence parts around each tool
name: the part with the target gives the main clause, a part with a confusable that is still alive gives an exception.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from synthesis.core.queries import Clause, RuleText, ToolText
from synthesis.core.words import content_stems, words

DEAD = re.compile(
    r"deprecat|no longer|replaced|retired|obsolete|removed|legacy|superseded|old version|classic endpoint|"
    r"being phased|discontinued|sunset|is the old|not recommended|unsupported|instead of|rather than|recommends",
    re.IGNORECASE,
)
NEGATIVE = re.compile(r"\b(?:not|never|cannot|without|n't|nothing)\b", re.IGNORECASE)
SPLIT = re.compile(
    r"(?<=[.;])\s+|;\s*|:\s+(?=⟦)|,\s+(?:and|but|while|whereas)\s+(?=⟦)|\s+(?:and|but|while|whereas)\s+(?=⟦)"
)
CALL = re.compile(
    r"^\W*(?:the\s)?(?:(?:please\s)?(?:use|call|choose|prefer|take)\s)?(?:with|from|through|by|via)?\s*⟦\d+⟧\s*,?\s*"
    r"|,?\s*\b(?:(?:you\s)?(?:should\s)?(?:now\s|always\s|must\s)?(?:newer integrations\s|new integrations\s)?"
    r"(?:use|uses|call|calls|choose|recommends|send)|(?:is|are)\s\w+\s(?:with|by|from|through|at)|with|from|through|via)"
    r"\s(?:the\s)?⟦\d+⟧",
    re.IGNORECASE,
)
HOLE = re.compile(r"⟦(\d+)⟧")


@dataclass(frozen=True, slots=True)
class Case:
    """A clause ready for use: `own` says whether an expert wrote it."""

    clause: Clause
    own: bool


def cases(rule: RuleText, pool: Mapping[str, ToolText]) -> list[Case]:
    """Every case that routes to a live tool of T(r), main one first."""
    dead = frozenset(name for name in rule.tools if name not in pool or pool[name].deprecated)
    if rule.clauses:
        # a clause marked as an exception that still routes to the target is one more way to the target
        found = [Case(clause, True) for clause in rule.clauses if clause.route_to in rule.tools]
    else:
        found = [Case(_filled(clause, pool), False) for clause in derived(rule)]
    alive = [case for case in found if case.clause.route_to not in dead]
    return sorted(alive, key=lambda case: case.clause.route_to != rule.target)


def _filled(clause: Clause, pool: Mapping[str, ToolText]) -> Clause:
    """Where the text says nothing of when a tool is right, the tool's own description does."""
    if clause.when or clause.route_to not in pool:
        return clause
    return replace(clause, when=first_sentence(pool[clause.route_to].description))


def first_sentence(description: str) -> str:
    """A description's first sentence that says something, at most 20 words."""
    parts = [part for part in re.split(r"(?<=[.!?])\s+|\n", description.strip()) if len(words(part)) >= 2]
    sentence = (parts or [description.strip()])[0].rstrip(". ")
    return " ".join(sentence.split()[:20])


@lru_cache(maxsize=4096)
def derived(rule: RuleText) -> tuple[Clause, ...]:
    """Clauses read out of the rule's text; the target always has one."""
    names = sorted(rule.tools, key=len, reverse=True)
    text = rule.text
    for number, name in enumerate(names):
        text = text.replace(name, f"⟦{number}⟧")
    wanted: dict[str, list[str]] = {}
    for part in SPLIT.split(text):
        holes = [names[int(number)] for number in HOLE.findall(part)]
        if not holes:
            continue
        lead = rule.target if rule.target in holes else holes[0]
        if lead == rule.target or not (DEAD.search(part) or NEGATIVE.search(part)):
            wanted.setdefault(lead, []).append(_purpose(part))
    wanted.setdefault(rule.target, [_purpose(SPLIT.split(text)[0])])
    dead = _dead_confusables(rule, text, names)
    found = []
    for name in rule.tools:
        if name in dead and name != rule.target:
            continue
        when = next((purpose for purpose in wanted.get(name, []) if len(words(purpose)) >= 2), "")
        found.append(Clause(when, name, name != rule.target))
    return tuple(found)


def _dead_confusables(rule: RuleText, text: str, names: list[str]) -> Collection[str]:
    """Confusables that the text itself calls deprecated or replaced."""
    dead = set()
    for part in SPLIT.split(text):
        if DEAD.search(part):
            dead |= {names[int(number)] for number in HOLE.findall(part)} - {rule.target}
    return dead


def _purpose(part: str) -> str:
    """What the sentence part says the tool is for, without the tool and the verb of calling it."""
    text = CALL.sub(" ", part)
    text = HOLE.sub(" ", text)
    text = re.sub(
        r"^\W*(?:to|for|when|if|only|is|are|and|but|or|works|use|,)\b\s*", "", text.strip(), flags=re.I
    )
    text = re.sub(r"^(?:new|newer)\s(?:integrations|implementations)\s", "", text.strip(), flags=re.I)
    text = re.sub(r"\s+", " ", text).strip(" .;,:")
    text = re.sub(
        r"[,\s]*\b(?:and\s)?(?:not|rather than|instead of)\b[^.]*deprecat\w*$|,?\swhich is deprecat\w*$",
        "",
        text,
    )
    text = re.sub(r"[,\s]*\b(?:rather than|instead of|not|and|go|goes|comes|to)$", "", text)
    return re.sub(r"\s+([,.;])", r"\1", text)


def reasons_unsupported(rule: RuleText, pool: Mapping[str, ToolText]) -> dict[str, str]:
    """Styles the rule cannot support, each with the reason. No exception query may teach a dead tool."""
    found = cases(rule, pool)
    if not any(case.clause.route_to == rule.target for case in found):
        return dict.fromkeys(("explicit", "implicit", "exception"), "The target is deprecated or retired.")
    if not any(case.clause.route_to != rule.target for case in found):
        alive = [name for name in rule.confusables if name in pool and not pool[name].deprecated]
        reason = (
            "The rule gives no case in which a confusable is right."
            if alive
            else "Every confusable is deprecated or retired."
        )
        return {"exception": reason}
    return {}


def evidence(clause: Clause) -> frozenset[str]:
    """The content stems by which a clause is recognised."""
    return content_stems(f"{clause.when} {' '.join(clause.signals)}")
