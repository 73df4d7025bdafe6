"""The offline trace writer: the deliberative schema in short, varied prose (40 to 90 words), full tool names.

restate -> permission step (only when targets are present) -> compare APIs -> narrow endpoints -> rule code and its
decisive case -> commit. Deterministic by seed.
"""

import random
import re
from collections.abc import Sequence
from typing import Any

from synthesis.core.clauses import cases, first_sentence
from synthesis.core.judge import tool_scores
from synthesis.core.queries import Clause, ToolText, TraceDraft, TraceRequest, by_name
from synthesis.core.traces import Steps
from synthesis.core.words import STOP, content_stems, stem, words
from synthesis.writers.wants import want_of

INTENT = [
    "The request is about {things}; '{said}' is what counts in it.",
    "Somebody needs {things}, and the words that matter are '{said}'.",
    "What is wanted here: {things}, told by '{said}'.",
    "The user wants {things} and says '{said}'.",
    "The need is {things}, seen from '{said}'.",
    "I read '{said}' as a request for {things}.",
    "So the ask is {things}, in their words '{said}'.",
    "In short: {things}, with '{said}'.",
]
PERMISSIONS = [
    "The person may work in this area, so what lies outside it is left aside.",
    "Their access covers this kind of data; anything beyond it is ruled out.",
    "The access they hold reaches the records in question, and tools outside it do not count.",
    "Within what this person may use, the relevant services remain.",
]
APIS_MANY = [
    "{apis} all deal with {thing}.",
    "Services that touch {thing} are {apis}.",
    "For {thing} there are {apis}.",
    "{thing} could come from {apis}.",
    "Looking at {thing}, {apis} come to mind.",
]
APIS_ONE = [
    "{apis} is the service for {thing}.",
    "This belongs to {apis}, which deals with {thing}.",
    "{thing} is the work of {apis}.",
    "The service that deals with {thing} is {apis}.",
]
ENDPOINTS = [
    "The look-alikes are {names}.", "Close to each other are {names}.", "It comes down to {names}.",
    "{names} read almost the same.", "Between {names} the words alone do not decide.",
]  # fmt: skip
RULE = [
    "{code} decides: when {when}, it is {name}.",
    "By {code}, {when} means {name}.",
    "{code} says that if {when}, {name} is right.",
    "The rule {code} settles it: {when} leads to {name}.",
    "Here {code} applies: {when}, hence {name}.",
    "{code} is the rule for this: {when} goes to {name}.",
]
NOT = [
    "{name} would need that {when}.", "{name} is for another case: {when}.", "Were it that {when}, {name} would fit.",
    "{name} applies only if {when}.",
]  # fmt: skip
DOES = [
    "{name}: {what}.",
    "{name} does this: {what}.",
    "What {name} does: {what}.",
    "{name} covers it: {what}.",
]
ELSE = [
    "{name} is near, but: {what}.",
    "{name} is for something else: {what}.",
    "Not {name}, whose work is: {what}.",
    "{name} differs: {what}.",
]
COMMIT = ["So {names}.", "I choose {names}.", "The answer is {names}.", "Therefore {names}.", "That leaves {names}.",
    "Hence {names}.", "{names} it is."]  # fmt: skip


class OfflineTraceWriter:
    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-traces-2"}

    async def write(self, request: TraceRequest) -> TraceDraft:
        rng = random.Random(f"{request.seed}|trace|{request.attempt}")
        pool = by_name(request.pool)
        answers = [pool[name] for name in request.answer]
        rivals = _rivals(request, pool, rng)
        thing = _thing(answers[0])
        steps = Steps(
            intent=rng.choice(INTENT).format(
                things=_listed(list(dict.fromkeys(map(_thing, answers)))), said=_said(request)
            ),
            permissions=rng.choice(PERMISSIONS) if request.permissions else "",
            apis=_apis([*answers, *rivals], thing, rng),
            endpoints=_endpoints(answers, rivals, rng) if rivals else "",
            rule=_rule_step(request, pool, rng) if request.rule else _text_step(answers, rivals, rng),
            commit=rng.choice(COMMIT).format(names=_listed(request.answer)),
        )
        return TraceDraft(steps.text())


def _thing(tool: ToolText) -> str:
    return re.sub(r"[.!?]+\s", " ", want_of(tool.name, tool.description).head)


