"""Does an answer keep what its trace says? What a trace commits to, held against the tools that were answered.

In: the tools a trace names, in reading order and as often as it names them, and the answered tools.
Out: the tools the trace ends with, whether they are the answer, and over many answers how often.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any


def commitment(named: Sequence[str], count: int) -> list[str]:
    """The last `count` different tools a trace names, at least its last one, in the order it last names them."""
    latest_first = list(dict.fromkeys(reversed(named)))
    return latest_first[: max(1, count)][::-1]


def follows(named: Sequence[str], answer: Collection[str]) -> bool:
    """Whether the answer, as a set, is what the trace ends with. A trace that names no tool leads to no answer."""
    return bool(named) and set(commitment(named, len(set(answer)))) == set(answer)


def trace_fields(named: Sequence[str], answer: Collection[str]) -> dict[str, Any]:
    """What is kept with an answer that has a trace: {"follows_trace", "trace_tools"}; no tools: it names none."""
    return {"follows_trace": follows(named, answer), "trace_tools": commitment(named, len(set(answer)))}


NO_TRACE: Mapping[str, Any] = {"follows_trace": None, "trace_tools": []}


def trace_notes(follows_trace: bool | None, trace_tools: Sequence[str]) -> list[str]:
    """What a reader of the trace must know of the answer, in plain sentences."""
    if follows_trace is not False:
        return []
    if not trace_tools:
        return ["The reasoning names no tool, so the answer does not rest on it."]
    tools = "tool" if len(trace_tools) == 1 else "tools"
    return [f"The answer is not the {tools} its reasoning ends with."]


def following(predictions: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """How many answers follow their trace, of the `n` that have one; what was stored earlier is not measured."""
    predictions = list(predictions)
    measured = [row for row in predictions if row.get("follows_trace") is not None]
    followed = sum(row["follows_trace"] for row in measured)
    silent = sum(not row["trace_tools"] for row in measured)
    return {
        "n": len(measured),
        "follows": followed,
        "differs": len(measured) - followed - silent,
        "names_no_tool": silent,
        "not_measured": sum("follows_trace" not in row for row in predictions),
        "rate": followed / len(measured) if measured else None,
    }
