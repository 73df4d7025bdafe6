"""The offline judge J: heuristics, apart from the offline writers, that score a sample on the four axes.

In: a JudgeRequest. Out: scores 1..5 with a critique that says what to change. It re-derives the right tool from the
rule's clauses (or the tools' descriptions) instead of trusting the writer, and reads the trace against that.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from synthesis.core.clauses import cases, evidence
from synthesis.core.names import SENTENCE_END
from synthesis.core.queries import JudgeRequest, RuleText, ToolText, Verdict, by_name
from synthesis.core.words import STOP, content_stems, stem, words

TECHNICAL = re.compile(
    r"\b(?:endpoint|payload|request body|query param\w*|http|json|oauth|crud|openapi|operationid|"
    r"boolean|schema|deprecated)\b|\{|\}|</?\w+>|\bN/A\b",
    re.IGNORECASE,
)
SMELL = re.compile(
    r"\s[,;:!?]|\b(\w+)\s+\1\b(?!')|[,;:.?!]\s*[,;:]|\(\s*\)|\?\s*\?|\s{2,}|^[,;:.]|undefined|None\b"
)


class OfflineJudge:
    def __init__(self, thresholds: Mapping[str, int]) -> None:
        self.thresholds = dict(thresholds)

    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-judge-1", "thresholds": self.thresholds}

    async def judge(self, request: JudgeRequest) -> Verdict:
        axes = (_naturalness(request), _compliance(request), _label(request), _faithfulness(request))
        names = ("naturalness", "compliance", "label", "faithfulness")
        scores = {name: score for name, (score, _) in zip(names, axes, strict=True)}
        critique = " ".join(note for _, note in axes if note)
        return Verdict(request.id, scores, critique, thresholds=self.thresholds)


def _naturalness(request: JudgeRequest) -> tuple[int, str]:
    """Is this something an employee would type?"""
    if request.branch == "imported":
        return 5, ""
    text = request.query
    said = words(text)
    notes = []
    if not 4 <= len(said) <= 40:
        notes.append(f"The query has {len(said)} words; people type 4 to 40.")
    if match := TECHNICAL.search(text):
        notes.append(f"'{match.group()}' is not how an employee speaks.")
    if match := SMELL.search(text):
        notes.append(f"'{match.group().strip() or 'double space'}' reads like a broken template.")
    counted = Counter(stem(word) for word in said if word not in STOP and not word.isdigit())
    # a request for several things may name what they share once for each
    if counted and counted.most_common(1)[0][1] > max(2, len(request.answer)):
        notes.append(f"'{counted.most_common(1)[0][0]}' is repeated.")
    letters = [char for char in text if char.isalpha()]
    if letters and sum(char.isupper() for char in letters) > max(8, 0.45 * len(letters)):
        notes.append("Too many capitals.")
    if len(content_stems(text)) < 2:
        notes.append("The query does not say what it is about.")
    return max(1, 5 - 3 * len(notes)), " ".join(notes)


def _compliance(request: JudgeRequest) -> tuple[int, str]:
    """Does the query do what its style or tier asks?"""
    size = len(request.answer)
    if request.tier:
        fits = {"easy": size == 1, "medium": 2 <= size <= 3, "hard": size >= 4}[request.tier]
        return (5, "") if fits else (1, f"A {request.tier} query does not have {size} answers.")
    if request.rule is None:
        return 5, ""
    pool = by_name(request.pool)
    asked = content_stems(request.query)
    found = [case.clause for case in cases(request.rule, pool) if case.clause.route_to in request.answer]
    hints = frozenset().union(*(evidence(clause) for clause in found)) if found else frozenset()
    if request.style == "explicit" and not asked & hints:
        return 2, "An explicit query says words that signal the rule."
    if request.style == "implicit" and any(_quoted(clause.when, request.query) for clause in found):
        return 2, "An implicit query does not state the rule's condition in its own words."
    if request.style == "exception" and request.rule.target in request.answer:
        return 1, "An exception query leads away from the rule's main tool."
    if request.style == "underspecified":
        others = [
            case.clause for case in cases(request.rule, pool) if case.clause.route_to not in request.answer
        ]
        if any(_strength(clause.signals, request.query) > 0 for clause in others):
            return 2, "An underspecified query carries no signal of another case."
    return 5, ""


def _quoted(condition: str, query: str, run: int = 6) -> bool:
    """Does the query repeat `run` words of the condition in a row?"""
    said, asked = words(condition), " ".join(words(query))
    return any(" ".join(said[i : i + run]) in asked for i in range(len(said) - run + 1))


def _label(request: JudgeRequest) -> tuple[int, str]:
    """Re-derive the right tool and compare."""
    if request.branch == "imported":
        return 5, ""
    scores = tool_scores(request.query, request.rule, request.pool)
    if request.rule is None:
        return _label_by_text(request, scores)
    best = max(scores.values(), default=0.0)
    mine = max((scores.get(name, 0.0) for name in request.answer), default=0.0)
    if request.style == "underspecified":
        return (5, "") if mine >= 0.5 * best else (2, "Another case of the rule fits better.")
    if best <= 0:
        return 2, "Nothing in the query tells which case of the rule holds."
    if mine >= best - 1e-9:
        return 5, ""
    winner = max(scores, key=lambda name: (scores[name], name))
    if mine >= 0.85 * best:
        return 4, ""
    return 2, f"By the rule the query belongs to {winner}."


def _label_by_text(request: JudgeRequest, scores: dict[str, float]) -> tuple[int, str]:
    """Without a rule each answer must be among the tools whose own words the query says best."""
    ranked = sorted(scores.values(), reverse=True)
    floor = ranked[min(len(ranked) - 1, len(request.answer) + 3)] if ranked else 0.0
    weak = [name for name in request.answer if scores.get(name, 0.0) <= 0 or scores[name] < floor]
    if weak:
        return 2, f"The query does not ask for what {weak[0]} does."
    if len(request.answer) == 1 and scores[request.answer[0]] < 0.6 * ranked[0]:
        return 2, "The query fits another tool better."
    return 5, ""


def tool_scores(query: str, rule: RuleText | None, pool: Sequence[ToolText]) -> dict[str, float]:
    """How well the query fits each live tool: by the rule's cases, or by the tools' own words."""
    if rule is None:
        return _text_scores(query, [tool for tool in pool if not tool.deprecated])
    known = by_name(pool)
    found = cases(rule, known)
    weights = _rarity(evidence(case.clause) for case in found)
    asked = content_stems(query)
    scores: dict[str, float] = {}
    for case in found:
        clause = case.clause
        score = math.fsum(weights.get(word, 0.0) for word in asked & content_stems(clause.when))
        score += 3 * _strength(clause.signals, query) + _year_fit(clause.when, query)
        score += 0.5 * math.fsum(
            weights.get(word, 0.0) for word in asked & content_stems(" ".join(clause.signals))
        )
        if not case.own and clause.route_to in known:
            score += _text_scores(query, [known[name] for name in rule.tools if name in known])[
                clause.route_to
            ]
        scores[clause.route_to] = max(scores.get(clause.route_to, 0.0), score)
    return scores


def _strength(signals: Iterable[str], query: str) -> float:
    """The share of the best-matching signal's content words that the query says."""
    asked = content_stems(query)
    best = 0.0
    for signal in signals:
        wanted = content_stems(signal)
        if wanted:
            best = max(best, len(wanted & asked) / len(wanted))
    return best if best > 0.5 else 0.0


