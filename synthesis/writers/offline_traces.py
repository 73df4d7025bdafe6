"""The offline trace writer: the deliberative schema in short, varied prose (30 to 110 words), full tool names.

restate -> permission step (only when targets are present) -> compare APIs -> weigh the contenders -> rule code and its
decisive case -> commit. Everything it says of a tool is in the rule's text or the tool's description. Deterministic by
seed. Without a rule nothing decides but what the tools do: one that is asked for alone is named first, as the closest,
after the kind of thing that is wanted and before any word of the request is quoted. The words of a tool would have
chosen it before any was compared, and a small model quotes words nobody has said and follows them.
"""

import random
import re
from collections.abc import Sequence
from typing import Any

from synthesis.core.clauses import cases, described_task, first_sentence, in_text, told
from synthesis.core.judge import tool_scores
from synthesis.core.queries import Clause, RuleText, ToolText, TraceDraft, TraceRequest, by_name
from synthesis.core.traces import Steps
from synthesis.core.words import content_stems, words
from synthesis.writers import reasoning
from synthesis.writers.hints import hint_in
from synthesis.writers.phrases import plural
from synthesis.writers.restated import asked_in, said_in, wish_in
from synthesis.writers.stated import SENTENCE
from synthesis.writers.wants import want_of

CASE_WORDS = 40
# words a sentence that was cut short may not end with
OPEN_END = "and|or|the|an?|of|for|to|in|with|that|which|by|on|from|is|are|such|as|its|it|your|our|their|can|where|you"


class OfflineTraceWriter:
    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-traces-7"}

    async def write(self, request: TraceRequest) -> TraceDraft:
        rng = random.Random(f"{request.seed}|trace|{request.attempt}")
        pool = by_name(request.pool)
        answers = [pool[name] for name in request.answer]
        rivals = _rivals(request, pool, rng)
        thing = _thing(answers[0])
        alone = request.rule is None and len(answers) == 1
        intent = _restated(request, rng) if alone else _intent(request, answers, rng)
        permissions = rng.choice(reasoning.PERMISSIONS).format(thing=thing) if request.permissions else ""
        apis = _apis([*answers, *rivals], "" if alone else thing, rng)
        endpoints = (_nearest if alone else _endpoints)(answers, rivals, rng)
        services = {tool.api for tool in (*answers, *rivals)}
        if alone and len(services) == 1:  # nothing to compare: only a remark
            apis, endpoints = "", f"{endpoints} {apis}".strip()
        steps = Steps(
            intent=intent,
            permissions=permissions,
            apis=apis,
            endpoints=endpoints,
            rule=(_rule_step if request.rule else _text_step)(request, pool, rivals, rng),
            commit=rng.choice(reasoning.COMMIT).format(names=listed(request.answer)),
        )
        return TraceDraft(steps.text())


def _thing(tool: ToolText) -> str:
    return re.sub(r"[.!?]+\s", " ", want_of(tool.name, tool.description).head)


def _task(tool: ToolText) -> str:
    want = want_of(tool.name, tool.description)
    return f"{want.verb} {want.thing}"


def _intent(request: TraceRequest, answers: Sequence[ToolText], rng: random.Random) -> str:
    """What is asked, opened by its own words: the task, the thing, or what the query says of the situation."""
    tasks = listed(
        [_task(tool) for tool in answers] if len(answers) < 3 else list(dict.fromkeys(map(_thing, answers)))
    )
    said = said_in(request)
    frames = reasoning.INTENT_ONE if len(answers) < 3 else reasoning.INTENT_MANY
    text = _agreed(rng.choice(frames), answers[0]).format(task=tasks, thing=_thing(answers[0]), said=said)
    return text[:1].upper() + text[1:]


def _restated(request: TraceRequest, rng: random.Random) -> str:
    """What is asked, by the words of the request alone."""
    return rng.choice(reasoning.WISHED).format(wish=wish_in(request.query))


def _rivals(request: TraceRequest, pool: dict[str, ToolText], rng: random.Random) -> list[ToolText]:
    """What is most easily taken for the answer: live tools of T(r), else its dead ones; without a rule, by words."""
    if request.rule:
        others = [pool[name] for name in request.rule.tools if name in pool and name not in request.answer]
        live = [tool for tool in others if not tool.deprecated]
        chosen = live or others
        return rng.sample(chosen, min(2, len(chosen)))
    scores = tool_scores(request.query, None, request.pool)
    names = sorted(
        (name for name in scores if name not in request.answer), key=lambda name: (-scores[name], name)
    )
    return [pool[name] for name in names if not pool[name].deprecated][:2]


def _agreed(frame: str, tool: ToolText) -> str:
    """`{thing} is` in the number of the thing."""
    if not plural(want_of(tool.name, tool.description)):
        return frame
    return frame.replace("{thing} is", "{thing} are").replace("{thing} belongs", "{thing} belong")


def _apis(tools: Sequence[ToolText], thing: str, rng: random.Random) -> str:
    """The services to compare, and what they are compared for unless `thing` is empty."""
    apis = list(dict.fromkeys(tool.api for tool in tools))
    rng.shuffle(apis)
    frames = reasoning.APIS_MANY if len(apis) > 1 else reasoning.APIS_ONE
    frames = frames if thing else [frame for frame in frames if "{thing}" not in frame]
    text = _agreed(rng.choice(frames), tools[0]).format(apis=listed(apis), thing=thing)
    return text[:1].upper() + text[1:]


def _endpoints(answers: Sequence[ToolText], rivals: Sequence[ToolText], rng: random.Random) -> str:
    if not rivals:
        return ""
    names = [tool.name for tool in (*answers[:1], *rivals)]
    rng.shuffle(names)
    return rng.choice(reasoning.ENDPOINTS).format(names=listed(names))


