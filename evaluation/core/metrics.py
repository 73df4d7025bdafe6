"""What one answer is worth: retrieval metrics, rule tests, and what a trace cites and commits to.

In: tool names, as a model ranked or listed them, and the gold tools. Out: one number a query. A ranked list (fast,
beam) has a fixed length; a generated list (trace, trace-free) has the length the model chose, so the two families have
metrics of their own and only the first place is shared.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from trace_site.lib.errors import TraceError

RANKED_DECODES = ("fast", "beam", "embedding", "fast-domain", "embedding-domain")
ALL = "all"  # domains, or groups of queries
Row = Mapping[str, Any]


def hit(found: Sequence[str], gold: set[str], k: int | None = None) -> float:
    return float(bool(set(found[:k]) & gold))


def recall(found: Sequence[str], gold: Collection[str], k: int | None = None) -> float:
    wanted = set(gold)
    return len(set(found[:k]) & wanted) / len(wanted)


def precision(found: Sequence[str], gold: set[str]) -> float:
    """0 for an empty answer: saying nothing is not being right."""
    return len(set(found) & gold) / len(set(found)) if found else 0.0


def f1(found: Sequence[str], gold: set[str]) -> float:
    p, r = precision(found, gold), recall(found, gold)
    return 2 * p * r / (p + r) if p + r else 0.0


class Metric(NamedTuple):
    title: str  # as a table heads its column
    score: Callable[[Sequence[str], set[str]], float] | None  # None: not a metric of lists of tools
    ranked: bool = False
    listed: bool = False
    column: str = ""  # of tables of models: what it means; empty: it has no column there
    is_length: bool = False  # no quality: of two models neither is better by it


# In the order in which tables show them; the first of a decoding says whether one answer is right.
METRICS = {
    "recall@gen": Metric(
        "R@gen", recall, listed=True, column="share of the gold tools in the list the model wrote"
    ),
    "hit@1": Metric("hit@1", partial(hit, k=1), True, True, "a gold tool stands first"),
    "recall@1": Metric("R@1", partial(recall, k=1), True, True),
    "recall@5": Metric(
        "R@5",
        partial(recall, k=5),
        ranked=True,
        column="share of the gold tools among the first 5 (ranked decoding)",
    ),
    "recall@10": Metric(
        "R@10",
        partial(recall, k=10),
        ranked=True,
        column="share of the gold tools among the first 10 (ranked decoding)",
    ),
    "hit@10": Metric("hit@10", partial(hit, k=10), ranked=True),
    "precision@gen": Metric(
        "precision", precision, listed=True, column="share of the written tools that are gold"
    ),
    "f1": Metric("F1", f1, listed=True),
    "exact_set": Metric("exact set", lambda found, gold: float(set(found) == gold), listed=True),
    "hit@gen": Metric("hit@gen", hit, listed=True),
    "set_size": Metric(
        "set size",
        lambda found, gold: float(len(set(found))),
        listed=True,
        column="mean number of tools in the list",
        is_length=True,
    ),
    "accuracy": Metric("accuracy", None),  # of a letter
    "refused": Metric("refused", None),  # of a request that no tool answers
}
RANKED_METRICS = tuple(name for name, metric in METRICS.items() if metric.ranked)
LIST_METRICS = tuple(name for name, metric in METRICS.items() if metric.listed)


def query_scores(tools: Sequence[str], gold: Sequence[str], ranked: bool) -> dict[str, float]:
    """Every metric of one query, of RANKED_METRICS or LIST_METRICS."""
    if not gold:
        raise TraceError("has no gold tool, so recall is undefined.", code="no_gold", where="benchmark item")
    wanted = set(gold)
    return {
        name: metric.score(tools, wanted)
        for name, metric in METRICS.items()
        if metric.score and (metric.ranked if ranked else metric.listed)
    }


def item_scores(row: Row, item: Row, decode: str) -> dict[str, float]:
    """Every metric of one answer."""
    if decode == "letters":
        return {"accuracy": float(row["letter"] == item["answer"])}
    if not item["tools"]:
        return {}  # no tool answers it: whether it is refused is known once the model is calibrated
    return query_scores(row["tools"], item["tools"], decode in RANKED_DECODES)


# The tests of a rule, against what a model ranks.

PASS_MEANING = "passes when the first tools of the ranked list are exactly the expected ones, in any order"


class ExpectedTool(NamedTuple):
    name: str
    rank: int | None  # its place in the list, from 1; None: not in it


class RuleTestVerdict(NamedTuple):
    query: str
    passed: bool
    expected: tuple[ExpectedTool, ...]
    instead: tuple[str, ...]  # tools that stand in the first places without being expected
    listed: int  # length of the model's list


def judge_rule_test(query: str, expected: Sequence[str], found: Sequence[str]) -> RuleTestVerdict:
    """An expected tool named twice counts once; a test that expects nothing cannot pass."""
    wanted = tuple(dict.fromkeys(expected))
    first = found[: len(wanted)]
    return RuleTestVerdict(
        query,
        bool(wanted) and set(first) == set(wanted),
        tuple(ExpectedTool(name, found.index(name) + 1 if name in found else None) for name in wanted),
        tuple(name for name in first if name not in wanted),
        len(found),
    )


# What a trace cites, and whether the answer keeps what its trace says.

NO_TRACE: Mapping[str, Any] = {"follows_trace": None, "trace_tools": []}


def cited_codes(trace: str, codes: Iterable[str]) -> list[str]:
    """The rule codes that stand in the trace as whole words, in reading order."""
    known = set(codes)
    words = re.findall(r"[A-Za-z0-9_]+", trace)
    return list(dict.fromkeys(word for word in words if word in known))


def trace_fields(named: Sequence[str], answer: Collection[str]) -> dict[str, Any]:
    """What is kept with an answer that has a trace, which names the tools `named`, in reading order and as often as it
    does: `trace_tools`, the last different ones, as many as the answer has and at least one; and `follows_trace`:
    whether these are the answer, as a set. A trace that names no tool leads to no answer."""
    latest_first = list(dict.fromkeys(reversed(named)))
    ends_with = latest_first[: max(1, len(set(answer)))][::-1]
    return {"follows_trace": bool(named) and set(ends_with) == set(answer), "trace_tools": ends_with}


def trace_notes(follows_trace: bool | None, trace_tools: Sequence[str]) -> list[str]:
    """What a reader of the trace must know of the answer, in plain sentences."""
    if follows_trace is not False:
        return []
    if not trace_tools:
        return ["The reasoning names no tool, so the answer does not rest on it."]
    return [f"The answer is not the tool{'s' if len(trace_tools) > 1 else ''} its reasoning ends with."]
