"""The offline judge J: heuristics, apart from the offline writers, that score a sample on the four axes.

In: a JudgeRequest. Out: scores 1..5 with a critique that says what to change. Nothing a sample says of itself counts:
the right tool is derived again from the rule's cases or the tools' descriptions, and the trace is read against that.
5 is a sample without a flaw; 4 and 3 pass with one that a reviewer may mind: words taken over from rule or description,
a condition said in part, a close second tool, a trace that names no rival. Unknown styles or tiers, empty texts and a
style without its rule fail.
"""

from collections.abc import Mapping
from typing import Any

from synthesis.core.judge_label import strength_of, wrong_label
from synthesis.core.judge_query import copied_words, unnatural
from synthesis.core.judge_trace import rivals_named, unfaithful
from synthesis.core.judge_words import Known, known_rule, stems
from synthesis.core.queries import TIERS, JudgeRequest, RuleText, Verdict
from synthesis.core.words import words

Scored = tuple[int, str]


class OfflineJudge:
    def __init__(self, thresholds: Mapping[str, int]) -> None:
        self.thresholds = dict(thresholds)

    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-judge-5", "thresholds": self.thresholds}

    async def judge(self, request: JudgeRequest) -> Verdict:
        axes = {
            "naturalness": _naturalness(request),
            "compliance": _compliance(request),
            "label": (5, "") if request.branch == "imported" else wrong_label(request),
            "faithfulness": _faithfulness(request),
        }
        critique = " ".join(note for _, note in axes.values() if note)
        scores = {axis: score for axis, (score, _) in axes.items()}
        return Verdict(request.id, scores, critique, thresholds=self.thresholds)


def _naturalness(request: JudgeRequest) -> Scored:
    """Is this something an employee would type?"""
    if not request.query.strip():
        return 1, "The query is empty."
    if request.branch == "imported":
        return 5, ""
    if notes := unnatural(request.query, request.answer, request.pool):
        return max(1, 5 - 3 * len(notes)), " ".join(notes)
    texts = [tool.description for tool in request.pool if tool.name in request.answer]
    if request.rule:
        texts += [one.when for one in known_rule(request.rule, request.pool).cases]
    taken = max((copied_words(request.query, text) for text in texts), default=0)
    if taken < 4:
        return 5, ""
    return 4 if taken < 7 else 3, f"{taken} words in a row are copied; use others."


def _compliance(request: JudgeRequest) -> Scored:
    """Does the query do what its style or tier asks?"""
    if request.branch == "imported" and not request.style and not request.tier:
        return 5, ""
    if request.branch == "rrb" or request.tier:
        return _tier(request)
    if request.rule is None:
        return 1, "A rule sample without its rule cannot be judged."
    return _style(request, request.rule)


def _tier(request: JudgeRequest) -> Scored:
    if request.tier not in TIERS:
        return 1, f"'{request.tier}' is not a tier; tiers are {', '.join(TIERS)}."
    least, most = TIERS[request.tier]
    size = len(request.answer)
    return (5, "") if least <= size <= most else (1, f"A {request.tier} query does not have {size} answers.")


def _style(request: JudgeRequest, rule: RuleText) -> Scored:
    asked = stems(request.query)
    known = known_rule(rule, request.pool).cases
    mine = [one for one in known if one.tool in request.answer]
    said = max((len(one.condition & asked) / max(1, len(one.condition)) for one in mine), default=0.0)
    match request.style:
        case "explicit" | "implicit" | "underspecified" if tuple(request.answer) != (rule.target,):
            return 1, f"An {request.style} query leads to the rule's main tool alone, {rule.target}."
        case "explicit" if not said and not any(len(one.told & asked) > 1 for one in mine):
            return 2, "An explicit query says key words of the rule's condition itself."
        case "explicit":
            taken = max(copied_words(one.when, request.query) / max(1, len(words(one.when))) for one in mine)
            note = "It takes the condition over; say it in other words." if taken >= 0.5 else ""
            return (3 if taken >= 0.8 else 4 if taken >= 0.5 or said < 0.3 else 5), note
        case "implicit" if any(_states(one, request.query, bool(rule.clauses)) for one in mine):
            return 2, "An implicit query does not state the rule's condition; hint at it by the situation."
        case "implicit":
            return 5 if said < 0.2 else 4, ""
        case "exception" if rule.target in request.answer:
            return 1, "An exception query leads away from the rule's main tool."
        case "underspecified" if any(
            strength_of(one.case.clause.signals, asked) > 0 for one in known if one not in mine
        ):
            return 2, "An underspecified query carries no signal of another case."
        case "exception" | "underspecified":
            return 5, ""
    return 1, f"'{request.style}' is not a style."


def _states(one: Known, query: str, written: bool) -> bool:
    """Does the query say most of the condition?"""
    # a condition read out of a text is mostly what the tool is for, which every query says
    least = max(3, 0.5 * len(one.condition)) if written else max(4, 0.8 * len(one.condition))
    return len(one.condition & stems(query)) >= least


def _faithfulness(request: JudgeRequest) -> Scored:
    if notes := unfaithful(request):
        return max(1, 5 - 2 * len(notes)), " ".join(notes)
    if request.rule and not rivals_named(request):
        return 4, "It weighs no look-alike against the answer."
    return 5, ""
