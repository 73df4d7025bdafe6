"""The loop: a killed run ends with the weights of one that was never killed; plans and schedules."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

from tests.training.small_snapshot import write_snapshot  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from trace_site.lib.files import sha256_file  # noqa: E402
from training.core.recipe import Recipe, Stage, load  # noqa: E402
from training.core.records import load_snapshot, stage2_records  # noqa: E402
from training.ml import head, loop, loss, stage2  # noqa: E402
from training.ml.data import IGNORE, collate, encode  # noqa: E402
from training.ml.model import build  # noqa: E402
from training.ml.plan import Plan, learning_rate  # noqa: E402

pytestmark = pytest.mark.ml
ROOT = Path(__file__).parents[2]
QUICK = load(ROOT / "training" / "recipes" / "pocket-quick.yaml")
CELL = QUICK.with_cell(format="c", memo="none", retrieval="r+R")


def silent(done: int, total: int, note: str) -> None:
    pass


def weights(run: Path) -> str:
    return sha256_file(run / "export" / "model.safetensors")


def test_killed_and_resumed_equals_never_killed(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    recipe = CELL.with_cell(checkpoint_seconds=0.01)
    stage2.main(recipe, snapshot, tmp_path / "whole", silent)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    run = tmp_path / "killed"
    command = [sys.executable, "-m", "training.ml", "stage2", "--recipe", str(tmp_path / "recipe.yaml")]
    command += ["--snapshot", str(snapshot), "--run", str(run)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (run / "checkpoints" / "latest").exists():
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (run / "done.json").exists()
    stage2.main(recipe, snapshot, run, silent)
    assert "resumed from step-" in (run / "log.txt").read_text()
    assert weights(run) == weights(tmp_path / "whole")
    assert json.loads((run / "done.json").read_text())["stage"] == "stage2"


def test_a_stop_file_stops_with_a_checkpoint_and_the_run_goes_on_later(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    stage2.main(CELL, snapshot, tmp_path / "whole", silent)
    run = tmp_path / "run"
    run.mkdir()
    (run / "STOP").touch()
    with pytest.raises(loop.Stopped, match="at step 1"):
        stage2.main(CELL, snapshot, run, silent)
    (run / "STOP").unlink()
    stage2.main(CELL, snapshot, run, silent)
    assert weights(run) == weights(tmp_path / "whole")


def test_other_data_in_the_same_run_directory_is_refused(tmp_path: Path) -> None:
    snapshot, run = write_snapshot(tmp_path / "snapshot"), tmp_path / "run"
    run.mkdir()
    (run / "STOP").touch()
    with pytest.raises(loop.Stopped):
        stage2.main(CELL, snapshot, run, silent)
    with pytest.raises(TraceError, match="other data or another recipe"):
        stage2.main(CELL.with_cell(seed=5), snapshot, run, silent)


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(CELL.to_yaml())
    command = [sys.executable, "-m", "training.ml", "stage2", "--recipe", str(tmp_path / "recipe.yaml")]
    command += ["--snapshot", str(tmp_path), "--run", str(tmp_path / "run"), "--parent-pipe"]
    read, write = os.pipe()
    process = subprocess.Popen(command, cwd=ROOT, stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(read)
    assert process.stdout is not None
    process.stdout.readline()
    os.close(write)
    assert process.wait(timeout=20) == 4


def test_a_bad_snapshot_is_one_line_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(CELL.to_yaml())
    command = [sys.executable, "-m", "training.ml", "stage2", "--recipe", str(tmp_path / "recipe.yaml")]
    command += ["--snapshot", str(tmp_path), "--run", str(tmp_path / "run")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "no manifest.json" in result.stderr


def test_the_cosine_rises_and_ends_at_the_papers_share() -> None:
    stage = Stage(lr=1.0 - 1e-9, warmup_ratio=0.1, min_lr_ratio=0.1)
    rates = [learning_rate(stage, step / 100) for step in range(101)]
    assert rates[0] < rates[5] < rates[10] == pytest.approx(1)
    assert rates[55] == pytest.approx(0.55, abs=0.01)
    assert rates[100] == pytest.approx(0.1)


def test_a_moved_plan_never_jumps_and_always_ends() -> None:
    plan = Plan(1000)
    moved = plan.moved(100, 200)
    assert moved.progress(100) == plan.progress(100) == 0.1
    assert moved.progress(200) == 1
    assert moved.moved(150, 150).progress(150) == moved.progress(150)


def test_max_seconds_ends_the_run_in_time_with_a_finished_cosine(tmp_path: Path) -> None:
    recipe = CELL.with_cell(stage2=Stage(lr=1e-3, batch_size=4, epochs=100000, max_seconds=8))
    started = time.monotonic()
    stage2.main(recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    assert time.monotonic() - started < 14
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["step"] == rows[-1]["steps"] < rows[0]["steps"]
    assert rows[-1]["lr"] == pytest.approx(1e-4, rel=0.05)
    assert max(b["seconds"] - a["seconds"] for a, b in zip(rows, rows[1:], strict=False)) < 2
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_the_chunked_loss_equals_the_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = load_snapshot(write_snapshot(tmp_path / "snapshot"))
    trainee = build(CELL, snapshot)
    examples, _ = encode(stage2_records(snapshot, CELL), trainee.chat, 256)
    batch = collate(examples, trainee.chat.pad_id)
    trainee.model.eval()
    logits = trainee.model(input_ids=batch.ids).logits
    plain = functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE)
    plain.backward()
    expected = {k: v.grad.clone() for k, v in trainee.model.named_parameters()}
    trainee.model.zero_grad()
    monkeypatch.setitem(head.BLOCK, "cpu", (7, 64))
    ours = loss.supervised_loss(trainee, batch, Recipe(), 0.0)
    ours.backward()
    assert ours.item() == pytest.approx(plain.item(), rel=1e-5)
    for key, value in trainee.model.named_parameters():
        assert torch.allclose(value.grad, expected[key], atol=1e-5), key


def test_which_tool_counts_as_often_as_the_recipe_says_and_that_it_is_one_once(tmp_path: Path) -> None:
    snapshot = load_snapshot(write_snapshot(tmp_path / "snapshot"))
    trainee = build(CELL, snapshot)
    trainee.model.eval()
    batch = collate(encode(stage2_records(snapshot, CELL), trainee.chat, 256)[0], trainee.chat.pad_id)
    logits = trainee.model(input_ids=batch.ids).logits.flatten(0, 1)
    labels = batch.labels.flatten()
    each = functional.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="none")
    first = trainee.text_ids[1]
    tools = labels >= first
    heavier = replace(CELL, pocket=replace(CELL.pocket, tool_weight=5.0))
    which = functional.cross_entropy(logits[tools, first:], labels[tools] - first, reduction="sum")
    expected = (each.sum() + 4 * which) / (labels != IGNORE).sum()
    assert tools.any()
    assert loss.supervised_loss(trainee, batch, heavier, 0.0).item() == pytest.approx(
        expected.item(), rel=1e-5
    )
