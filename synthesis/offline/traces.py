"""The template trace writer: the deliberative schema in plain sentences, deterministic by seed.

restate -> permission step (only with targets) -> compare services -> weigh the contenders -> the rule's code and the
case that decides, in its own words -> commit. What it says of a tool stands in the rule or in the tool's description.
"""

import random
import re
from collections.abc import Sequence
from typing import Any

from synthesis.core.clauses import cases, described_task, evidence, told
from synthesis.core.queries import Clause, RuleText, ToolText, TraceDraft, TraceRequest, by_name
from synthesis.core.traces import Steps
from synthesis.core.words import content_stems
from synthesis.offline.wishes import LOOSE_END, READING, wish_of

ASKED = (
    "Somebody wants to {wish}.", "The request is to {wish}.", "They need to {wish}.", "Wanted: to {wish}.",
)  # fmt: skip
QUOTED = ('It says "{said}".', 'The words are "{said}".', 'What counts is "{said}".', '"{said}" is the clue.')
KINDS = {
    "something taken away": {"delete", "remove", "cancel", "rid", "void", "stop"},
    "something changed": {"update", "change", "correct", "edit", "adjust"},
    "something set up": {"create", "make", "set", "add", "enter", "start", "submit"},
    "something shown": READING,
}
WISHED = (
    "Somebody wants {wish}.", "Needed: {wish}.", "The request asks for {wish}.", "The wish is {wish}.",
)  # fmt: skip
PERMITTED = ("Access for this is allowed.", "They may use what this takes.", "Access covers it.")
SERVICES = ("{apis} could serve this.", "The services to compare are {apis}.", "I compare {apis} first.")
SERVICE = ("This lies with {apis}.", "{apis} is the service for it.", "Only {apis} is concerned.")
CLOSE = (
    "The nearest are {names}.", "It comes down to {names}.", "What could be meant: {names}.",
)  # fmt: skip
# the closest is named first where nothing but the descriptions decides, always after the same word: a small decoder
# knows what to name by the word it has just written
NEAREST = ("Closest is {first}, then {others}.", "By purpose the closest is {first}, then {others}.")
DECIDES = (
    "{code} decides: {case}, so it is {name}.", "By {code}, {case}: {name}.",
    "{code} settles it: {case}, hence {name}.",
)  # fmt: skip
OTHERWISE = (
    "{name} would need another case: {case}.", "Not {name}: its case is that {case}.",
    "{name} is for another case: {case}.",
)  # fmt: skip
ELSEWHERE = (
    "{name} is there {case}, which is another wish.", "Not {name}, which serves {case}.", "{name} is left {case}.",
)  # fmt: skip
TOLD = (
    "{code} decides: {sentence}.", "The rule {code} says: {sentence}.", "What settles it is {code}: {sentence}.",
)  # fmt: skip
DEAD = (
    "{name} reads the same but is deprecated.", "Not {name}, it is deprecated.",
    "{name} is deprecated and drops out.",
)  # fmt: skip
ANSWERS = (
    '{name} fits "{said}": it serves {task}.', '{name} answers "{said}", it is there {task}.',
    '{name} is the one for "{said}": {task}.',
)  # fmt: skip
SECOND = (
    "The second is near, but serves {task}.", "Not the second, which is there {task}.",
    "The second differs: {task}.",
)  # fmt: skip
COMMIT = (
    "So {names}.", "I choose {names}.", "Therefore {names}.", "That leaves {names}.", "I take {names}.",
)  # fmt: skip
TASK_WORDS, CASE_WORDS, SAID_WORDS = 14, 40, 12
PART = re.compile(r"(?<=[.?!;:])\s+|\s[-(]\s?|,\s|[()]\s?")


class TemplateTraceWriter:
    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "template-traces-2"}

    async def write(self, request: TraceRequest) -> TraceDraft:
        rng = random.Random(f"{request.seed}|trace|{request.attempt}")
        pool = by_name(request.pool)
        answers = [pool[name] for name in request.answer]
        rivals = _rivals(request, pool, rng)
        alone = request.rule is None and len(answers) == 1
        return TraceDraft(
            Steps(
                intent=rng.choice(WISHED).format(wish=_kind(request.query))
                if alone
                else _intent(request, answers, rng),
                permissions=rng.choice(PERMITTED) if request.permissions else "",
                apis=_services([*answers, *rivals], rng),
                endpoints=(_nearest if alone else _close)(answers, rivals, rng),
                rule=_by_rule(request, request.rule, pool, rivals, rng)
                if request.rule
                else _by_texts(request, answers, rivals, rng),
                commit=rng.choice(COMMIT).format(names=listed(request.answer)),
            ).text()
        )


def _rivals(request: TraceRequest, pool: dict[str, ToolText], rng: random.Random) -> list[ToolText]:
    """The two most easily taken for the answer: live ones of T(r), else its dead ones; without a rule, by words."""
    if request.rule:
        others = [pool[name] for name in request.rule.tools if name in pool and name not in request.answer]
        others = [tool for tool in others if not tool.deprecated] or others
        return rng.sample(others, min(2, len(others)))
    asked = content_stems(request.query)
    live = [tool for tool in request.pool if not tool.deprecated and tool.name not in request.answer]
    near = sorted(
        live, key=lambda one: (-len(asked & content_stems(f"{one.endpoint} {one.description}")), one.name)
    )
    return near[:2]


