"""Label correctness, the judge's third axis: which tools are right, derived again, compared with the answer.

With a rule, its cases are scored on the query: their condition, their signals, the rule's sentences about their tool,
and the limits they set (years, amounts, workdays, regions). Without a rule the tools' own words decide, and no part of
the query may ask for another tool.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from synthesis.core.judge_words import Known, known_rule, rarity, stems
from synthesis.core.limits import same_side, side
from synthesis.core.queries import JudgeRequest, RuleText, ToolText, by_name

PARTS = re.compile(r"[,;:.?!]\s|\s-\s|\b(?:and|then|also|plus|n|after\sthat|as\swell\sas)\b|&", re.IGNORECASE)
CLEAR = 2.0  # times the second tool's score: nobody would take that one
SAID = 3.0  # from here on a query says which case it is
LEAST = 4.0  # what a part of a query must weigh to ask for a tool of its own
LIMIT = 4.0  # how much a limit counts


def wrong_label(request: JudgeRequest) -> tuple[int, str]:
    """(score, what to change); 5 when what is derived here is the answer."""
    known = by_name(request.pool)
    if not request.answer or any(name not in known for name in request.answer):
        return 1, "The answer names no tool at all, or one that is not there."
    if dead := [name for name in request.answer if known[name].deprecated]:
        return 1, f"{dead[0]} is deprecated and never right."
    if request.rule is None:
        return _by_texts(request, [tool for tool in request.pool if not tool.deprecated])
    return _by_rule(request, request.rule)


def _by_rule(request: JudgeRequest, rule: RuleText) -> tuple[int, str]:
    if outside := [name for name in request.answer if name not in rule.tools]:
        return 1, f"{outside[0]} is not one of the rule's tools."
    scores = tool_scores(request.query, rule, request.pool)
    best = max(scores.values(), default=0.0)
    mine = min(scores.get(name, 0.0) for name in request.answer)
    winner = max(scores, key=lambda name: (scores[name], name), default="")
    if request.style == "underspecified":
        return (5, "") if best - mine < SAID else (2, f"Another case of the rule fits better: {winner}.")
    if best <= 0:
        return 2, "Nothing in the query tells which case of the rule holds; say what makes it that case."
    if len(request.answer) > 1 and mine < 0.75 * best:
        return 2, f"The rule leads to one tool here, {winner}; the others are too many."
    if mine >= best - 1e-9:
        rest = {name: score for name, score in scores.items() if name not in request.answer}
        second = max(rest, key=lambda name: (rest[name], name), default="")
        if mine < CLEAR * rest.get(second, 0.0):
            return 4, f"{second} is nearly as close."
        texts = _text_scores(request.query, [tool for tool in request.pool if not tool.deprecated])
        nearest = max(texts, key=lambda name: (texts[name], name))
        return (5, "") if nearest in request.answer else (4, f"{nearest}'s own words fit it better.")
    if mine >= 0.9 * best:
        return 4, ""
    return 2, f"By the rule the query belongs to {winner}."


def tool_scores(query: str, rule: RuleText | None, pool: Sequence[ToolText]) -> dict[str, float]:
    """How well the query fits each live tool: by the rule's cases, or by the tools' own words."""
    if rule is None:
        return _text_scores(query, [tool for tool in pool if not tool.deprecated])
    known, asked = known_rule(rule, pool), stems(query)
    texts: dict[str, float] = {}
    if not all(one.case.own for one in known.cases):
        texts = _text_scores(query, known.live)
    scores: dict[str, float] = {}
    for one in known.cases:
        score = _case_score(one, known.weights, query, asked)
        if not one.case.own:
            score += texts[one.tool]
        scores[one.tool] = max(scores.get(one.tool, 0.0), score)
    return scores


def _case_score(one: Known, weights: Mapping[str, float], query: str, asked: frozenset[str]) -> float:
    strength = strength_of(one.case.clause.signals, asked)
    condition = _weight(asked & one.condition, weights)
    hinted = _weight(asked & (one.every - one.condition), weights)
    limit = same_side(one.when, query) or side(one.when, query)
    if limit < 0 and strength > 0.5 and " or " in one.when:
        limit = 0  # another alternative of the condition holds
    return condition + 3 * strength + 0.5 * hinted + LIMIT * limit


def _weight(said: Iterable[str], weights: Mapping[str, float]) -> float:
    return math.fsum(weights.get(word, 0.0) for word in said)


def strength_of(signals: Iterable[str], asked: frozenset[str]) -> float:
    """The share of the best-matching signal's content words that the query says."""
    best = 0.0
    for signal in signals:
        wanted = stems(signal)
        if wanted:
            best = max(best, len(wanted & asked) / len(wanted))
    return best if best > 0.5 else 0.0


def _text_scores(query: str, tools: Sequence[ToolText]) -> dict[str, float]:
    return _scored(stems(query), *_texts(tools))


def _texts(tools: Sequence[ToolText]) -> tuple[dict[str, frozenset[str]], dict[str, float]]:
    """(words by tool, how much each word weighs)."""
    sets = {tool.name: stems(f"{tool.name} {tool.description}") for tool in tools}
    return sets, rarity(sets.values())


def _by_texts(request: JudgeRequest, live: Sequence[ToolText]) -> tuple[int, str]:
    """Each answer is among the tools whose own words the query says best, and no other part of it asks for one more."""
    sets, weights = _texts(live)
    scores = _scored(stems(request.query), sets, weights)
    ranked = sorted(scores.values(), reverse=True)
    floor = ranked[min(len(ranked) - 1, len(request.answer) + 3)] if ranked else 0.0
    parts = [_scored(stems(part), sets, weights) for part in PARTS.split(request.query) if stems(part)]
    for name in request.answer:
        leads = any(part[name] > 0 and part[name] >= 0.6 * max(part.values()) for part in parts)
        if scores.get(name, 0.0) <= 0 or (scores[name] < floor and not leads):
            return 2, f"The query does not ask for what {name} does."
    if len(request.answer) == 1 and scores[request.answer[0]] < 0.6 * ranked[0]:
        return 2, "The query fits another tool better."
    for part in parts:
        rival = max(part, key=lambda name: (part[name], name))
        if part[rival] > 1.5 * max(part[name] for name in request.answer) and part[rival] >= LEAST:
            return 2, f"The query also asks for what {rival} does."
    return 5, ""


def _scored(
    asked: frozenset[str], sets: Mapping[str, frozenset[str]], weights: Mapping[str, float]
) -> dict[str, float]:
    return {name: math.fsum(0.1 + weights[word] for word in asked & own) for name, own in sets.items()}
