"""From predictions to the numbers of one evaluation.

In: predictions {"id","tools","trace","off_vocabulary","follows_trace","trace_tools"}, benchmark items
{"id","tools","domain","rule"} and the group of each query. Out: what is stored and shown: means with confidence
intervals per domain and per group, always beside n; speed; and the embedding baseline cut to the same list lengths.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.core.items import random_baseline
from evaluation.core.metrics import (
    ALL,
    LIST_METRICS,
    RANKED_DECODES,
    RANKED_METRICS,
    Row,
    cited_codes,
    query_scores,
    recall,
)
from evaluation.core.stats import DRAWS, bootstrap, bootstrap_table, compare
from trace_site.lib.errors import TraceError


def sliced(queries: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """{(domain or all, group or all): positions} of queries with these (domain, group); a query without a group counts
    in all only."""
    found: dict[tuple[str, str], list[int]] = {}
    for position, (domain, group) in enumerate(queries):
        for place in (ALL, domain):
            for part in (ALL, group) if group else (ALL,):
                found.setdefault((place, part), []).append(position)
    return dict(sorted(found.items()))


def pair_up(predictions: Sequence[Row], items: Sequence[Row]) -> list[tuple[Row, Row]]:
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


def retrieval_report(
    predictions: Sequence[Row],
    items: Sequence[Row],
    groups: Mapping[str, str],
    *,
    decode: str,
    codes: Iterable[str] = (),
    embedding: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """`embedding`: the baseline's ranked names by query id, for lists as long as the model's own."""
    report = {
        "slices": summarise(predictions, items, groups, decode=decode, codes=codes, seed=seed),
        "ranked": decode in RANKED_DECODES,
        "speed": speed(predictions),
    }
    if embedding is not None and decode not in RANKED_DECODES:
        report["same_length"] = same_length(predictions, items, groups, embedding, seed)
    return report


def summarise(
    predictions: Sequence[Row],
    items: Sequence[Row],
    groups: Mapping[str, str],
    *,
    decode: str,
    codes: Iterable[str] = (),
    seed: int = 0,
    draws: int = DRAWS,
) -> dict[str, Any]:
    """{domain or "all": {group or "all": {"n", "metrics", "off_vocabulary", "following"?, "citation"?}}}.

    `groups` maps a query id to its group (covered, uncovered, ...).
    """
    pairs = pair_up(predictions, items)
    ranked, known = decode in RANKED_DECODES, set(codes)
    names = RANKED_METRICS if ranked else LIST_METRICS
    scores = [query_scores(row["tools"], item["tools"], ranked) for row, item in pairs]
    result: dict[str, Any] = {}
    places = sliced((str(item["domain"]), groups.get(str(item["id"]), "")) for _, item in pairs)
    for (domain, group), chosen in places.items():
        rows = [pairs[at][0] for at in chosen]
        table = [[scores[at][name] for name in names] for at in chosen]
        intervals = bootstrap_table(table, seed=seed, draws=draws)
        summary = {
            "n": len(chosen),
            "metrics": {name: one.as_dict() for name, one in zip(names, intervals, strict=True)},
            "off_vocabulary": off_vocabulary(rows),
        }
        if not ranked:
            summary["following"] = following(rows)
            if known:
                summary["citation"] = citation([pairs[at] for at in chosen], known)
        result.setdefault(domain, {})[group] = summary
    return result


def off_vocabulary(predictions: Sequence[Row]) -> dict[str, float | int]:
    """Share of the generated list entries that name no tool, over all entries of all lists."""
    off = sum(int(row.get("off_vocabulary", 0)) for row in predictions)
    entries = off + sum(len(row["tools"]) for row in predictions)
    return {"off": off, "entries": entries, "rate": off / entries if entries else 0.0}


def following(predictions: Sequence[Row]) -> dict[str, Any]:
    """How many answers follow their trace, of the `n` that have one; what was stored earlier is not measured."""
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


def citation(pairs: Sequence[tuple[Row, Row]], codes: set[str]) -> dict[str, Any]:
    """How often a trace names a rule, whether it is the right one, and recall with and without a citation."""
    cited: list[float] = []
    silent: list[float] = []
    right_of_cited: list[float] = []
    right_of_ruled: list[float] = []
    for row, item in pairs:
        found = cited_codes(str(row.get("trace", "")), codes)
        (cited if found else silent).append(recall(row["tools"], item["tools"]))
        if item.get("rule"):
            right_of_ruled.append(float(item["rule"] in found))
            if found:
                right_of_cited.append(right_of_ruled[-1])

    def mean(values: Sequence[float]) -> dict[str, float | int | None]:
        return {"mean": sum(values) / len(values) if values else None, "n": len(values)}

    return {
        "n": len(pairs),
        "rate": len(cited) / len(pairs) if pairs else None,
        "recall_when_cited": mean(cited),
        "recall_when_not_cited": mean(silent),
        "correct_rule": mean(right_of_ruled),
        "correct_rule_when_cited": mean(right_of_cited),
    }


def same_length(
    predictions: Sequence[Row],
    items: Sequence[Row],
    groups: Mapping[str, str],
    embedding: Mapping[str, Sequence[str]],
    seed: int,
) -> dict[str, dict[str, Any]]:
    """{domain: {group: {"n", "embedding", "difference", "p_value"}}}: the baseline's recall with, for each query, as
    many of its best tools as the model committed to, and the model's recall minus that, paired."""
    recalls, places = [], []
    for row, item in pair_up(predictions, items):
        key, gold, tools = str(item["id"]), item["tools"], row["tools"]
        recalls.append((recall(tools, gold), recall(embedding[key], gold, len(tools))))
        places.append((str(item["domain"]), groups.get(key, "")))
    found: dict[str, dict[str, Any]] = {}
    for (domain, group), chosen in sliced(places).items():
        ours, theirs = [recalls[at][0] for at in chosen], [recalls[at][1] for at in chosen]
        test = compare(ours, theirs, seed=seed)
        found.setdefault(domain, {})[group] = {
            "n": len(chosen),
            "embedding": bootstrap(theirs, seed=seed).as_dict(),
            "difference": test.difference.as_dict(),
            "p_value": test.p_value,
        }
    return found


