"""The pretrained base against its acceptance: every line measured, resumable, one report.

    python -m bench.base --out DIR [--only public,control] [--seeds 0,1,2] [--threads 2]

Every part and seed leaves DIR/results/PART-SEED.json; what is there is not measured again, and a part that was killed
goes on with its newest checkpoint and its last answer (its seconds are then marked, they count the last attempt only).
Snapshots come from homes under DIR that the product's commands fill. Prints Markdown, which is also DIR/report.md:
means and ranges over seeds, 95 % intervals over queries, and what was trained on what. Recipes are chosen by two parts
that run only when they are named: `public-dev` asks requests written apart from every benchmark, `metatool-dev` trains
without a tenth of the training queries and asks that tenth.
"""

import argparse
import json
import os
import statistics
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.base_parts import BY_HAND, PARTS
from bench.base_runs import ROOT, Bench, Row, figure
from trace_site.lib.files import read_json, write_atomic
from trace_site.lib.provenance import code_revision, hardware_facts

SHOWN = 5  # tools of a quoted answer
# (part, figure): what is asked of the mean over seeds; of an interval ("low") what its end must keep
BOUNDS: dict[tuple[str, str], tuple[str, str, float]] = {
    ("untrained", "same first tool as the embedding"): ("mean", ">=", 0.95),
    ("untrained", "overlap of the first ten"): ("mean", ">=", 0.95),
    ("public", "minutes of training"): ("mean", "<=", 12),
    ("public", "most memory of a training process, GB"): ("mean", "<=", 6),
    ("public", "fast, target side, R@1"): ("mean", ">=", 0.60),
    ("public", "fast, target side, R@10"): ("mean", ">=", 0.92),
    ("public", "fast, other side, R@1"): ("mean", ">=", 0.40),
    ("public", "fast, other side, R@10"): ("mean", ">=", 0.85),
    ("public", "fast, no rule, R@1"): ("mean", ">=", 0.33),
    ("public", "fast, no rule, R@10"): ("mean", ">=", 0.70),
    ("public", "right rule cited"): ("mean", ">=", 0.60),
    ("public", "any rule cited where none decides"): ("mean", "<=", 0.15),
    ("public", "traces that end in the answer"): ("mean", ">=", 0.95),
    ("control", "r+R - r, fast, rule queries, R@1"): ("low", ">", 0),
    ("control", "r+R - r, fast, no rule, R@1"): ("high", ">=", 0),
    ("control", "r+R - r, fast, no rule, R@10"): ("high", ">=", 0),
    ("demo", "fast, plain, covered, R@1"): ("mean", ">=", 0.6),
    ("demo", "trace, plain, covered, R@gen"): ("mean", ">=", 0.6),
    ("demo", "fast - embedding, hard, uncovered, R@1"): ("mean", ">=", -0.05),
    ("demo", "fast - embedding, hard, outside, R@1"): ("mean", ">=", -0.05),
    ("demo", "trace - embedding, hard, uncovered, R@gen"): ("mean", ">=", -0.05),
    ("demo", "trace - embedding, hard, outside, R@gen"): ("mean", ">=", -0.05),
    ("metatool", "n, format a, fast, hit@1"): ("mean", ">=", 0.819),
    ("metatool", "n, format a, fast, hit@10"): ("mean", ">=", 0.985),
    ("metatool", "n, format a: minutes of training"): ("mean", "<=", 10),
    ("metatool", "n, format c, fast - n, format a, fast, hit@1"): ("mean", ">=", -0.01),
    ("metatool", "r, format a: minutes of training"): ("mean", "<=", 30),
    ("metatool", "r, format a, trace - r, format a, fast, hit@1"): ("mean", ">=", -0.02),
    ("probes", "MCQ_ts, m, accuracy - chance"): ("low", ">", 0),
    ("probes", "QA_ts, m, accuracy - chance"): ("low", ">", 0),
    ("probes", "MCQ_ts, mr, accuracy - chance"): ("low", ">", 0),
    ("probes", "QA_ts, mr, accuracy - chance"): ("low", ">", 0),
}


def measure(bench: Bench, name: str, seeds: Sequence[int]) -> list[Row]:
    """The results of a part, one a seed; what is missing is measured."""
    part, found = PARTS[name], []
    for seed in seeds if part.seeded else seeds[:1]:
        path = bench.out / "results" / f"{name}-{seed}.json"
        if not path.is_file():
            print(f"== {name}, seed {seed}", flush=True)
            result = {"part": name, "seed": seed, **part.measure(bench, seed)}
            write_atomic(
                path, json.dumps({**result, "hardware": machine(bench)}, ensure_ascii=False, indent=1)
            )
        found.append(read_json(path))
    return found


def machine(bench: Bench) -> Row:
    made = {"torch": version("torch"), "code": code_revision(ROOT)["commit"], "quick": bench.quick}
    return {**hardware_facts(bench.threads), **made}


