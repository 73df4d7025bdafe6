"""Label correctness, the judge's third axis: which tools are right, derived again, compared with the answer.

With a rule, its cases are scored on the query: their condition, their signals, the rule's sentences about their tool,
and the limits they set (years, amounts, workdays, regions). Without a rule the tools' own words decide, and no part of
the query may ask for another tool.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from synthesis.core.queries import JudgeRequest, RuleText, ToolText, by_name
from synthesis.offline.judge_words import Known, known_rule, rarity, stems
from synthesis.offline.limits import same_side, side

PARTS = re.compile(r"[,;:.?!]\s|\s-\s|\b(?:and|then|also|plus|n|after\sthat|as\swell\sas)\b|&", re.IGNORECASE)
CLEAR = 2.0  # times the second tool's score: nobody would take that one
SAID = 3.0  # from here on a query says which case it is
LEAST = 4.0  # what a part of a query must weigh to ask for a tool of its own
NEAR = 0.4  # of the best tool's score, in the query or a part of it: that tool may be asked for
LIMIT = 4.0  # how much a limit counts


def wrong_label(request: JudgeRequest) -> tuple[int, str]:
    """(score, what to change); 5 when what is derived here is the answer."""
    known = by_name(request.pool)
    if not request.answer or any(name not in known for name in request.answer):
        return 1, "The answer names no tool at all, or one that is not there."
    if dead := [name for name in request.answer if known[name].deprecated]:
        return 1, f"{dead[0]} is deprecated and never right."
    return _by_rule(request, request.rule) if request.rule else _by_texts(request)


def _by_rule(request: JudgeRequest, rule: RuleText) -> tuple[int, str]:
    if outside := [name for name in request.answer if name not in rule.tools]:
        return 1, f"{outside[0]} is not one of the rule's tools."
    scores = tool_scores(request.query, rule, request.pool)
    mine = min(scores.get(name, 0.0) for name in request.answer)
    winner = _best(scores)
    best = scores.get(winner, 0.0)
    if request.style == "underspecified":
        return (5, "") if best - mine < SAID else (2, f"Another case of the rule fits better: {winner}.")
    if best <= 0:
        return 2, "Nothing in the query tells which case of the rule holds; say what makes it that case."
    if len(request.answer) > 1 and mine < 0.75 * best:
        return 2, f"The rule leads to one tool here, {winner}; the others are too many."
    if mine < 0.9 * best:
        return 2, f"By the rule the query belongs to {winner}."
    if mine < best - 1e-9:
        return 4, ""
    second = _best({name: score for name, score in scores.items() if name not in request.answer})
    if mine < CLEAR * scores.get(second, 0.0):
        return 4, f"{second} is nearly as close."
    nearest = _best(tool_scores(request.query, None, request.pool))
    return (5, "") if nearest in request.answer else (4, f"{nearest}'s own words fit it better.")


def _best(scores: Mapping[str, float]) -> str:
    return max(scores, key=lambda name: (scores[name], name), default="")


def tool_scores(query: str, rule: RuleText | None, pool: Sequence[ToolText]) -> dict[str, float]:
    """How well the query fits each live tool: by the rule's cases, or by the tools' own words."""
    if rule is None:
        return _text_scores(pool)(query)
    known, asked = known_rule(rule, pool), stems(query)
    # where the rule itself does not tell its cases apart, the tools' own words help
    texts = {} if all(one.case.own for one in known.cases) else _text_scores(known.live)(query)
    scores: dict[str, float] = {}
    for one in known.cases:
        score = _case_score(one, known.weights, query, asked) + texts.get(one.tool, 0.0)
        scores[one.tool] = max(scores.get(one.tool, 0.0), score)
    return scores


def _case_score(one: Known, weights: Mapping[str, float], query: str, asked: frozenset[str]) -> float:
    condition, hinted = asked & one.condition, asked & (one.every - one.condition)
    said = math.fsum([*(weights[word] for word in condition), *(0.5 * weights[word] for word in hinted)])
    strength = strength_of(one.case.clause.signals, asked)
    limit = same_side(one.when, query) or side(one.when, query)
    if limit < 0 and strength and " or " in one.when:
        limit = 0  # another alternative of the condition holds
    return said + 3 * strength + LIMIT * limit


def strength_of(signals: Iterable[str], asked: frozenset[str]) -> float:
    """The share of the best-matching signal's content words that the query says, where that is more than half."""
    wanted = [found for signal in signals if (found := stems(signal))]
    best = max((len(one & asked) / len(one) for one in wanted), default=0.0)
    return best if best > 0.5 else 0.0


def _text_scores(tools: Iterable[ToolText]) -> Callable[[str], dict[str, float]]:
    """Scores a text for each live tool by the tool's own words, rare ones the most."""
    sets = {tool.name: stems(f"{tool.name} {tool.description}") for tool in tools if not tool.deprecated}
    weights = rarity(sets.values())

    def scores(text: str) -> dict[str, float]:
        asked = stems(text)
        return {name: math.fsum(0.1 + weights[word] for word in asked & own) for name, own in sets.items()}

    return scores


def _by_texts(request: JudgeRequest) -> tuple[int, str]:
    """The query or a part of it says each answer's words nearly best, and no part asks for one tool more."""
    read = _text_scores(request.pool)
    whole, parts = read(request.query), [read(part) for part in PARTS.split(request.query)]
    for name in request.answer:
        if not any(0 < said[name] >= NEAR * max(said.values()) for said in (whole, *parts)):
            return 2, f"The query does not ask for what {name} does."
    if len(request.answer) == 1 and whole[request.answer[0]] < 0.6 * max(whole.values()):
        return 2, "The query fits another tool better."
    for part in parts:
        rival = _best(part)
        if part[rival] > 1.5 * max(part[name] for name in request.answer) and part[rival] >= LEAST:
            return 2, f"The query also asks for what {rival} does."
    return 5, ""
