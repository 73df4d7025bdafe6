"""Queries to a rule in prose, whose cases were read out of its sentences: one function per style.

In: a Scene, the case to follow with what the other cases own. Out: the request as text, before it is typed.
"""

import random
import re
from dataclasses import dataclass

from synthesis.core.clauses import Case
from synthesis.core.queries import Clause, QueryRequest, ToolText
from synthesis.core.words import content_stems
from synthesis.writers.frames import CONDITION, FOUND, HINTED, NEEDS, POINT
from synthesis.writers.hints import before_hinted, hints_for, shared_hints
from synthesis.writers.instances import filled, reason
from synthesis.writers.phrases import agreed, noun, one_of, phrase, terse
from synthesis.writers.typed import capital
from synthesis.writers.wants import (
    GENERIC,
    OPEN_QUESTION,
    Want,
    distinguishing,
    everyday,
    want_of,
    want_of_task,
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One case to follow. `keep`: content words of the rule's other cases, which the query must not say by chance."""

    request: QueryRequest
    case: Case
    rivals: tuple[Clause, ...]
    tool: ToolText
    keep: frozenset[str]
    turn: int

    @property
    def clause(self) -> Clause:
        return self.case.clause

    @property
    def hints(self) -> tuple[str, ...]:
        """What stands for this case and for none of the others."""
        return hints_for(self.clause.when, tuple(other.when for other in self.rivals))

    @property
    def shared(self) -> tuple[str, ...]:
        """What stands for a part of the condition that this case shares with another."""
        return shared_hints(self.clause.when, tuple(other.when for other in self.rivals))


def query(scene: Scene, rng: random.Random) -> str:
    """The request of the scene's style."""
    styles = {"explicit": _explicit, "implicit": _implicit, "underspecified": _bare}
    return styles.get(scene.request.style, _exception)(scene, rng)


def parted(when: str) -> tuple[str, str]:
    """(condition, purpose) of a case in words; either may be empty."""
    condition, found, task = when.partition(", to ")
    if found:
        return condition, f"to {task}"
    if when.startswith("to "):
        inner = re.match(r"(to .+?) (?:when|because|if) (.+)$", when)
        return (inner.group(2), inner.group(1)) if inner else ("", when)
    return when, ""


def _explicit(scene: Scene, rng: random.Random) -> str:
    """The rule's own purpose and condition, asked as a person would."""
    condition, task = parted(scene.clause.when)
    condition = _as_said(everyday(re.split(r", for example", condition)[0]))
    want = want_of_task(one_of(task, rng)) if task else _own_want(scene)
    short = rng.random() < 0.2
    asked = (
        terse(want, rng, scene.keep, whole=True)
        if short
        else phrase(want, rng, keep=scene.keep, synonyms=0.5)
    )
    if condition:
        if not task and len(content_stems(condition) & content_stems(want.thing)) > 0:
            return rng.choice(POINT).format(when=condition, When=capital(condition))
        return _framed(rng.choice(CONDITION), asked, condition, rng)
    return asked if short else _with_reason(asked, scene, rng)


def _as_said(condition: str) -> str:
    """`you do not have it` in a rule is `we do not have it` in a request."""
    condition = re.sub(r"^you are\b", "i am", condition)
    return re.sub(r"^you\b", "we", condition)


def _exception(scene: Scene, rng: random.Random) -> str:
    """A confusable's case: in the rule's words, with what goes with it, or by the confusable's own purpose."""
    hints = scene.hints
    if hints and not scene.shared and rng.random() < 0.3:
        return _framed(rng.choice(HINTED), _explicit_core(scene, rng), filled(rng.choice(hints), rng), rng)
    return _explicit(scene, rng)


def _explicit_core(scene: Scene, rng: random.Random) -> str:
    _, task = parted(scene.clause.when)
    return phrase(
        want_of_task(one_of(task, rng)) if task else _own_want(scene), rng, keep=scene.keep, named=0.2
    )


def _implicit(scene: Scene, rng: random.Random) -> str:
    """What somebody in that situation would say; the rule's words only where there are no others."""
    hints = scene.hints
    want = _own_want(scene)
    condition, task = parted(scene.clause.when)
    if hints:
        return _hinted(scene, _before_hint(task, want, rng), rng)
    if task and rng.random() < 0.5:
        want = want_of_task(one_of(task, rng))
    if rng.random() < 0.5:
        want = _shortened(want)
    roll = rng.random()
    if (
        roll < 0.4
        and (frames := NEEDS.get(FOUND.get(want.kind, want.kind)))
        and not OPEN_QUESTION.match(want.thing)
    ):
        return _needed(want, frames, scene, rng)
    text = terse(want, rng, scene.keep) if roll < 0.55 else phrase(want, rng, keep=scene.keep, synonyms=0.8)
    said = content_stems(text)
    own = [run for run in distinguishing(scene.tool, scene.request.pool) if not content_stems(run) & said]
    if len(said) < 4 and own and rng.random() < 0.5:
        text = f"{text}{rng.choice((', ', ' - ', ', i mean '))}{rng.choice(own[:3])}"
    return _with_reason(text, scene, rng) if roll >= 0.55 else text


def _hinted(scene: Scene, want: Want, rng: random.Random) -> str:
    """A wish and the hint at its case; what the case shares with the others is hinted at too, or it would be open."""
    hint = rng.choice(scene.hints)
    if scene.shared:
        hint = f"{hint}, {rng.choice(scene.shared)}"
    named = 0.0 if "{" in hint else 0.3
    few = rng.random() < 0.3 and not named
    want = _shortened(want) if rng.random() < 0.4 else want
    asked = (
        terse(want, rng, scene.keep, named=named) if few else phrase(want, rng, keep=scene.keep, named=named)
    )
    return _framed(rng.choice(HINTED), asked, filled(hint, rng), rng)


def _before_hint(task: str, own: Want, rng: random.Random) -> Want:
    """The purpose up to what is hinted at, where that says something; else the tool's own."""
    left = re.sub(
        r"(?:\s(?:in|of|and|or|by|its|with|an?|the|that|is|whose|for|to|on|from|at))+$",
        "",
        before_hinted(task).strip(),
    )
    says = re.match(r"to \w+ \S", left) and len(content_stems(left)) > 1 and " whether " not in left
    return want_of_task(one_of(left, rng)) if says and rng.random() < 0.6 else own


def _shortened(want: Want) -> Want:
    """The thing in at most two words: who is in the situation does not say all of it."""
    parts = want.head.split()
    if len(parts) == 3 and not (parts[0].endswith("ed") or parts[0][0].isupper() or parts[1] == "or"):
        return want
    head = re.sub(r"^(?:or|and) ", "", " ".join(parts[-2:]))
    if (
        head in GENERIC
        or OPEN_QUESTION.match(want.thing)
        or re.search(r"\d|\s(?:as|to|from|into)\s", want.thing)
    ):
        return want
    return Want(want.verb, want.kind, head)


def _needed(want: Want, frames: list[str], scene: Scene, rng: random.Random) -> str:
    frame = rng.choice(frames)
    named = 0.0 if "{company}" in frame else 0.6
    text = (
        agreed(frame, want)
        .replace("{np}", noun(want, rng, keep=scene.keep, named=named))
        .replace("{bare}", want.head)
    )
    return filled(text, rng)


def _bare(scene: Scene, rng: random.Random) -> str:
    """What is wanted without the fact that decides: the thing and its verb alone."""
    _, task = parted(scene.clause.when)
    want = want_of_task(one_of(task, rng)) if task else _own_want(scene)
    plain = Want(want.verb, want.kind, want.head)
    return phrase(plain, rng, keep=scene.keep) if rng.random() < 0.7 else terse(plain, rng, scene.keep)


def _own_want(scene: Scene) -> Want:
    return want_of(scene.tool.name, scene.tool.description)


def _framed(frame: str, asked: str, told: str, rng: random.Random) -> str:
    if "?" in asked or re.match(r"^(?:how|who|where|what|can|could|is|any|do|are|may)\b", asked):
        frame = frame if "since" not in frame and " by the way" not in frame else "{when}{hint}, {ask}"
    keys = {
        "ask": asked,
        "Ask": capital(asked),
        "when": told,
        "When": capital(told),
        "hint": told,
        "Hint": capital(told),
    }
    if "{when}{hint}" in frame:
        keys["hint"] = ""
    return frame.format(**keys)


def _with_reason(asked: str, scene: Scene, rng: random.Random) -> str:
    """Now and then why somebody asks; never in a word that another case owns."""
    if rng.random() > 0.42:
        return asked
    why = reason(rng)
    if content_stems(why) & scene.keep:
        return asked
    return rng.choice(
        (
            f"{asked}, {why}",
            f"{why}, {asked}",
            f"{asked} - {why}",
            f"{why}. {capital(asked)}",
            f"{asked}. {capital(why)}",
        )
    )
