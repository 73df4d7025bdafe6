"""MetaTool with the pocket model: what `n` (formats a and c) and `r` reach, and for how many processor minutes.

    python -m tests.bench.metatool --out /some/folder [--only n-a,n-c,r-a,embedding] [--dev]

`--dev` trains without a tenth of the training queries and evaluates on that tenth: recipes are chosen there, the test
split is for what is already decided. Processor minutes are user + system time of the training process with all its
threads. A model that is already in the folder is evaluated again, not trained again.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from pathlib import Path

from evaluation.core.metrics import query_scores
from evaluation.core.stats import bootstrap_table, compare
from tests.bench.metatool_data import Row, build, encoded, split_rows, tools_of
from trace_site.lib.files import read_json, read_jsonl, write_jsonl
from training.core import recipe as recipes

ROOT = Path(__file__).parents[2]
DATA = (
    Path(os.environ.get("TRACE_PUBLIC_DATA") or ROOT.parent / "shared" / "data") / "benchmarks" / "metatool"
)
PLAIN, TRACES = ("training/recipes/pocket-benchmark.yaml", "training/recipes/pocket-benchmark-traces.yaml")


@dataclass(frozen=True)
class Cell:
    """A model to train and the decodes to judge it by."""

    recipe: str
    cell: dict[str, str]
    decodes: tuple[str, ...]


CELLS = {
    "n-a": Cell(PLAIN, {"format": "a", "memo": "none", "retrieval": "n"}, ("fast",)),
    "n-c": Cell(PLAIN, {"format": "c", "memo": "none", "retrieval": "n"}, ("fast",)),
    "r-a": Cell(TRACES, {"format": "a", "memo": "none", "retrieval": "r"}, ("trace", "fast", "trace-free")),
}


def train(cell: Cell, snapshot: Path, run: Path, threads: int) -> Row:
    """Train in a process of its own; returns what it cost."""
    if (run / "cost.json").exists():
        return dict(read_json(run / "cost.json"))
    run.mkdir(parents=True, exist_ok=True)
    recipe = replace(recipes.load(ROOT / cell.recipe).with_cell(**cell.cell), threads=threads)
    (run / "asked.yaml").write_text(recipe.to_yaml())
    stage = "plain" if recipe.retrieval == "n" else "stage2"
    command = [sys.executable, "-m", "training.ml", stage, "--snapshot", snapshot, "--run", run]
    started = time.monotonic()
    with (run / "out.txt").open("w") as out:
        child = subprocess.Popen(
            [*map(str, command), "--recipe", str(run / "asked.yaml")], cwd=ROOT, stdout=out
        )
        _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"training ended with {os.waitstatus_to_exitcode(status)}: see {run}/out.txt")
    cost = {
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "wall_seconds": round(time.monotonic() - started, 1),
        "peak_mb": usage.ru_maxrss // 1024,
    }
    (run / "cost.json").write_text(json.dumps(cost))
    return cost


def predictions(run: Path, decode: str, items: list[Row]) -> list[Row]:
    from evaluation.ml.engine import open_engine

    engine = open_engine(run / "export")
    rows = [row for batch in engine.predict(items, decode) for row in batch]
    rows.sort(key=lambda row: row["id"])
    write_jsonl(run / f"{decode}.jsonl", rows)
    return rows


def judged(rows: list[Row], items: list[Row], decode: str) -> Row:
    """Means with 95 % bootstrap intervals, and per item whether the first tool was right."""
    scores = [
        query_scores(row["tools"], item["tools"], decode in ("fast", "embedding"))
        for row, item in zip(rows, items, strict=True)
    ]
    columns = list(scores[0])
    intervals = bootstrap_table([list(score.values()) for score in scores])
    found = {name: interval.as_dict() for name, interval in zip(columns, intervals, strict=True)}
    off = sum(int(row.get("off_vocabulary", 0)) for row in rows)
    return {"decode": decode, **found, "off_vocabulary": off, "first": [score["hit@1"] for score in scores]}


def embedding_rows(items: list[Row]) -> list[Row]:
    from catalog.core.tool import embedding_text
    from evaluation.core.embedding import ranked

    tools = tools_of(DATA)
    rows = encoded([embedding_text(tool["name"], tool["description"]) for tool in tools])
    found = ranked(encoded([item["query"] for item in items]), rows, [tool["name"] for tool in tools], 10)
    return [
        {"id": item["id"], "tools": [name for name, _ in row]} for item, row in zip(items, found, strict=True)
    ]


def facts(run: Path) -> Row:
    """What was trained: parameters, tokens, steps, hashes."""
    from safetensors import safe_open

    with safe_open(run / "export" / "model.safetensors", "pt") as weights:
        parameters = sum(prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    spec = read_json(run / "export" / "trace.json")
    *_, (_, last) = read_jsonl(run / "metrics.jsonl")
    kept = {name: spec[name] for name in ("snapshot_hash", "recipe_hash", "seed")}
    return {"parameters": parameters, "tokens": last["tokens"], "steps": last["step"], **kept}


def line(name: str, result: Row) -> str:
    one, nothing = result["hit@1"], {"mean": float("nan")}
    numbers = {
        "hit@1": f"{one['mean']:.4f} [{one['low']:.4f}, {one['high']:.4f}]",
        "hit@10": f"{result.get('hit@10', nothing)['mean']:.4f}",
        "set size": f"{result.get('set_size', nothing)['mean']:.3f}",
        "off vocabulary": result["off_vocabulary"],
    }
    if cost := result.get("cost"):
        numbers["M parameters"] = f"{result['parameters'] / 1e6:.2f}"
        numbers["M tokens"] = f"{result['tokens'] / 1e6:.2f}"
        numbers["CPU min"] = f"{cost['cpu_seconds'] / 60:.2f}"
        numbers["wall min"] = f"{cost['wall_seconds'] / 60:.2f}"
    return f"{name} {result['decode']}: " + ", ".join(f"{key} {value}" for key, value in numbers.items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="n-a,n-c,r-a,embedding")
    parser.add_argument("--dev", action="store_true")
    parser.add_argument("--threads", type=int, default=2, help="on a busy machine one thread waits less")
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _, items = split_rows(DATA, options.dev)
    snapshot = options.out / "snapshot"
    if not (snapshot / "manifest.json").exists():
        build(DATA, snapshot, options.dev)
    results: list[Row] = []
    for name in options.only.split(","):
        if name == "embedding":
            found = [{"model": name, **judged(embedding_rows(items), items, name)}]
        else:
            found = _cell(name, snapshot, options.out / name, items, options.threads)
        results += found
        for result in found:
            print(line(name, result), flush=True)
    _compare(results)
    summary = {"hardware": hardware(), "dev": options.dev, "items": len(items), "results": results}
    (options.out / "results.json").write_text(json.dumps(summary) + "\n")
    for result in results:
        if "recipe_hash" in result:
            hashes = f"snapshot {result['snapshot_hash'][:12]}, recipe {result['recipe_hash'][:12]}"
            print(f"{result['model']}: {hashes}, seed {result['seed']}, {result['steps']} steps")
    print(hardware())


def _cell(name: str, snapshot: Path, run: Path, items: list[Row], threads: int) -> list[Row]:
    cell = CELLS[name]
    cost = train(cell, snapshot, run, threads)
    made = facts(run)
    return [
        {"model": name, **judged(predictions(run, decode, items), items, decode), "cost": cost, **made}
        for decode in cell.decodes
    ]


def _compare(results: list[Row]) -> None:
    """The first decode of every model beside that of every other, paired."""
    firsts: dict[str, list[float]] = {}
    for result in results:
        firsts.setdefault(result["model"], result["first"])
    for left, right in combinations(firsts, 2):
        found = compare(firsts[left], firsts[right])
        d = found.difference
        print(
            f"{left} - {right}: {d.mean:+.4f} [{d.low:+.4f}, {d.high:+.4f}], McNemar p {found.mcnemar_p:.3g}"
        )


def hardware() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((row.split(":")[1].strip() for row in lines if row.startswith("model name")), "")
    return f"{os.cpu_count()} cores, {model or platform.processor()}, Python {platform.python_version()}"


if __name__ == "__main__":
    main()