def _nearest(answers: Sequence[ToolText], rivals: Sequence[ToolText], rng: random.Random) -> str:
    """The contenders, the closest first."""
    if not rivals:
        return ""
    others = listed([tool.name for tool in rivals])
    return rng.choice(reasoning.NEAREST).format(first=answers[0].name, others=others)


def _rule_step(
    request: TraceRequest, pool: dict[str, ToolText], rivals: Sequence[ToolText], rng: random.Random
) -> str:
    """Why the nearest contender is not meant, then the rule's code and the case that decides."""
    assert request.rule is not None
    rule = request.rule
    found = [case.clause for case in cases(rule, pool)]
    mine = [clause for clause in found if clause.route_to in request.answer] or found[:1]
    decisive = max(mine, key=lambda clause: _fit(clause, request.query))
    parts = [_decisive(request, decisive, rng)]
    if clue := hint_in(request.query, decisive.when, tuple(one.when for one in found if one not in mine)):
        parts.insert(0, rng.choice(reasoning.CLUE).format(clue=clue))
    others = [clause for clause in found if clause.route_to not in request.answer]
    dead = [tool for tool in rivals if tool.deprecated]
    if others and rng.random() < 0.75:
        near = max(others, key=lambda clause: (_fit(clause, request.query), clause.route_to))
        parts.insert(rng.choice((0, 0, len(parts))), _other_case(near, rng))
    elif dead and not others:
        parts.insert(rng.choice((0, len(parts))), rng.choice(reasoning.DEAD).format(name=dead[0].name))
    elif rivals and not others:
        parts.insert(0, _besides(rule, rivals[0], rng))
    return " ".join(parts)


def _besides(rule: RuleText, rival: ToolText, rng: random.Random) -> str:
    """A look-alike without a case of its own: what the rule says of it, else what its description does."""
    sentence = told(rule, rival.name)
    if sentence and rule.target not in sentence and len(sentence.split()) <= CASE_WORDS:
        return f"{sentence}."
    return _told_of(rival, 14, reasoning.ELSE, rng)


def _decisive(request: TraceRequest, clause: Clause, rng: random.Random) -> str:
    """The case in the form it has: a condition, a purpose, both; a short one as the rule's own sentence says it."""
    assert request.rule is not None
    code, name = request.rule.code, clause.route_to
    if not request.rule.clauses and len(content_stems(clause.when)) < 4:
        sentence = told(request.rule, name)
        if 4 <= len(sentence.split()) <= CASE_WORDS:
            return rng.choice(reasoning.TOLD).format(code=code, sentence=sentence, name=name)
    when = case_words(clause.when)
    if not request.rule.clauses and not in_text(request.rule, name):
        return rng.choice(reasoning.UNSAID).format(
            code=code, when=when, name=name, target=request.rule.target
        )
    frames = reasoning.RULE if SENTENCE.search(when) else reasoning.RULE_THING
    if when.startswith("to "):
        frames = reasoning.RULE_TO
    return rng.choice(frames).format(code=code, when=when, name=name)


def _other_case(clause: Clause, rng: random.Random) -> str:
    when = case_words(clause.when)
    frames = reasoning.NOT if SENTENCE.search(when) else reasoning.NOT_THING
    if when.startswith("to "):
        frames = reasoning.NOT_TO
    return rng.choice(frames).format(name=clause.route_to, when=when)


def case_words(when: str) -> str:
    """A case in running text, at most 40 words."""
    text = _own_voice(re.sub(r"[.!?]+\s", "; ", when)).strip(" .").replace(", to ", " and the need is to ")
    text = " ".join(text.split()[:CASE_WORDS]).strip(" ,;")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _own_voice(text: str) -> str:
    """`the provided list` in a description would sound as if the list were given here."""
    return re.sub(r"\b(?:provided|given|supplied|listed|selected|correct)\s(?=\w)", "", text)


def _fit(clause: Clause, query: str) -> int:
    return len(content_stems(query) & content_stems(f"{clause.when} {' '.join(clause.signals)}"))


def _text_step(
    request: TraceRequest, pool: dict[str, ToolText], rivals: Sequence[ToolText], rng: random.Random
) -> str:
    """Without a rule: what each answer does, in its description's words, and what the nearest look-alike does."""
    answers = [pool[name] for name in request.answer]
    if len(answers) == 1:
        parts = [_told_of(answers[0], 12, reasoning.ANSWERS, rng, asked_in(request.query))]
        parts += [_told_of(rival, 10, reasoning.SECOND, rng) for rival in rivals[:1]]
    else:
        parts = [_told_of(tool, 10, reasoning.DOES, rng) for tool in answers]
        if len(answers) == 2 and rivals:
            parts.insert(0, _told_of(rivals[0], 10, reasoning.ELSE, rng))
    return " ".join(parts)


def _told_of(tool: ToolText, limit: int, frames: Sequence[str], rng: random.Random, said: str = "") -> str:
    """What a tool does, in a sentence. `{what}` needs a purpose (`to find papers`), which not every description is."""
    what = _what(tool, limit)
    if not what.startswith("to "):
        frames = [frame for frame in frames if "{what}" not in frame]
    return rng.choice(frames).format(name=tool.name, what=what, do=what.removeprefix("to "), said=said)


def _what(tool: ToolText, limit: int) -> str:
    what = (
        described_task(tool.description)
        if len(words(tool.description)) > 1
        else first_sentence(tool.description)
    )
    what = re.sub(r"[.!?]+\s", "; ", _own_voice(what))
    cut = " ".join(what.split()[:limit]).strip(" ,;:")
    cut = re.sub(rf"(?:,?\s(?:{OPEN_END}))+$", "", cut)
    return cut or " ".join(words(tool.endpoint))


def listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
