"""The parts of `bench.base`: each measures one acceptance line of the pretrained base.

In: a `Bench` and a seed. Out: {"figures": {name: number or figure}, "stages": what was trained for it, ...}, as JSON.
Names of figures are what the report prints and what its bounds are looked up by.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.base_homes import GOLDEN, TIERS, rows_of
from bench.base_runs import Bench, Row, Trained, difference, figure, only, scores
from bench.metatool_data import split_rows
from evaluation.core.asking import labelled_item
from evaluation.core.confidence import BEST
from evaluation.core.items import build_probes, is_development
from evaluation.core.metrics import cited_codes
from evaluation.core.questions import mcq_question, qa_question
from trace_site.lib.files import read_json

REQUESTS = Path(__file__).with_name("dev_requests.jsonl")
RULE_REQUESTS = Path(__file__).with_name("dev_rule_requests.jsonl")
DRAWN = 100  # golden queries beside as many written requests
QUOTED = 20
PROBES = 500
TARGET, OTHER, FREE = SIDES = ("target side", "other side", "no rule")
Figures = dict[str, Any]
Labels = dict[str, str]  # query id -> the slice it counts in


def untrained(bench: Bench, seed: int) -> Row:
    """Format a before any training, beside the embedding, on requests that people wrote."""
    golden = random.Random(seed).sample(rows_of(GOLDEN), DRAWN)
    items = [
        {"id": row["id"], "query": row["query"], "tools": ["-"]} for row in [*rows_of(REQUESTS), *golden]
    ]
    trained = bench.trained("public", seed, "a", "none", "none")
    ours = bench.answers(trained, "requests", items, "fast")
    theirs = bench.embedding("public", items, rows_of(bench.snapshot("public") / "tools.jsonl"))
    pairs = [(a["tools"], b["tools"]) for a, b in zip(ours, theirs, strict=True)]
    return {
        "figures": {
            "same first tool as the embedding": figure([float(a[:1] == b[:1]) for a, b in pairs]),
            "overlap of the first ten": figure([len(set(a) & set(b)) / len(b) for a, b in pairs]),
        },
        "stages": trained.stages,
    }


def public(bench: Bench, seed: int, name: str = "prb_public") -> Row:
    """prb_public with (a, m, r+R): both decodes, what traces cite, and whether they matter."""
    items, labels = public_items(bench, name)
    trained = bench.trained("public", seed, "a", "m", "r+R")
    fast, trace = (bench.answers(trained, name, items, decode) for decode in ("fast", "trace"))
    embedding = bench.embedding("public", items, rows_of(bench.snapshot("public") / "tools.jsonl"))
    free = [label == FREE for label in labels.values()]
    lost = [
        b - a
        for a, b in zip(scores(fast, items, "recall@10"), scores(embedding, items, "recall@10"), strict=True)
    ]
    figures = {
        **cost(trained),
        **beside(items, labels, SIDES, fast, trace, embedding),
        "fast, no rule, net loss at R@10": sum(
            loss for loss, is_free in zip(lost, free, strict=True) if is_free
        ),
        **citing(items, trace, bench.snapshot("public")),
        **writing(trace),
        **matters(bench, trained, items, labels),
    }
    return {"figures": figures, "stages": trained.stages, "quoted": quoted(trace, items, labels, seed)}


def public_dev(bench: Bench, seed: int) -> Row:
    """The same on requests written apart from every benchmark: recipes are chosen there."""
    return public(bench, seed, "dev")


def public_items(bench: Bench, name: str = "prb_public") -> tuple[list[Row], Labels]:
    """The queries, each with its rule's code instead of its place in the file of rules."""
    entries = read_json(bench.public_data / "rules" / "rules.json")
    rules = rows_of(bench.snapshot("public") / "rules.jsonl")
    codes = {(rule["target"], rule["text"].strip()): rule["code"] for rule in rules}
    if name == "dev":
        ruled = [row for row in rows_of(RULE_REQUESTS) if row["rule"] < len(entries)]  # a smoke run has few
        items = [*ruled, *({**row, "rule": None} for row in rows_of(REQUESTS))]
    else:
        items = rows_of(bench.public_data / "benchmarks" / name / "queries.jsonl")
    labels = {}
    for item in items:
        labels[item["id"]] = {"primary": TARGET, "other": OTHER}.get(item.get("side") or "", FREE)
        if item["rule"] is not None:
            entry = entries[item["rule"]]
            item["rule"] = codes[entry["tool_name"], entry["rule_text"].strip()]
    return items, labels