def _year_fit(condition: str, query: str) -> float:
    """A condition on a year (`in 2024 or later`, `before 2024`) checked against the years the query says."""
    years = [int(year) for year in re.findall(r"\b(?:19|20)\d\d\b", query)]
    limit = re.search(r"\b((?:19|20)\d\d)\b", condition)
    if not years or not limit:
        return 0.0
    edge = int(limit.group(1))
    if re.search(rf"{edge}\s(?:or|and)\slater|(?:from|since)\s(?:\w+\s)?{edge}", condition):
        return 4.0 if years[0] >= edge else -4.0
    if re.search(rf"(?:before|until|up to|prior to)\s(?:\w+\s)?{edge}", condition):
        return 4.0 if years[0] < edge else -4.0
    return 2.0 if edge in years else 0.0


def _rarity(sets: Iterable[frozenset[str]]) -> dict[str, float]:
    """Words by how few of the sets hold them; a word that all hold decides nothing.

    Sums over these weights use fsum: sets are walked in another order in every process, and a plain sum would
    differ in its last bit, which is enough to decide a tie otherwise.
    """
    groups = list(sets)
    counts = Counter(word for group in groups for word in group)
    return {word: math.log((len(groups) + 0.5) / count) for word, count in counts.items()}


@lru_cache(maxsize=50_000)
def _tool_words(name: str, description: str) -> frozenset[str]:
    return content_stems(f"{name} {description}")


