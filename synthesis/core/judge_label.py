"""Label correctness, the judge's third axis: which tools are right, derived again, compared with the answer.

With a rule, its cases are scored on the query: their condition, their signals, the rule's sentences about their tool,
and the limits they set (years, amounts, workdays, regions); a case that the rule's text puts above the others wins over
them. Without a rule the tools' own words decide, and nothing the query asks for may be left out.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from synthesis.core.clauses import Case, cases
from synthesis.core.limits import side
from synthesis.core.queries import Clause, JudgeRequest, RuleText, ToolText, by_name
from synthesis.core.words import content_stems

PRIOR = re.compile(
    r"""\b(?:even\s(?:when|if|for|in)|also\s(?:for|in|at)|always|no\smatter|regardless|what(?:so)?ever|wherever|outranks?|
    in\s(?:any|every)\scountry|ranks?\sabove|still\swins|whether\sor\snot|alike|at\sonce|never\sadjustments|either\sway|
    takes?\sprecedence|in\sany\sstate|so\s\w+\s\w+\soutrank|matched\sor\snot)\b""",
    re.VERBOSE | re.IGNORECASE,
)
NOT = re.compile(
    r"\b(?:no|not|never|without|isn't|aren't|wasn't|cannot|nor)\s+(?:an?\s|the\s|yet\s|any\s)?(\w+)",
    re.IGNORECASE,
)
PARTS = re.compile(r"[,;:.?!]\s|\s-\s|\b(?:and|then|also|plus|n|after\sthat|as\swell\sas)\b|&", re.IGNORECASE)
SAID = 3.0  # from here on a query says which case it is
LEAST = 4.0  # what a part of a query must weigh to ask for a tool of its own
LIMIT, FIRST = 4.0, 4.0  # how much a limit, and a case that the rule puts first, count
KEPT = frozenset(["intern", "extern", "genera"])  # stems whose longer words mean something else
SUBSENTENCE = re.compile(r"(?<=[.;])\s+|,\s+(?:and|but|while|whereas)\s+")


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
        return 5, ""
    if mine >= 0.9 * best:
        return 4, ""
    return 2, f"By the rule the query belongs to {winner}."


def tool_scores(query: str, rule: RuleText | None, pool: Sequence[ToolText]) -> dict[str, float]:
    """How well the query fits each live tool: by the rule's cases, or by the tools' own words."""
    if rule is None:
        return _text_scores(query, [tool for tool in pool if not tool.deprecated])
    known = by_name(pool)
    found = cases(rule, known)
    told = told_of(rule, tuple(found))
    weights = rarity(told[number][0] for number in range(len(found)))
    asked = stems(query)
    scores: dict[str, float] = {}
    for number, case in enumerate(found):
        score = _case_score(case.clause, told[number], weights, query, asked)
        if not case.own and case.clause.route_to in known:
            texts = [known[name] for name in rule.tools if name in known]
            score += _text_scores(query, texts)[case.clause.route_to]
        scores[case.clause.route_to] = max(scores.get(case.clause.route_to, 0.0), score)
    return scores


def _case_score(
    clause: Clause,
    told: tuple[frozenset[str], frozenset[str], bool],
    weights: dict[str, float],
    query: str,
    asked: frozenset[str],
) -> float:
    every, sentences, prior = told
    strength = strength_of(clause.signals, asked)
    condition = math.fsum(weights.get(word, 0.0) for word in asked & stems(clause.when))
    hinted = math.fsum(weights.get(word, 0.0) for word in asked & (every - stems(clause.when)))
    limit = side(clause.when, query)
    if limit < 0 and strength > 0.5 and " or " in clause.when:
        limit = 0  # another alternative of the condition holds
    score = condition + 3 * strength + 0.5 * hinted + LIMIT * limit
    score += 0.25 * math.fsum(weights.get(word, 0.0) for word in asked & sentences)
    certain = limit > 0 or strength > 0.6 or condition >= 1.2
    return 1.5 * score + FIRST if prior and certain and limit >= 0 else score


@lru_cache(maxsize=4096)
def told_of(rule: RuleText, found: tuple[Case, ...]) -> list[tuple[frozenset[str], frozenset[str], bool]]:
    """Per case: all words it is known by, those of the rule's sentences on its tool, whether it comes first."""
    every = [frozenset().union(*map(stems, (case.clause.when, *case.clause.signals))) for case in found]
    sentences: list[set[str]] = [set() for _ in found]
    prior = [False] * len(found)
    for sentence in re.split(r"(?<=[.])\s+", rule.text):
        first = PRIOR.search(sentence) is not None
        parts = SUBSENTENCE.split(sentence)
        for part in parts:
            for number, case in enumerate(found):
                if _names(part, case.clause.route_to, rule.tools):
                    sentences[number] |= stems(_nameless(part, rule.tools))
                    prior[number] |= first
        if not any(name in sentence for name in rule.tools):
            nearest = max(range(len(found)), key=lambda n: (len(every[n] & stems(sentence)), -n), default=-1)
            if nearest >= 0 and every[nearest] & stems(sentence):
                sentences[nearest] |= stems(re.split(r"\bnot\s(?:as|an?)\b", sentence)[0])
                prior[nearest] |= first
    return [
        (every[n] | frozenset(sentences[n]), frozenset(sentences[n]), prior[n]) for n in range(len(found))
    ]