def beside(
    items: Sequence[Row],
    labels: Labels,
    groups: Sequence[str],
    fast: Sequence[Row],
    trace: Sequence[Row],
    embedding: Sequence[Row],
) -> Figures:
    """Every slice by both decodes and by the embedding, and the paired differences."""
    columns = [
        *(("fast", "R@1", fast, "recall@1", "recall@1"), ("fast", "R@10", fast, "recall@10", "recall@10")),
        *(
            ("trace", "R@gen", trace, "recall@gen", "recall@1"),
            ("trace", "first tool", trace, "hit@1", "hit@1"),
        ),
    ]
    found: Figures = {}
    for decode, title, rows, metric, base in columns:
        ours, theirs = scores(rows, items, metric), scores(embedding, items, base)
        for group in groups:
            here, there = (only(values, items, labels, group) for values in (ours, theirs))
            found[f"{decode}, {group}, {title}"] = figure(here)
            if decode == "fast":
                found[f"embedding, {group}, {title}"] = figure(there)
            found[f"{decode} - embedding, {group}, {title}"] = difference(here, there)
    return found


def citing(items: Sequence[Row], trace: Sequence[Row], snapshot: Path) -> Figures:
    codes = {rule["code"] for rule in rows_of(snapshot / "rules.jsonl")}
    right, needless = [], []
    for item, row in zip(items, trace, strict=True):
        cited = cited_codes(str(row["trace"]), codes)
        if item.get("rule"):
            right.append(float(item["rule"] in cited))
        else:
            needless.append(float(bool(cited)))
    return {"right rule cited": figure(right), "any rule cited where none decides": figure(needless)}


def writing(trace: Sequence[Row]) -> Figures:
    return {
        "traces that end in the answer": figure([float(bool(row["follows_trace"])) for row in trace]),
        "traces that name no tool": sum(not row["trace_tools"] for row in trace),
        "traces cut at the cap": sum(bool(row["cut"]) for row in trace),
        "tools in the answer": figure([float(len(row["tools"])) for row in trace]),
        "tokens of trace and answer": figure([float(row["tokens"]) for row in trace]),
        "words of the trace": figure([float(len(str(row["trace"]).split())) for row in trace]),
    }


def matters(bench: Bench, trained: Trained, items: Sequence[Row], labels: Labels) -> Figures:
    """R@1 of what follows the own clause, and that of the next request whose decision has one; and how often the answer
    is a tool of that other clause."""
    from evaluation.ml.deciding import decided, ranking, read
    from evaluation.ml.engine import open_engine

    engine = open_engine(trained.export, bench.threads)
    export = engine.export
    found = [read(export, [engine.asked(labelled_item(item), "trace", 1)])[0] for item in items]
    orders = [ranking(one.best, BEST) for one in found]
    own = [decided(export, one, order) for one, order in zip(found, orders, strict=True)]
    clauses = [one.clause for one in own]
    others = [next(filter(None, [*clauses[at + 1 :], *clauses])) for at in range(len(items))]
    swapped = [
        decided(export, one, order, clause=clause["token"])
        for one, order, clause in zip(found, orders, others, strict=True)
    ]
    figures: Figures = {}
    for name, decisions in (("its own clause", own), ("another's clause", swapped)):
        rows = [
            {"id": item["id"], "tools": one.listed[:1]} for item, one in zip(items, decisions, strict=True)
        ]
        firsts = scores(rows, items, "recall@1")
        for group in SIDES:
            figures[f"after {name}, {group}, R@1"] = figure(only(firsts, items, labels, group))
    follows = [float(one.listed[0] in clause["tools"]) for one, clause in zip(swapped, others, strict=True)]
    return {**figures, "answers that follow another's clause": figure(follows)}