def _kind(query: str) -> str:
    """What kind of thing is wanted, by the request's own words alone: the answer is not known yet."""
    said = set(re.findall(r"[a-z-]+", query.casefold()))
    return next((kind for kind, verbs in KINDS.items() if said & verbs), "something done")


def _intent(request: TraceRequest, answers: Sequence[ToolText], rng: random.Random) -> str:
    """What is asked, and the request's own words on which it turns."""
    wishes = [wish.text for tool in answers if (wish := wish_of(tool.description))]
    asked = rng.choice(ASKED).format(wish=listed(wishes)) if wishes else ""
    return f"{asked} {rng.choice(QUOTED).format(said=_said(request.query, _known(request)))}".strip()


def _said(query: str, known: frozenset[str]) -> str:
    """The part of a query that says most of what is known."""
    parts = [part.strip(" .?!;:-()") for part in PART.split(query)]
    best = max(parts, key=lambda part: (len(content_stems(part) & known), len(content_stems(part))))
    return LOOSE_END.sub("", " ".join(best.replace('"', "").split()[:SAID_WORDS]))


def _known(request: TraceRequest) -> frozenset[str]:
    pool = by_name(request.pool)
    found = frozenset[str]().union(*(content_stems(pool[name].description) for name in request.answer))
    if request.rule:
        clauses = [
            case.clause for case in cases(request.rule, pool) if case.clause.route_to in request.answer
        ]
        found = frozenset[str]().union(*map(evidence, clauses)) or found
    return found


def _services(tools: Sequence[ToolText], rng: random.Random) -> str:
    apis = list(dict.fromkeys(tool.api for tool in tools))
    rng.shuffle(apis)
    return rng.choice(SERVICES if len(apis) > 1 else SERVICE).format(apis=listed(apis))


def _close(answers: Sequence[ToolText], rivals: Sequence[ToolText], rng: random.Random) -> str:
    names = [tool.name for tool in (*answers, *rivals)]
    rng.shuffle(names)
    return rng.choice(CLOSE).format(names=listed(names)) if rivals else ""


def _nearest(answers: Sequence[ToolText], rivals: Sequence[ToolText], rng: random.Random) -> str:
    others = listed([tool.name for tool in rivals])
    return rng.choice(NEAREST).format(first=answers[0].name, others=others) if rivals else ""


def _by_rule(
    request: TraceRequest,
    rule: RuleText,
    pool: dict[str, ToolText],
    rivals: Sequence[ToolText],
    rng: random.Random,
) -> str:
    """Why the nearest contender is not meant, and the case of the rule that decides."""
    asked = content_stems(request.query)
    found = [case.clause for case in cases(rule, pool)]
    mine = [clause for clause in found if clause.route_to in request.answer] or found[:1]
    others = [clause for clause in found if clause.route_to not in request.answer]
    decisive = max(mine, key=lambda clause: len(asked & evidence(clause)))
    parts = [_decides(rule, decisive, rng)]
    dead = [tool for tool in rivals if tool.deprecated]
    if others:
        near = max(others, key=lambda clause: (len(asked & evidence(clause)), clause.route_to))
        frames = ELSEWHERE if near.when.startswith("to ") else OTHERWISE
        parts.insert(0, rng.choice(frames).format(name=near.route_to, case=_case(near)))
    elif dead:
        parts.insert(rng.choice((0, 1)), rng.choice(DEAD).format(name=dead[0].name))
    return " ".join(parts)


def _decides(rule: RuleText, clause: Clause, rng: random.Random) -> str:
    """The case as the rule's own sentence has it where that is short, else by its condition."""
    sentence = told(rule, clause.route_to)
    if not rule.clauses and 4 <= len(sentence.split()) <= CASE_WORDS and rng.random() < 0.5:
        return rng.choice(TOLD).format(code=rule.code, sentence=sentence)
    return rng.choice(DECIDES).format(code=rule.code, case=_case(clause), name=clause.route_to)


def _case(clause: Clause) -> str:
    """A case in running text."""
    text = re.sub(r"[.!?]+\s", "; ", clause.when).strip(" .").replace(", to ", " and the wish is to ")
    return " ".join(text.split()[:CASE_WORDS]).strip(" ,;")


def _by_texts(
    request: TraceRequest, answers: Sequence[ToolText], rivals: Sequence[ToolText], rng: random.Random
) -> str:
    """Without a rule: what each answer does, in its description's words, and what the nearest look-alike does."""
    parts = []
    for tool in answers:
        said = _said(request.query, content_stems(tool.description))
        parts.append(rng.choice(ANSWERS).format(name=tool.name, task=_task(tool), said=said))
    if len(answers) == 1:
        parts += [rng.choice(SECOND).format(task=_task(tool)) for tool in rivals[:1]]
    return " ".join(parts)


def _task(tool: ToolText) -> str:
    """What a tool does, in at most 14 words of its description."""
    text = re.sub(r"[.!?]+\s", "; ", described_task(tool.description))
    return LOOSE_END.sub("", " ".join(text.split()[:TASK_WORDS]).strip(" ,;:"))


def listed(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else "".join(names)
