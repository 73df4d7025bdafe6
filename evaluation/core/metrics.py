"""Retrieval metrics: pure functions over lists of tool names.

In: predictions {"id","tools","trace","off_vocabulary","follows_trace","trace_tools"} and benchmark items
{"id","tools","domain","rule"}.
Out: one number a query, and their means with confidence intervals per domain and per group, always beside n.
A ranked list (fast, beam) has a fixed length; a generated list (trace, trace-free) has the length the model
chose, so the two families have metrics of their own and only the first place is shared.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.core.following import following
from evaluation.core.stats import DRAWS, Interval, bootstrap_table
from trace_site.lib.errors import TraceError

RANKED_DECODES = ("fast", "beam", "embedding")
RANKED_METRICS = ("hit@1", "recall@1", "recall@5", "recall@10", "hit@10")
LIST_METRICS = ("hit@1", "recall@1", "hit@gen", "recall@gen", "precision@gen", "f1", "exact_set", "set_size")
ALL = "all"


def hit_at_k(ranked: Sequence[str], gold: Iterable[str], k: int) -> float:
    return float(bool(set(ranked[:k]) & set(gold)))


def recall_at_k(ranked: Sequence[str], gold: Iterable[str], k: int) -> float:
    wanted = set(gold)
    return len(set(ranked[:k]) & wanted) / len(wanted)


def recall(found: Iterable[str], gold: Iterable[str]) -> float:
    wanted = set(gold)
    return len(set(found) & wanted) / len(wanted)


def precision(found: Iterable[str], gold: Iterable[str]) -> float:
    """0 for an empty answer: saying nothing is not being right."""
    chosen = set(found)
    return len(chosen & set(gold)) / len(chosen) if chosen else 0.0


def f1(found: Sequence[str], gold: Sequence[str]) -> float:
    p, r = precision(found, gold), recall(found, gold)
    return 2 * p * r / (p + r) if p + r else 0.0


def exact_set(found: Iterable[str], gold: Iterable[str]) -> float:
    return float(set(found) == set(gold))


def set_size(found: Iterable[str]) -> float:
    return float(len(set(found)))


def query_scores(tools: Sequence[str], gold: Sequence[str], ranked: bool) -> dict[str, float]:
    """Every metric of one query, in the order of RANKED_METRICS or LIST_METRICS."""
    if not gold:
        raise TraceError("has no gold tool, so recall is undefined.", code="no_gold", where="benchmark item")
    first = {"hit@1": hit_at_k(tools, gold, 1), "recall@1": recall_at_k(tools, gold, 1)}
    if ranked:
        at = {f"recall@{k}": recall_at_k(tools, gold, k) for k in (5, 10)}
        return first | at | {"hit@10": hit_at_k(tools, gold, 10)}
    return first | {
        "hit@gen": hit_at_k(tools, gold, len(tools)),
        "recall@gen": recall(tools, gold),
        "precision@gen": precision(tools, gold),
        "f1": f1(tools, gold),
        "exact_set": exact_set(tools, gold),
        "set_size": set_size(tools),
    }


def off_vocabulary(predictions: Sequence[Mapping[str, Any]]) -> dict[str, float | int]:
    """Share of the generated list entries that name no tool, over all entries of all lists."""
    off = sum(int(row.get("off_vocabulary", 0)) for row in predictions)
    entries = off + sum(len(row["tools"]) for row in predictions)
    return {"off": off, "entries": entries, "rate": off / entries if entries else 0.0}


def cited_codes(trace: str, codes: Iterable[str]) -> list[str]:
    """The rule codes that stand in the trace as whole words, in reading order."""
    known = set(codes)
    words = re.findall(r"[A-Za-z0-9_]+", trace)
    return list(dict.fromkeys(word for word in words if word in known))


def citation(
    predictions: Sequence[Mapping[str, Any]], items: Sequence[Mapping[str, Any]], codes: Iterable[str]
) -> dict[str, Any]:
    """How often a trace names a rule, whether it is the right one, and recall with and without a citation."""
    known = set(codes)
    cited: list[float] = []
    silent: list[float] = []
    right_of_cited: list[float] = []
    right_of_ruled: list[float] = []
    for row, item in pair_up(predictions, items):
        found = cited_codes(str(row.get("trace", "")), known)
        (cited if found else silent).append(recall(row["tools"], item["tools"]))
        if item.get("rule"):
            right_of_ruled.append(float(item["rule"] in found))
            if found:
                right_of_cited.append(right_of_ruled[-1])
    return {
        "n": len(cited) + len(silent),
        "rate": _share(len(cited), len(cited) + len(silent)),
        "recall_when_cited": _mean(cited),
        "recall_when_not_cited": _mean(silent),
        "correct_rule": _mean(right_of_ruled),
        "correct_rule_when_cited": _mean(right_of_cited),
    }


def pair_up(
    predictions: Sequence[Mapping[str, Any]], items: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Predictions beside their items, in the order of the items; a missing one is an error, never a zero."""
    by_id = {str(row["id"]): row for row in predictions}
    missing = [str(item["id"]) for item in items if str(item["id"]) not in by_id]
    if missing:
        raise TraceError(
            f"{len(missing)} of {len(items)} queries have no prediction (first: {missing[0]}).",
            code="incomplete_predictions",
            hint="Run the evaluation again; it goes on where it stopped.",
        )
    return [(by_id[str(item["id"])], item) for item in items]


def summarise(
    predictions: Sequence[Mapping[str, Any]],
    items: Sequence[Mapping[str, Any]],
    groups: Mapping[str, str],
    *,
    decode: str,
    codes: Iterable[str] = (),
    seed: int = 0,
    draws: int = DRAWS,
) -> dict[str, Any]:
    """{domain or "all": {group or "all": {"n", "metrics", "off_vocabulary", "following"?, "citation"?}}}.

    `groups` maps a query id to its group (covered, uncovered, ...); a query without one counts in "all" only.
    """
    pairs = pair_up(predictions, items)
    ranked, known = decode in RANKED_DECODES, sorted(set(codes))
    slices: dict[tuple[str, str], list[int]] = {}
    for index, (_, item) in enumerate(pairs):
        group = groups.get(str(item["id"]), "")
        for domain in (ALL, str(item["domain"])):
            for name in (ALL, group) if group else (ALL,):
                slices.setdefault((domain, name), []).append(index)
    result: dict[str, Any] = {}
    for (domain, group), chosen in sorted(slices.items()):
        rows = [pairs[index] for index in chosen]
        summary = _slice(rows, ranked, seed, draws)
        if not ranked:
            summary["following"] = following(row for row, _ in rows)
        if known and not ranked:
            summary["citation"] = citation([row for row, _ in rows], [item for _, item in rows], known)
        result.setdefault(domain, {})[group] = summary
    return result


def _slice(
    rows: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], ranked: bool, seed: int, draws: int
) -> dict[str, Any]:
    names = RANKED_METRICS if ranked else LIST_METRICS
    scores = [query_scores(row["tools"], item["tools"], ranked) for row, item in rows]
    intervals = bootstrap_table([[score[name] for name in names] for score in scores], seed=seed, draws=draws)
    table: dict[str, Interval] = dict(zip(names, intervals, strict=True))
    return {
        "n": len(rows),
        "metrics": {name: interval.as_dict() for name, interval in table.items()},
        "off_vocabulary": off_vocabulary([row for row, _ in rows]),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: Sequence[float]) -> dict[str, float | int | None]:
    return {"mean": sum(values) / len(values) if values else None, "n": len(values)}
