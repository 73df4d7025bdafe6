"""What the parts of `bench.base` share: snapshots, trainings in processes of their own, answers, figures.

In: a folder, in which everything that is done stays. Out: exports with what they cost, predictions, the embedding's
predictions, and figures: one number a query with its mean and interval, so that seeds can be pooled query by query.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bench.base_homes import cut, rows_of
from bench.metatool_data import build
from catalog.core.tool import embedding_text
from evaluation.core.asking import labelled_item, labelled_question
from evaluation.core.embedding import ranked
from evaluation.core.metrics import query_scores
from evaluation.core.report import pair_up
from evaluation.core.stats import bootstrap
from trace_site.lib.files import read_json, write_atomic, write_jsonl
from training.core import recipe as recipes
from training.core.recipe import PLAIN, STAGES, Recipe
from training.core.stages import passes

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "training" / "recipes" / "pocket.yaml"
POLL_SECONDS = 0.2
K = 10
Row = dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """A model and every training process behind it."""

    folder: Path  # of its last stage
    stages: list[Row]

    @property
    def export(self) -> Path:
        return self.folder / "export"


@dataclass(frozen=True)
class Bench:
    out: Path
    data: Path
    threads: int
    quick: bool

    @property
    def public_data(self) -> Path:
        """The data; with `quick` a small part of it."""
        if not self.quick:
            return self.data
        folder = self.out / "data"
        if not folder.is_dir():
            cut(self.data, folder)
        return folder

    def snapshot(self, name: str) -> Path:
        """Built when it is missing: MetaTool's without a database, the others in homes."""
        folder = self.out / "snapshots" / name
        if (folder / "manifest.json").is_file():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        print(f"building the snapshot {name}", flush=True)
        if name.startswith("metatool"):
            build(self.public_data / "benchmarks" / "metatool", folder, dev=name.endswith("-dev"))
            return folder
        home = self.out / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        command = ["bench.base_homes", name, "--data", self.public_data, "--out", folder]
        with (home / "out.txt").open("a") as log:
            subprocess.run(
                [sys.executable, "-m", *map(str, command), *(["--quick"] if self.quick else [])],
                cwd=ROOT,
                env={**os.environ, "TRACE_HOME": str(home)},
                stdout=log,
                check=True,
            )
        return folder

    def recipe(self, **cell: Any) -> Recipe:
        """The default recipe for a cell."""
        recipe = recipes.load(RECIPE).with_cell(threads=self.threads, **cell)
        if not self.quick:
            return recipe
        few = {name: replace(getattr(recipe, name), max_steps=3) for name in STAGES}
        return replace(recipe, **few, max_new_tokens=64)

    def trained(self, name: str, seed: int, fmt: str, memo: str, retrieval: str) -> Trained:
        """A cell on a snapshot; cells of the same seed share Stage 1."""
        recipe = self.recipe(format=fmt, memo=memo, retrieval=retrieval, seed=seed)
        folder, stages = self.out / "runs" / name / f"seed-{seed}", []
        snapshot, init, last = self.snapshot(name), None, folder
        if memo != "none" or retrieval == "none":
            last = folder / f"{fmt}-{memo}"
            first = recipe.with_cell(retrieval="none")
            stages.append(train("base" if memo == "none" else "stage1", snapshot, last, first))
            init = last / "export"
        for one in passes(recipe):
            last = folder / f"{fmt}-{memo}-{one}"
            stage = "plain" if one in PLAIN else "stage2"
            # a plain pass is the same whichever cell it is for
            own = recipe.with_cell(retrieval=one) if one in PLAIN else recipe
            stages.append(train(stage, snapshot, last, own, init))
            init = last / "export"
        return Trained(last, stages)

    def answers(self, trained: Trained, name: str, items: Sequence[Row], decode: str) -> list[Row]:
        """Predictions in the order of the items; what stands in their file is not asked again."""
        from evaluation.ml.engine import ItemFile, finished_ids, predict_files

        folder = trained.folder / "answers"
        source, out = folder / f"{name}.jsonl", folder / f"{name}-{decode}.jsonl"
        ask = labelled_question if decode == "letters" else labelled_item
        write_jsonl(source, map(ask, items))
        if not finished_ids(out) >= {str(item["id"]) for item in items}:
            print(f"answering {name}, {decode}", flush=True)
            with contextlib.redirect_stdout(None):
                predict_files(trained.export, [ItemFile(source, out, decode)], K, self.threads)
        return [dict(row) for row, _ in pair_up(rows_of(out), items)]

    def embedding(self, name: str, items: Sequence[Row], tools: Sequence[Row]) -> list[Row]:
        """The baseline's predictions; `tools` are the snapshot's, whose rows are kept under its name."""
        from catalog.ml.encoder import Encoder

        ordered = sorted(tools, key=lambda tool: str(tool["name"]))
        path, encoder = self.out / "embeddings" / f"{name}.npy", Encoder(threads=self.threads)
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = encoder.encode([embedding_text(tool["name"], tool["description"]) for tool in ordered])
            np.save(path.with_name(f".{path.name}"), rows)
            path.with_name(f".{path.name}").replace(path)
        asked = encoder.encode([str(item["query"]) for item in items])
        found = ranked(asked, np.load(path), [str(tool["name"]) for tool in ordered], K)
        return [
            {"id": item["id"], "tools": [tool for tool, _ in row]}
            for item, row in zip(items, found, strict=True)
        ]