def outside_report(
    predictions: Sequence[Row], items: Sequence[Row], refused: Sequence[float | None], *, seed: int = 0
) -> dict[str, Any]:
    """Of requests that no tool answers the one figure is the share refused; none where the model is not calibrated."""
    slices: dict[str, Any] = {}
    for (domain, _), chosen in sliced((str(item["domain"]), "") for item in items).items():
        known = [value for at in chosen if (value := refused[at]) is not None]
        metrics = {"refused": bootstrap(known, seed=seed).as_dict()} if known else {}
        slices[domain] = {ALL: {"n": len(chosen), "metrics": metrics}}
    return {"slices": slices, "ranked": True, "speed": speed(predictions)}


def probe_report(
    predictions: Sequence[Row],
    questions: Sequence[Row],
    *,
    left_out: int = 0,
    seed: int = 0,
    draws: int = DRAWS,
) -> dict[str, Any]:
    """Accuracy beside chance; a question about a tool the model does not have counts as wrong and is counted.
    `left_out`: questions of the benchmark that count for no model."""
    right = [float(row["letter"] == question["answer"]) for row, question in pair_up(predictions, questions)]
    slices: dict[str, Any] = {}
    for (domain, _), chosen in sliced((str(question["domain"]), "") for question in questions).items():
        asked = [questions[at] for at in chosen]
        options = Counter(len(question["choices"]) for question in asked)
        slices[domain] = {
            "n": len(asked),
            "accuracy": bootstrap([right[at] for at in chosen], seed=seed, draws=draws).as_dict(),
            "random": random_baseline(asked),
            "options": {str(count): options[count] for count in sorted(options)},
        }
    unknown = sum(not row["letter"] for row in predictions)
    return {"slices": slices, "left_out": left_out, "unknown_tools": unknown}


def speed(predictions: Sequence[Row]) -> dict[str, float]:
    """Seconds and written tokens per query; in batches, so latency alone is shorter and throughput is what it is."""
    seconds = sorted(float(row.get("seconds", 0)) for row in predictions)
    tokens = sum(int(row.get("tokens", 0)) for row in predictions)
    return {
        "seconds_mean": round(sum(seconds) / len(seconds), 5),
        "seconds_p95": seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))],
        "tokens_mean": round(tokens / len(predictions), 2),
    }