def report(results: dict[str, list[Row]]) -> Iterator[str]:
    machines = [row["hardware"] for rows in results.values() for row in rows]
    made, codes = machines[0], dict.fromkeys(each["code"][:12] for each in machines)
    yield "# The pretrained base, measured\n"
    yield f"{made['cores']} cores, {made['cpu']}, {made['memory_gb']} GB, {made['threads']} threads;"
    yield f"torch {made['torch']}, code {', '.join(codes)}"
    if made["quick"]:
        yield "\n**A smoke run: a few steps on a part of the data. No figure means anything.**"
    for name, rows in results.items():
        yield from table(name, rows)
    yield from trainings(results)
    for row in results.get("public", [])[:1]:
        yield from traces(row)


def table(name: str, rows: Sequence[Row]) -> Iterator[str]:
    """One part: mean and range over its seeds, the interval over queries of the mean over seeds."""
    yield f"\n## {name} (seeds {', '.join(str(row['seed']) for row in rows)})\n"
    yield "| figure | mean | range | 95 % | n | asked | |"
    yield "|---|---|---|---|---|---|---|"
    for title in rows[0]["figures"]:
        values = [row["figures"][title] for row in rows]
        pooled, means = pool(values)
        if pooled["mean"] is None:
            continue
        interval = f"{number(pooled['low'])} to {number(pooled['high'])}" if "low" in pooled else ""
        spread = f"{number(min(means))} to {number(max(means))}" if len(means) > 1 else ""
        asked, kept = judged(BOUNDS.get((name, title)), pooled)
        cells = (title, number(pooled["mean"]), spread, interval, str(pooled.get("n", "")), asked, kept)
        yield f"| {' | '.join(cells)} |"


def pool(values: Sequence[Any]) -> tuple[Row, list[float]]:
    """Over seeds: query by query where every query has its number. Returns the figure, and the seeds' means."""
    known = [value for value in values if value is not None]
    if known and isinstance(known[0], dict):
        each = [statistics.fmean(query) for query in zip(*(value["each"] for value in known), strict=True)]
        return figure(each), [value["mean"] for value in known]
    return {"mean": statistics.fmean(known) if known else None}, [float(value) for value in known]


def judged(bound: tuple[str, str, float] | None, pooled: Row) -> tuple[str, str]:
    if bound is None:
        return "", ""
    end, sign, limit = bound
    value = pooled[end]
    close = 1e-9  # one query of 24 is not more than one of 24
    kept = {">=": value >= limit - close, "<=": value <= limit + close, ">": value > limit}[sign]
    return f"{'' if end == 'mean' else f'{end} '}{sign} {number(limit)}", "yes" if kept else "**no**"


def number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def trainings(results: dict[str, list[Row]]) -> Iterator[str]:
    yield "\n## Training processes\n"
    yield (
        "| part | seed | stage | cell | steps | M tokens | M parameters | wall s | CPU s | peak MB | load before |"
        " snapshot | recipe | encoder |"
    )
    yield "|---" * 14 + "|"
    for name, rows in results.items():
        for row in rows:
            for stage in row["stages"]:
                wall = f"{stage['wall_seconds']}{' (resumed)' if stage['resumed'] else ''}"
                counts = (stage["steps"], f"{stage['tokens'] / 1e6:.2f}", f"{stage['parameters'] / 1e6:.1f}")
                spent = (wall, stage["cpu_seconds"], stage["peak_mb"], stage["load_before"])
                hashes = (stage[key][:12] for key in ("snapshot_hash", "recipe_hash", "encoder"))
                cells = (name, row["seed"], stage["stage"], stage["cell"], *counts, *spent, *hashes)
                yield f"| {' | '.join(map(str, cells))} |"


def traces(row: Row) -> Iterator[str]:
    yield f"\n## {len(row['quoted'])} traces, drawn by seed {row['seed']}\n"
    for one in row["quoted"]:
        answered = ", ".join(one["answered"][:SHOWN]) + (" ..." if len(one["answered"]) > SHOWN else "")
        right = "right" if one["answered"][:1] == one["wanted"][:1] else f"wanted {', '.join(one['wanted'])}"
        yield f'- {one["id"]}, {one["slice"]}, rule {one["rule"] or "-"}: "{one["query"]}"'
        yield f"  > {' '.join(one['trace'].split())}\n"
        yield f"  answered {answered} ({right})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    usual = ",".join(name for name in PARTS if name not in BY_HAND)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=usual, help=f"of {', '.join(PARTS)}")
    parser.add_argument("--seeds", default="0,1,2", help="the parts without a range take the first")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names, seeds = asked.only.split(","), [int(seed) for seed in asked.seeds.split(",")]
    if unknown := set(names) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    data = Path(os.environ.get("TRACE_PUBLIC_DATA") or ROOT.parent / "shared" / "data")
    out = asked.out.resolve() / ("quick" if asked.quick else "")
    bench = Bench(out, data, asked.threads, asked.quick)
    text = "\n".join(report({name: measure(bench, name, seeds) for name in names}))
    write_atomic(bench.out / "report.md", text + "\n")
    print(text)


if __name__ == "__main__":
    main()
