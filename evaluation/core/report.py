"""From predictions to the numbers of one evaluation.

In: predictions, items and the group of each query. Out: what is stored and shown: slices per domain and group with
intervals, speed, and the embedding baseline cut to the same list lengths.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation.core.metrics import ALL, RANKED_DECODES, pair_up, query_scores, recall, summarise
from evaluation.core.probes import accuracy
from evaluation.core.stats import bootstrap, compare

Row = Mapping[str, Any]


def item_scores(row: Row, item: Row, decode: str) -> dict[str, float]:
    """Every metric of one answer."""
    if decode == "letters":
        return {"accuracy": float(row["letter"] == item["answer"])}
    if not item["tools"]:
        return {}  # no tool answers it: whether it is refused is known once the model is calibrated
    return query_scores(row["tools"], item["tools"], decode in RANKED_DECODES)


def probe_report(
    predictions: Sequence[Row], items: Sequence[Row], *, left_out: int = 0, seed: int = 0
) -> dict[str, Any]:
    """Accuracy beside chance; a question about a tool the model does not have counts as wrong and is counted.
    `left_out`: questions of the benchmark that count for no model."""
    letters = {str(row["id"]): str(row["letter"]) for row in predictions}
    return {
        "slices": accuracy(letters, items, seed=seed),
        "left_out": left_out,
        "unknown_tools": sum(not letter for letter in letters.values()),
    }


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


def outside_report(
    predictions: Sequence[Row], items: Sequence[Row], refused: Sequence[float | None], *, seed: int = 0
) -> dict[str, Any]:
    """Of requests that no tool answers the one figure is the share refused; none where the model is not calibrated."""
    slices: dict[str, list[float | None]] = {}
    for item, value in zip(items, refused, strict=True):
        for domain in (ALL, str(item["domain"])):
            slices.setdefault(domain, []).append(value)
    return {
        "slices": {domain: {ALL: _refused(own, seed)} for domain, own in sorted(slices.items())},
        "ranked": True,
        "speed": speed(predictions),
    }


def _refused(values: Sequence[float | None], seed: int) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    metrics = {"refused": bootstrap(known, seed=seed).as_dict()} if known else {}
    return {"n": len(values), "metrics": metrics}


def speed(predictions: Sequence[Row]) -> dict[str, float]:
    """Seconds and written tokens per query; in batches, so latency alone is shorter and throughput is what it is."""
    seconds = sorted(float(row.get("seconds", 0)) for row in predictions)
    tokens = sum(int(row.get("tokens", 0)) for row in predictions)
    return {
        "seconds_mean": round(sum(seconds) / len(seconds), 5),
        "seconds_p95": seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))],
        "tokens_mean": round(tokens / len(predictions), 2),
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
    slices: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row, item in pair_up(predictions, items):
        key, gold = str(item["id"]), item["tools"]
        pair = recall(row["tools"], gold), recall(embedding[key][: len(row["tools"])], gold)
        for domain in (ALL, str(item["domain"])):
            for group in dict.fromkeys((ALL, groups.get(key, ALL))):
                slices.setdefault((domain, group), []).append(pair)
    found: dict[str, dict[str, Any]] = {}
    for (domain, group), pairs in sorted(slices.items()):
        ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
        test = compare(ours, theirs, seed=seed)
        found.setdefault(domain, {})[group] = {
            "n": len(pairs),
            "embedding": bootstrap(theirs, seed=seed).as_dict(),
            "difference": test.difference.as_dict(),
            "p_value": test.p_value,
        }
    return found