def train(stage: str, snapshot: Path, folder: Path, recipe: Recipe, init: Path | None = None) -> Row:
    """One stage as the product calls it, but without its cache of read descriptions: their time counts."""
    asked, cost = folder / "asked.yaml", folder / "cost.json"
    if asked.is_file() and asked.read_text() != recipe.to_yaml():
        raise SystemExit(f"{folder} holds a run of another recipe: choose another --out")
    if not cost.is_file():
        write_atomic(asked, recipe.to_yaml())
        resumed = any((folder / "checkpoints").glob("step-*"))
        command = ["training.ml", "--parent-pipe", stage, "--snapshot", snapshot, "--run", folder]
        command += ["--recipe", asked, *(["--init", init] if init else [])]
        print(f"training {folder}", flush=True)
        load = os.getloadavg()[0]
        spent = run_measured([sys.executable, "-m", *map(str, command)], folder / "out.txt", recipe.threads)
        done = {"stage": stage, **spent, "load_before": round(load, 2), "resumed": resumed}
        write_atomic(cost, json.dumps({**done, **facts(folder)}))
        shutil.rmtree(folder / "checkpoints")  # three times the model
    return dict(read_json(cost))


def run_measured(command: Sequence[str], log: Path, threads: int) -> Row:
    """Run to the end; seconds, processor seconds of all threads, and the most memory held.

    Memory is read while it runs: what the kernel reports at the end also counts the process that started it.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    started, peak = time.monotonic(), 0
    with log.open("a") as out:
        child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=out, stderr=out
        )
    while True:
        peak = max(peak, _held_kb(child.pid))
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(POLL_SECONDS)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.stdin is not None
    child.stdin.close()
    if child.returncode:
        raise SystemExit(f"training ended with {child.returncode}: see {log}")
    return {
        "wall_seconds": round(time.monotonic() - started, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": peak // 1024,
    }


def _held_kb(pid: int) -> int:
    """The most memory a process has held so far."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def facts(folder: Path) -> Row:
    """What was trained: parameters, tokens, steps, hashes."""
    from safetensors import safe_open

    with safe_open(folder / "export" / "model.safetensors", "pt") as weights:
        parameters = sum(prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    spec, done = read_json(folder / "export" / "trace.json"), read_json(folder / "done.json")
    training = done.get("training", {})
    return {
        "cell": f"({spec['format']}, {spec['memo']}, {spec['retrieval']})",
        "parameters": parameters,
        "steps": training.get("Steps", 0),
        "tokens": training.get("Tokens", 0),
        "stopped": training.get("Stopped at", ""),
        **{name: spec[name] for name in ("snapshot_hash", "recipe_hash", "encoder", "seed")},
        **{name: done[name] for name in ("code", "hardware")},
    }


def scores(rows: Sequence[Row], items: Sequence[Row], metric: str) -> list[float]:
    """One metric, a number a query."""
    is_ranked = not metric.endswith("@gen")
    return [
        query_scores(row["tools"], item["tools"], is_ranked)[metric] for row, item in pair_up(rows, items)
    ]


def figure(values: Sequence[float]) -> Row:
    """{"mean", "low", "high", "n", "each"}; nothing was asked: n is 0."""
    if not values:
        return {"mean": None, "low": None, "high": None, "n": 0, "each": []}
    found = bootstrap(values)
    return {
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "each": [round(value, 6) for value in values],
    }


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Row:
    return figure([a - b for a, b in zip(ours, theirs, strict=True)])


def only(
    values: Sequence[float], items: Sequence[Row], groups: Mapping[str, str], *names: str
) -> list[float]:
    """The numbers of the queries in these groups."""
    return [value for value, item in zip(values, items, strict=True) if groups[str(item["id"])] in names]
