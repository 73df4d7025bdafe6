"""From predictions to the numbers of one evaluation.

In: predictions {"id","tools","trace","off_vocabulary","follows_trace","trace_tools"}, benchmark items
{"id","tools","domain","rule"} and the group of each query. Out: what is stored and shown: means with confidence
intervals per domain and per group, per tier and style, always beside n; speed; and the embedding baseline cut to the
same list lengths. An interval depends on its queries and the seed alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from evaluation.core.coverage import EXCEPTIONS
from evaluation.core.items import is_exception, random_baseline, tier_of
from evaluation.core.metrics import (
    ALL,
    METRICS,
    RANKED_DECODES,
    Row,
    cited_codes,
    query_scores,
    recall,
)
from evaluation.core.stats import bootstrap, bootstrap_table
from trace_site.lib.errors import TraceError

CITATION = ("recall_when_cited", "recall_when_not_cited", "correct_rule", "correct_rule_when_cited")
FACETS = ("tier", "style", "side")  # what an item may say of itself, each counted over all domains


def sliced(queries: Iterable[tuple[str, ...]]) -> dict[tuple[str, str], list[int]]:
    """{(domain or all, group or all): positions} of queries with these (domain, group, ...); a query without a group
    counts in all only."""
    found: dict[tuple[str, str], list[int]] = {}
    for position, (domain, *groups) in enumerate(queries):
        for place in (ALL, domain):
            for part in (ALL, *filter(None, groups)):
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


@dataclass(frozen=True, slots=True)
class Answered:
    """A prediction beside its item. `cited`: codes of the rules that its trace names."""

    row: Row
    item: Row
    ranked: bool
    scores: Mapping[str, float]
    cited: Sequence[str] = ()

    @property
    def id(self) -> str:
        return str(self.item["id"])


def answers(
    predictions: Sequence[Row], items: Sequence[Row], decode: str, codes: Iterable[str] = ()
) -> list[Answered]:
    """`codes`: of all rules, which is what a trace can cite."""
    ranked, known = decode in RANKED_DECODES, frozenset(codes)
    return [
        Answered(
            row, item, ranked, query_scores(row["tools"], item["tools"], ranked), _cited(row, known, ranked)
        )
        for row, item in pair_up(predictions, items)
    ]


def _cited(row: Row, codes: frozenset[str], ranked: bool) -> list[str]:
    """In the own words of a model that writes, unless a clause beside it decided."""
    wrote = None if "clause" in row else row.get("wrote")
    return [] if ranked else cited_codes(str(wrote or row.get("trace", "")), codes)


def retrieval_report(given: Sequence[Answered], *, seed: int = 0) -> dict[str, Any]:
    """What stays as it is, whatever becomes of rules and clusters: no groups but exceptions."""
    return {
        "slices": summarise(given, {}, seed=seed),
        "facets": facets(given, seed=seed),
        "ranked": given[0].ranked,
        "speed": speed([one.row for one in given]),
    }


def summarise(
    given: Sequence[Answered], groups: Mapping[str, str], *, seed: int = 0, only: Iterable[str] = ()
) -> dict[str, Any]:
    """{domain or "all": {group or "all": {"n", "metrics", "off_vocabulary", "following"?, "citation"?}}}.

    `groups` maps a query id to its group (covered, uncovered, ...); `only`: of these groups.
    """
    result: dict[str, Any] = {}
    for (domain, group), places in _places(given, groups).items():
        if not only or group in only:
            result.setdefault(domain, {})[group] = summary_of([given[at] for at in places], seed)
    return result


def _places(given: Sequence[Answered], groups: Mapping[str, str]) -> dict[tuple[str, str], list[int]]:
    return sliced(
        (str(one.item["domain"]), groups.get(one.id, ""), EXCEPTIONS if is_exception(one.item) else "")
        for one in given
    )


def summary_of(given: Sequence[Answered], seed: int = 0) -> dict[str, Any]:
    """The numbers of some queries."""
    ranked = given[0].ranked
    names = [name for name in METRICS if name in given[0].scores]
    intervals = bootstrap_table([[one.scores[name] for name in names] for one in given], seed=seed)
    rows = [one.row for one in given]
    summary: dict[str, Any] = {
        "n": len(given),
        "metrics": {name: one.as_dict() for name, one in zip(names, intervals, strict=True)},
        "off_vocabulary": off_vocabulary(rows),
    }
    if not ranked:
        summary |= {"following": following(rows), "citation": citation(given, seed=seed)}
    return summary


def facets(given: Sequence[Answered], *, seed: int = 0) -> dict[str, dict[str, Any]]:
    """{facet: {value: numbers}} of what items say of themselves: the tier by the number of right tools, and the style
    and side of the request under its rule, where the benchmark knows them. Groups change none of it."""
    found: dict[str, dict[str, list[Answered]]] = {}
    for one in given:
        for facet in FACETS:
            if value := tier_of(one.item) if facet == "tier" else one.item.get(facet):
                found.setdefault(facet, {}).setdefault(str(value), []).append(one)
    return {
        facet: {value: summary_of(chosen, seed) for value, chosen in sorted(values.items())}
        for facet, values in found.items()
    }


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


def citation(given: Sequence[Answered], *, seed: int = 0) -> dict[str, Any]:
    """How often a trace names a rule, whether it is the right one, and recall with and without a citation: each a mean
    with its interval and n, None where n is 0. `correct_rule` is of the requests that a rule decides,
    `correct_rule_when_cited` of those among them whose trace names any."""
    told: defaultdict[str, list[float]] = defaultdict(list)
    for one in given:
        row, item, found = one.row, one.item, one.cited
        told["cited"].append(float(bool(found)))
        kept = "recall_when_cited" if found else "recall_when_not_cited"
        told[kept].append(recall(row["tools"], item["tools"]))
        if item.get("rule"):
            told["correct_rule"].append(float(item["rule"] in found))
            if found:
                told["correct_rule_when_cited"].append(float(item["rule"] in found))

    def mean(name: str) -> dict[str, Any]:
        values = told[name]
        return bootstrap(values, seed=seed).as_dict() if values else {"mean": None, "n": 0}

    cited = mean("cited")
    return {"n": len(given), "rate": cited["mean"], "cited": cited, **{name: mean(name) for name in CITATION}}


def same_length(
    given: Sequence[Answered],
    groups: Mapping[str, str],
    embedding: Mapping[str, Sequence[str]],
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """{domain: {group: {"n", "embedding", "difference"}}}: the baseline's recall with, for each query, as many of its
    best tools (`embedding`: ranked names by query id) as the model committed to, and the model's recall minus that."""
    found: dict[str, dict[str, Any]] = {}
    for (domain, group), places in _places(given, groups).items():
        pairs = []
        for one in (given[at] for at in places):
            gold, tools = one.item["tools"], one.row["tools"]
            pairs.append((recall(tools, gold), recall(embedding[one.id], gold, len(tools))))
        table = [(theirs, ours - theirs) for ours, theirs in pairs]
        baseline, difference = bootstrap_table(table, seed=seed)
        numbers = {"n": len(pairs), "embedding": baseline.as_dict(), "difference": difference.as_dict()}
        found.setdefault(domain, {})[group] = numbers
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
    seed: int = 0,
) -> dict[str, Any]:
    """Accuracy beside chance; a question about a tool the model does not have counts as wrong and is counted."""
    right = [float(row["letter"] == question["answer"]) for row, question in pair_up(predictions, questions)]
    slices: dict[str, Any] = {}
    for (domain, _), chosen in sliced((str(question["domain"]), "") for question in questions).items():
        asked = [questions[at] for at in chosen]
        options = Counter(len(question["choices"]) for question in asked)
        slices[domain] = {
            "n": len(asked),
            "accuracy": bootstrap([right[at] for at in chosen], seed=seed).as_dict(),
            "random": random_baseline(asked),
            "options": {str(count): options[count] for count in sorted(options)},
        }
    unknown = sum(not row["letter"] for row in predictions)
    return {"slices": slices, "unknown_tools": unknown}


def speed(predictions: Sequence[Row]) -> dict[str, float]:
    """Seconds and written tokens per query; in batches, so latency alone is longer and throughput is what it is."""
    seconds = sorted(float(row.get("seconds", 0)) for row in predictions)
    tokens = sum(int(row.get("tokens", 0)) for row in predictions)
    return {
        "seconds_mean": round(sum(seconds) / len(seconds), 5),
        "seconds_p95": seconds[min(len(seconds) - 1, int(0.95 * len(seconds)))],
        "tokens_mean": round(tokens / len(predictions), 2),
    }


def asked_at_once(rows: Sequence[Row]) -> int | None:
    """Requests that began a forward together, of predictions in the order they were written: an engine tells all of a
    batch the same seconds. The usual number, for the last batch is what is left; None without times."""
    batches = [len(list(batch)) for seconds, batch in groupby(row.get("seconds") for row in rows) if seconds]
    return Counter(batches).most_common(1)[0][0] if batches else None
