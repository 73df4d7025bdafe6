"""The cases of a rule. Experts may write them as clauses; a rule with text only has them derived here.

In: a RuleText and the pool. Out: cases (what must hold -> tool), main one first. A case is kept only where its words
set it apart from the rule's other live tools, so that no query can follow it and still fit another tool as well.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from synthesis.core.queries import Clause, RuleText, ToolText
from synthesis.core.readings import (
    CLASSIC,
    GERUND,
    HOLE,
    HOLE_MARKS,
    Reading,
    base_form,
    confusable_reading,
    target_reading,
)
from synthesis.core.words import STOP, content_stems, words

SPLIT = re.compile(
    r"(?<=[.;])\s+|;\s*|:\s+(?=⟦)|,\s+(?:and|but|while|whereas)\s+(?=⟦)|\s+(?:and|but|while|whereas)\s+(?=⟦)"
)
# words that say nothing of which tool is meant
VAGUE = frozenset(
    content_stems("data details information object resource record given specified existing single new")
)
AGAINST = re.compile(r"\b(?:instead of|rather than)\b|\bnot (?:with )?(?=⟦)")
DETAIL = re.compile(r"[,:;]\s|\s(?:by|with|that|which|including|via)\s")  # what a description goes on with
PLAIN_VERB = re.compile(r"^[A-Z][a-z]+$")
# what opens descriptions and is no verb, besides small words and gerunds
_NO_VERBS = """ability able amazon api app application custom data deprecated detailed fast free general latest last
live new online payment platform plugin powerful product real service simple site tool trusted utility website"""
ASKED = frozenset(["get", "see", "show"])  # small words in a request, verbs in a description
NO_VERB = frozenset(_NO_VERBS.split())


@dataclass(frozen=True, slots=True)
class Case:
    """A clause ready for use.

    `own`: the rule itself tells its cases apart, in clauses or in sentences, so that descriptions of tools decide
    nothing between them.
    """

    clause: Clause
    own: bool


def cases(rule: RuleText, pool: Mapping[str, ToolText]) -> list[Case]:
    """Every case that routes to a live tool of T(r), main one first."""
    return list(_cases(rule, tuple(pool.get(name) for name in rule.tools)))


@lru_cache(maxsize=4096)
def _cases(rule: RuleText, tools: tuple[ToolText | None, ...]) -> tuple[Case, ...]:
    alive = {tool.name: tool for tool in tools if tool is not None and not tool.deprecated}
    if rule.clauses:
        # a clause marked as an exception that still routes to the target is one more way to the target
        found = [Case(clause, True) for clause in rule.clauses if clause.route_to in alive]
    else:
        read = [clause for clause in derived(rule) if clause.route_to in alive]
        filled = [_filled(clause, alive) for clause in read]
        told = len(read) > 1 and bool(read[0].when)
        kept = [
            clause
            for clause, said in zip(filled, read, strict=True)
            if clause.when
            and (_apart(clause, filled, alive) or (clause.route_to == rule.target and said.when))
        ]
        found = [Case(replace(clause, signals=_only_here(clause, kept)), told) for clause in kept]
    return tuple(sorted(found, key=lambda case: case.clause.route_to != rule.target))


def _filled(clause: Clause, tools: Mapping[str, ToolText]) -> Clause:
    """Where the text says nothing of when a tool is right, or only under what limits, its own description does."""
    if clause.when and not clause.when.startswith("…"):
        return clause
    task = DETAIL.split(described_task(tools[clause.route_to].description))[0]
    limit = clause.when.removeprefix("… ")
    if content_stems(limit) <= content_stems(task):
        return replace(clause, when=task)
    known = re.match(r"for (an? \w+) (.+)$", limit)
    if known and known.group(1) in task:
        return replace(clause, when=task.replace(known.group(1), f"{known.group(1)} {known.group(2)}", 1))
    if (kind := re.match(r"for (\w+ (\w+)s)$", limit)) and (
        one := re.search(rf"\ban? {kind.group(2)}\b", task)
    ):
        return replace(clause, when=task.replace(one.group(), kind.group(1)))
    return replace(clause, when=f"{task} {limit}".strip())


def _apart(clause: Clause, found: list[Clause], tools: Mapping[str, ToolText]) -> bool:
    """Does the case say a word that no other live tool's case or first sentence says?"""
    mine = content_stems(clause.when)
    for other in found:
        if other.route_to == clause.route_to:
            continue
        theirs = content_stems(f"{other.when} {first_sentence(tools[other.route_to].description)}")
        if not mine - theirs - VAGUE:
            return False
    return True


