"""The offline judge J: heuristics, apart from the offline writers, that score a sample on the four axes.

In: a JudgeRequest. Out: scores 1..5 with a critique that says what to change. Nothing a sample says of itself counts:
the right tool is derived again from the rule's cases or the tools' descriptions, and the trace is read against that.
Unknown styles or tiers, empty texts and a style without its rule fail.
"""

from collections.abc import Mapping
from typing import Any

from synthesis.core.judge_cases import Known, known_rule
from synthesis.core.judge_label import strength_of, tool_scores, wrong_label
from synthesis.core.judge_query import unnatural
from synthesis.core.judge_stems import stems
from synthesis.core.judge_trace import unfaithful
from synthesis.core.queries import TIERS, JudgeRequest, RuleText, Verdict
from synthesis.core.words import words

__all__ = ["OfflineJudge", "tool_scores"]


class OfflineJudge:
    def __init__(self, thresholds: Mapping[str, int]) -> None:
        self.thresholds = dict(thresholds)

    def made_with(self, branch: str) -> dict[str, Any]:
        return {"writer": "offline-judge-3", "thresholds": self.thresholds}

    async def judge(self, request: JudgeRequest) -> Verdict:
        axes = {
            "naturalness": _naturalness(request),
            "compliance": _compliance(request),
            "label": _label(request),
            "faithfulness": _faithfulness(request),
        }
        critique = " ".join(note for _, note in axes.values() if note)
        scores = {axis: score for axis, (score, _) in axes.items()}
        return Verdict(request.id, scores, critique, thresholds=self.thresholds)


def _naturalness(request: JudgeRequest) -> tuple[int, str]:
    """Is this something an employee would type?"""
    if not request.query.strip():
        return 1, "The query is empty."
    if request.branch == "imported":
        return 5, ""
    matter = known_rule(request.rule, request.pool).matter if request.rule else ""
    notes = unnatural(request.query, request.answer, request.pool, matter)
    return max(1, 5 - 3 * len(notes)), " ".join(notes)


def _compliance(request: JudgeRequest) -> tuple[int, str]:
    """Does the query do what its style or tier asks?"""
    if request.branch == "imported" and not request.style and not request.tier:
        return 5, ""
    if request.branch == "rrb" or request.tier:
        return _tier(request)
    if request.rule is None:
        return 1, "A rule sample without its rule cannot be judged."
    return _style(request, request.rule)


def _tier(request: JudgeRequest) -> tuple[int, str]:
    if request.tier not in TIERS:
        return 1, f"'{request.tier}' is not a tier; tiers are {', '.join(TIERS)}."
    least, most = TIERS[request.tier]
    size = len(request.answer)
    if least <= size <= most:
        return 5, ""
    return 1, f"A {request.tier} query does not have {size} answers."


def _style(request: JudgeRequest, rule: RuleText) -> tuple[int, str]:
    asked = stems(request.query)
    known = known_rule(rule, request.pool).cases
    mine = [one for one in known if one.tool in request.answer]
    match request.style:
        case "explicit" | "implicit" | "underspecified" if tuple(request.answer) != (rule.target,):
            return 1, f"An {request.style} query leads to the rule's main tool alone, {rule.target}."
        case "explicit" if not any(one.condition & asked or len(one.told & asked) > 1 for one in mine):
            return 2, "An explicit query says key words of the rule's condition itself."
        case "implicit" if any(_states(one, request.query, bool(rule.clauses)) for one in mine):
            return (
                2,
                "An implicit query does not state the rule's condition; hint at it through the situation.",
            )
        case "exception" if rule.target in request.answer:
            return 1, "An exception query leads away from the rule's main tool."
        case "underspecified" if any(
            strength_of(one.case.clause.signals, asked) > 0 for one in known if one not in mine
        ):
            return 2, "An underspecified query carries no signal of another case."
        case "explicit" | "implicit" | "exception" | "underspecified":
            return 5, ""
    return 1, f"'{request.style}' is not a style."


def _states(one: Known, query: str, written: bool, run: int = 6) -> bool:
    """Does the query say most of the condition, or `run` words of it in a row?"""
    condition, asked = words(one.when), " ".join(words(query))
    if any(" ".join(condition[i : i + run]) in asked for i in range(len(condition) - run + 1)):
        return True
    wanted = one.condition
    # a condition read out of a text is mostly what the tool is for, which every query says
    return len(wanted & stems(query)) >= (max(3, 0.5 * len(wanted)) if written else max(4, 0.8 * len(wanted)))


def _label(request: JudgeRequest) -> tuple[int, str]:
    """Re-derive the right tool and compare."""
    return (5, "") if request.branch == "imported" else wrong_label(request)


def _faithfulness(request: JudgeRequest) -> tuple[int, str]:
    notes = unfaithful(request)
    return max(1, 5 - 2 * len(notes)), " ".join(notes)