def quoted(trace: Sequence[Row], items: Sequence[Row], labels: Labels, seed: int) -> list[Row]:
    """Some traces, drawn and not chosen."""
    chosen = sorted(random.Random(seed).sample(range(len(items)), min(QUOTED, len(items))))
    return [
        {
            "slice": labels[items[at]["id"]],
            **{key: items[at][key] for key in ("id", "query", "rule")},
            "wanted": items[at]["tools"],
            "trace": trace[at]["trace"],
            "answered": trace[at]["tools"],
        }
        for at in chosen
    ]


def control(bench: Bench, seed: int) -> Row:
    """r+R minus r on the same snapshot, query by query."""
    items, labels = public_items(bench)
    found, stages = {}, []
    for retrieval in ("r+R", "r"):
        trained = bench.trained("public", seed, "a", "m", retrieval)
        stages += [stage for stage in trained.stages if stage not in stages]
        found[retrieval] = {
            decode: bench.answers(trained, "prb_public", items, decode) for decode in ("fast", "trace")
        }
    figures: Figures = {}
    for decode, title, metric in (
        *(("fast", "R@1", "recall@1"), ("fast", "R@10", "recall@10")),
        ("trace", "R@gen", "recall@gen"),
    ):
        ruled, plain = (scores(found[retrieval][decode], items, metric) for retrieval in ("r+R", "r"))
        for name, groups in (("rule queries", (TARGET, OTHER)), ("no rule", (FREE,))):
            here, there = (only(values, items, labels, *groups) for values in (ruled, plain))
            figures[f"r, {decode}, {name}, {title}"] = figure(there)
            figures[f"r+R - r, {decode}, {name}, {title}"] = difference(here, there)
    return {"figures": figures, "stages": stages}


def demo(bench: Bench, seed: int, development: bool = False) -> Row:
    """The half of the demo's golden queries that is shown, by tier: its champion (a, m, r+R) beside the same model
    without rule samples and the embedding."""
    snapshot, items, labels = bench.snapshot("demo"), list[Row](), Labels()
    groups = read_json(snapshot / "groups.json")
    for tier, path in TIERS.items():
        for row in rows_of(path):
            if is_development(row["id"]) == development:
                items.append(row)
                labels[row["id"]] = f"{tier}, {groups[row['id']]}"
    name = "development" if development else "shown"
    trained, without = (bench.trained("demo", seed, "a", "m", retrieval) for retrieval in ("r+R", "r"))
    fast, trace = (bench.answers(trained, name, items, decode) for decode in ("fast", "trace"))
    control = scores(bench.answers(without, name, items, "fast"), items, "recall@1")
    embedding = bench.embedding("demo", items, rows_of(snapshot / "tools.jsonl"))
    slices = sorted(set(labels.values()))
    figures = {
        **cost(trained),
        **beside(items, labels, slices, fast, trace, embedding),
        **{f"control, {one}, R@1": figure(only(control, items, labels, one)) for one in slices},
        **citing(items, trace, snapshot),
        **writing(trace),
    }
    stages = [*trained.stages, *(stage for stage in without.stages if stage not in trained.stages)]
    return {"figures": figures, "stages": stages}


def demo_dev(bench: Bench, seed: int) -> Row:
    """The same on the other half: recipes are chosen there."""
    return demo(bench, seed, development=True)