def _rivals(request: TraceRequest, pool: dict[str, ToolText], rng: random.Random) -> list[ToolText]:
    """The live tools most easily taken for the answer: T(r) first, else the best by the query's words."""
    if request.rule:
        names = [name for name in request.rule.tools if name in pool and name not in request.answer]
    else:
        scores = tool_scores(request.query, None, request.pool)
        names = sorted((name for name in scores if name not in request.answer), key=lambda n: (-scores[n], n))
    live = [pool[name] for name in names if not pool[name].deprecated]
    return live[:2] if request.rule is None else rng.sample(live, min(2, len(live)))


def _apis(tools: Sequence[ToolText], thing: str, rng: random.Random) -> str:
    apis = list(dict.fromkeys(tool.api for tool in tools))
    rng.shuffle(apis)
    frames = APIS_MANY if len(apis) > 1 else APIS_ONE
    text = rng.choice(frames).format(apis=_listed(apis), thing=thing)
    return text[:1].upper() + text[1:]


def _endpoints(answers: Sequence[ToolText], rivals: Sequence[ToolText], rng: random.Random) -> str:
    names = [tool.name for tool in (*answers[:1], *rivals)]
    rng.shuffle(names)
    return rng.choice(ENDPOINTS).format(names=_listed(names))


def _rule_step(request: TraceRequest, pool: dict[str, ToolText], rng: random.Random) -> str:
    """Cite the rule's code and the case that decides; sometimes why the nearest other case does not hold."""
    assert request.rule is not None
    found = [case.clause for case in cases(request.rule, pool)]
    mine = [clause for clause in found if clause.route_to in request.answer] or found[:1]
    decisive = max(mine, key=lambda clause: _fit(clause, request.query))
    text = rng.choice(RULE).format(code=request.rule.code, when=_case(decisive), name=decisive.route_to)
    others = [clause for clause in found if clause.route_to not in request.answer]
    if others and len(text.split()) < 45 and rng.random() < 0.7:
        near = max(others, key=lambda clause: (_fit(clause, request.query), clause.route_to))
        text = rng.choice(NOT).format(name=near.route_to, when=_case(near)) + " " + text
    return text


def _case(clause: Clause) -> str:
    text = _own_voice(re.sub(r"[.!?]+\s", "; ", clause.when)).strip(" .")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _own_voice(text: str) -> str:
    """`the provided list` in a description would sound as if the list were given here."""
    return re.sub(r"\b(?:provided|given|supplied|listed|selected|correct)\s(?=\w)", "", text)


def _fit(clause: Clause, query: str) -> int:
    return len(content_stems(query) & content_stems(f"{clause.when} {' '.join(clause.signals)}"))


def _said(request: TraceRequest) -> str:
    """The query's own words that count: its longest run of words a case of the rule knows, else its content words."""
    known = {
        part for case in _clauses(request) for part in content_stems(f"{case.when} {' '.join(case.signals)}")
    }
    said = re.findall(r"[^\W_]+(?:[-'/][^\W_]+)*", request.query)
    runs: list[list[str]] = [[]]
    for word in said:
        if any(stem(part) in known for part in words(word)):
            runs[-1].append(word)
        elif not (runs[-1] and word.casefold() in STOP):
            runs.append([])
    best = max(runs, key=len)
    if len(content_stems(" ".join(best))) < 2:
        best = [word for word in said if content_stems(word)] or said
    return " ".join(best[:6])


def _clauses(request: TraceRequest) -> list[Clause]:
    if request.rule is None:
        return []
    found = [case.clause for case in cases(request.rule, by_name(request.pool))]
    return [clause for clause in found if clause.route_to in request.answer] or found


def _text_step(answers: Sequence[ToolText], rivals: Sequence[ToolText], rng: random.Random) -> str:
    """Without a rule: what each answer does, in its description's words, and what the nearest look-alike does."""
    limit = 24 if len(answers) == 1 else 11
    parts = [rng.choice(DOES).format(name=tool.name, what=_what(tool, limit)) for tool in answers]
    if len(answers) == 1 and rivals:
        parts.insert(0, rng.choice(ELSE).format(name=rivals[0].name, what=_what(rivals[0], 14)))
    return " ".join(parts)


def _what(tool: ToolText, limit: int) -> str:
    what = re.sub(r"[.!?]+\s", "; ", first_sentence(tool.description))
    what = " ".join(_own_voice(what).split()[:limit]).strip(" ,;:")
    return what[:1].lower() + what[1:]


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