def _nameless(text: str, names: Iterable[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    return text


def _names(text: str, tool: str, others: Iterable[str]) -> bool:
    """Whether a text names the tool, apart from longer names that hold it."""
    for longer in others:
        if tool in longer and longer != tool:
            text = text.replace(longer, "")
    return tool in text


@lru_cache(maxsize=100_000)
def stems(text: str) -> frozenset[str]:
    """Content words by their first letters; long numbers are one kind of word, negated words are other words."""
    refused = plain_stems(" ".join(match.group(1) for match in NOT.finditer(text)))
    return frozenset((plain_stems(text) - refused) | {f"no {word}" for word in refused})


@lru_cache(maxsize=100_000)
def plain_stems(text: str) -> frozenset[str]:
    return frozenset(_short(word) for word in content_stems(text))


def _short(word: str) -> str:
    if word.isdigit():
        return word if len(word) < 4 or 1900 <= int(word) <= 2099 else "0000"
    return word[:8] if word[:6] in KEPT else word[:6]


def strength_of(signals: Iterable[str], asked: frozenset[str]) -> float:
    """The share of the best-matching signal's content words that the query says."""
    best = 0.0
    for signal in signals:
        wanted = stems(signal)
        if wanted:
            best = max(best, len(wanted & asked) / len(wanted))
    return best if best > 0.5 else 0.0


def rarity(sets: Iterable[frozenset[str]]) -> dict[str, float]:
    """Words by how few of the sets hold them; a word that all hold decides nothing.

    Sums over these weights use fsum: sets are walked in another order in every process, and a plain sum would
    differ in its last bit, which is enough to decide a tie otherwise.
    """
    groups = list(sets)
    counts = Counter(word for group in groups for word in group)
    return {word: math.log((len(groups) + 0.5) / count) for word, count in counts.items()}


@lru_cache(maxsize=50_000)
def _tool_words(name: str, description: str) -> frozenset[str]:
    return stems(f"{name} {description}")


def _text_scores(query: str, tools: Sequence[ToolText]) -> dict[str, float]:
    sets = {tool.name: _tool_words(tool.name, tool.description) for tool in tools}
    weights = rarity(sets.values())
    return _scored(stems(query), sets, weights)


def _by_texts(request: JudgeRequest, live: Sequence[ToolText]) -> tuple[int, str]:
    """Each answer is among the tools whose own words the query says best, and no other part of it asks for one more."""
    sets = {tool.name: _tool_words(tool.name, tool.description) for tool in live}
    weights = rarity(sets.values())
    scores = _text_scores(request.query, live)
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
    if missing := _left_out(request, sets, weights):
        return 2, f"The query also asks for what {missing} does."
    return 5, ""


def _left_out(request: JudgeRequest, sets: Mapping[str, frozenset[str]], weights: Mapping[str, float]) -> str:
    """A tool that the words no answer explains ask for."""
    asked = stems(request.query)
    left = asked - frozenset().union(*(sets[name] for name in request.answer))
    over = {name: left & own for name, own in sets.items() if name not in request.answer}
    weigh = {name: math.fsum(weights[word] for word in said) for name, said in over.items() if len(said) >= 2}
    name = max(weigh, key=lambda one: (weigh[one], one), default="")
    own = [math.fsum(weights[word] for word in asked & sets[one]) for one in request.answer]
    return name if name and weigh[name] >= 0.6 * min(own) else ""


def _scored(
    asked: frozenset[str], sets: Mapping[str, frozenset[str]], weights: Mapping[str, float]
) -> dict[str, float]:
    return {name: math.fsum(0.1 + weights[word] for word in asked & own) for name, own in sets.items()}