def metatool(bench: Bench, seed: int, name: str = "metatool") -> Row:
    """The public test half: n in formats a and c, r in format a."""
    data, snapshot = bench.public_data / "benchmarks" / "metatool", bench.snapshot(name)
    _, rows = split_rows(data, dev=name.endswith("-dev"))
    items = [{**row, "id": str(row["id"])} for row in rows]
    embedding = bench.embedding(name, items, rows_of(snapshot / "tools.jsonl"))
    firsts, stages, figures = {"embedding": scores(embedding, items, "hit@1")}, list[Row](), Figures()
    figures["embedding, hit@10"] = figure(scores(embedding, items, "hit@10"))
    for cell, fmt, retrieval, decodes in (
        ("n, format a", "a", "n", ("fast",)),
        ("n, format c", "c", "n", ("fast",)),
        ("r, format a", "a", "r", ("fast", "trace")),
    ):
        trained = bench.trained(name, seed, fmt, "none", retrieval)
        stages += trained.stages
        figures |= {f"{cell}: {key}": value for key, value in cost(trained).items()}
        for decode in decodes:
            found = bench.answers(trained, name, items, decode)
            firsts[f"{cell}, {decode}"] = scores(found, items, "hit@1")
            if decode == "fast":
                figures[f"{cell}, fast, hit@10"] = figure(scores(found, items, "hit@10"))
    figures |= {f"{cell}, hit@1": figure(values) for cell, values in firsts.items()}
    for left, right in (
        ("n, format a, fast", "embedding"),
        ("n, format c, fast", "n, format a, fast"),
        ("r, format a, trace", "r, format a, fast"),
    ):
        figures[f"{left} - {right}, hit@1"] = difference(firsts[left], firsts[right])
    return {"figures": figures, "stages": stages}


def metatool_dev(bench: Bench, seed: int) -> Row:
    """The same on a tenth of the training queries, held out: recipes are chosen there."""
    return metatool(bench, seed, "metatool-dev")


def probes(bench: Bench, seed: int) -> Row:
    """Lettered questions about tools, before and after Stage 1."""
    snapshot = bench.snapshot("public")
    near = {row["name"]: row["neighbours"] for row in rows_of(snapshot / "neighbours.jsonl")}
    tools, count = rows_of(snapshot / "tools.jsonl"), 40 if bench.quick else PROBES
    mcq, qa = (build_probes(kind, tools, near, count, seed=seed) for kind in ("mcq", "qa"))
    asked = {
        "MCQ_ts": [mcq_question(row, seed=seed) for row in mcq],
        "QA_ts": [qa_question(row) for row in qa],
    }
    figures, stages = Figures(), list[Row]()
    for memo in ("none", "m", "mr"):
        trained = bench.trained("public", seed, "a", memo, "none")
        stages += trained.stages
        for probe, questions in asked.items():
            rows = bench.answers(trained, probe, questions, "letters")
            right = [float(row["letter"] == one["answer"]) for row, one in zip(rows, questions, strict=True)]
            chance = [1 / len(one["choices"]) for one in questions]
            figures[f"{probe}, {memo}, accuracy"] = figure(right)
            figures[f"{probe}, {memo}, accuracy - chance"] = difference(right, chance)
    return {"figures": figures, "stages": stages}


def cost(trained: Trained) -> Figures:
    """Of all its stages together."""
    return {
        "minutes of training": sum(stage["wall_seconds"] for stage in trained.stages) / 60,
        "processor minutes of training": sum(stage["cpu_seconds"] for stage in trained.stages) / 60,
        "most memory of a training process, GB": max(stage["peak_mb"] for stage in trained.stages) / 1024,
    }


@dataclass(frozen=True)
class Part:
    measure: Callable[[Bench, int], Row]
    seeded: bool = False  # by every seed that is asked for, not by the first alone


PARTS = {
    "untrained": Part(untrained),
    "public": Part(public, seeded=True),
    "control": Part(control, seeded=True),
    "demo": Part(demo, seeded=True),
    "metatool": Part(metatool),
    "probes": Part(probes),
    "metatool-dev": Part(metatool_dev),
    "public-dev": Part(public_dev),
    "demo-dev": Part(demo_dev, seeded=True),
}
BY_HAND = ("metatool-dev", "public-dev", "demo-dev")