def _only_here(clause: Clause, found: list[Clause]) -> tuple[str, ...]:
    """The words that this case alone says, as its signal: `newer` against `classic`."""
    others = content_stems(" ".join(other.when for other in found if other is not clause)) | VAGUE | STOP
    own = [word for word in words(clause.when) if content_stems(word) and not content_stems(word) & others]
    return (" ".join(own),) if own and len(found) > 1 else ()


def described_task(description: str) -> str:
    """A description's first sentence as a purpose: `Returns a list of X` -> `to get a list of X`."""
    sentence = re.sub(r"\s*\((?![A-Z][a-z]+\))[^)]*\)", "", first_sentence(description))
    verb, _, rest = re.sub(r"\s\((\w+)\)", r", \1", sentence).partition(" ")
    rest = re.split(
        r"\s(?:for the user specified|identified|specified by|using|via|based on)\b|\s\w+_\w+", rest
    )[0]
    if not _is_verb(verb) or not rest:
        return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence
    return f"to {base_form(verb) if verb.endswith('s') else verb.lower()} {rest}"


def _is_verb(first: str) -> bool:
    word = first.casefold()
    return bool(PLAIN_VERB.match(first)) and not (
        word in STOP - ASKED or word in NO_VERB or (len(word) > 5 and word.endswith("ing"))
    )


@lru_cache(maxsize=20_000)
def first_sentence(description: str) -> str:
    """A description's first sentence that says something, at most 20 words."""
    parts = [part for part in re.split(r"(?<=[.!?])\s+|\n", description.strip()) if len(words(part)) >= 2]
    sentence = (parts or [description.strip()])[0].rstrip(". ")
    return " ".join(sentence.split()[:20])


@lru_cache(maxsize=8192)
def told(rule: RuleText, name: str) -> str:
    """The part of the rule's text that names a tool first, without its full stop; empty where none does."""
    parts = re.split(r"(?<=\.)\s+|;\s+", rule.text)
    found = next((part for part in parts if name in part), "")
    return re.sub(r"\s+", " ", found).strip(" .;")


@lru_cache(maxsize=4096)
def derived(rule: RuleText) -> tuple[Clause, ...]:
    """Clauses read out of the rule's text, the target's first; a confusable's may be empty (see `_filled`)."""
    names = sorted(rule.tools, key=len, reverse=True)
    text = rule.text.translate(HOLE_MARKS)
    for number, name in enumerate(names):
        text = text.replace(name, f"⟦{number}⟧")
    parts = [part for part in SPLIT.split(text) if part.strip()]
    mine = [part for part in parts if f"⟦{names.index(rule.target)}⟧" in part]
    main = next((when for part in [*mine, *parts[:1]] if (when := target_reading(part))), "")
    task = main[main.find(", to ") + 2 :] if ", to " in main else main if main.startswith("to ") else ""
    task = re.split(r"\s(?:when|if)\s", task)[0]
    found = [Clause(main, rule.target)]
    for name in rule.confusables:
        hole = f"⟦{names.index(name)}⟧"
        readings = [
            _read(part, hole, part in mine, main, task) for part in parts if hole in part or name in part
        ]
        if not readings or all(reading.open for reading in readings):
            when = next((reading.when for reading in readings if reading.when), "")
            found.append(Clause(when, name, True))
    return tuple(found)


def _read(part: str, hole: str, shared: bool, main: str, task: str) -> Reading:
    """A part that names several confusables at once says nothing of one alone; nor does `not T` beside the target."""
    if not shared and len(set(HOLE.findall(part))) > 1:
        return replace(confusable_reading(part, main, task), when="")
    reading = confusable_reading(part, main, task)
    named_against = hole not in AGAINST.split(part)[0]
    if shared and named_against and not (GERUND.search(part) or CLASSIC.search(part)):
        return replace(reading, when="")
    return reading


def reasons_unsupported(rule: RuleText, pool: Mapping[str, ToolText]) -> dict[str, str]:
    """Styles the rule cannot support, each with the reason. No exception query may teach a dead tool."""
    found = cases(rule, pool)
    if not any(case.clause.route_to == rule.target for case in found):
        tool = pool.get(rule.target)
        dead = tool is None or tool.deprecated
        reason = (
            "The text does not say when the target is right and its look-alikes are not. Add a condition."
        )
        if dead:
            reason = "The target is deprecated or retired."
        return dict.fromkeys(("explicit", "implicit", "exception"), reason)
    if not any(case.clause.route_to != rule.target for case in found):
        alive = [name for name in rule.confusables if name in pool and not pool[name].deprecated]
        reason = (
            "The rule gives no case in which a confusable is clearly right."
            if alive
            else "Every confusable is deprecated or retired."
        )
        return {"exception": reason}
    return {}


def evidence(clause: Clause) -> frozenset[str]:
    """The content stems by which a clause is recognised."""
    return content_stems(f"{clause.when} {' '.join(clause.signals)}")