def _text_scores(query: str, tools: Sequence[ToolText]) -> dict[str, float]:
    sets = {tool.name: _tool_words(tool.name, tool.description) for tool in tools}
    weights = _rarity(sets.values())
    asked = content_stems(query)
    return {name: math.fsum(0.1 + weights[word] for word in asked & own) for name, own in sets.items()}


def _faithfulness(request: JudgeRequest) -> tuple[int, str]:
    """Does the trace, read alone, lead to the answer: the query restated, the decisive case named, then the answer?"""
    said = content_stems(request.trace)
    asked = content_stems(request.query)
    notes = []
    if asked and len(asked & said) < min(2, len(asked)):
        notes.append("The trace does not restate what is asked.")
    last = [part for part in SENTENCE_END.split(request.trace.strip()) if part][-1:] or [""]
    rivals = [tool.name for tool in request.pool if tool.name not in request.answer and tool.name in last[0]]
    covered = {name for name in request.answer for rival in rivals if rival in name}
    if any(name not in last[0] for name in request.answer):
        notes.append("The last sentence does not name the answer.")
    if rivals and not covered:
        notes.append(f"The last sentence names {rivals[0]} too.")
    if request.rule is not None:
        notes += _unfaithful_to_rule(request, said)
    else:
        notes += _unfaithful_to_texts(request, said)
    return max(1, 5 - 2 * len(notes)), " ".join(notes)


def _unfaithful_to_rule(request: JudgeRequest, said: frozenset[str]) -> list[str]:
    """The case that decides is the answer's: its condition is in the trace, more than any rival case's."""
    assert request.rule is not None
    shares: dict[bool, float] = {True: 0.0, False: 0.0}
    found = cases(request.rule, by_name(request.pool))
    weights = _rarity(content_stems(case.clause.when) for case in found)
    for case in found:
        wanted = content_stems(case.clause.when)
        total = math.fsum(0.1 + weights[word] for word in wanted)
        share = math.fsum(0.1 + weights[word] for word in wanted & said) / total if total else 0.0
        mine = case.clause.route_to in request.answer
        shares[mine] = max(shares[mine], share)
    if shares[True] < 0.5:
        return ["The trace does not state the case of the rule that decides."]
    if shares[False] > shares[True]:
        return ["The trace argues for another case of the rule."]
    return []


def _unfaithful_to_texts(request: JudgeRequest, said: frozenset[str]) -> list[str]:
    known = by_name(request.pool)
    for name in request.answer:
        tool = known.get(name)
        own = content_stems(tool.description) if tool else frozenset()
        if own and len(own & said) < min(2, len(own)):
            return [f"The trace does not say what {name} does."]
    return []
