"""The loop: a killed run ends with the weights of one that was never killed; schedules and time limits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.training.killing import weights  # noqa: E402
from tests.training.small_encoder import quick_recipe  # noqa: E402
from tests.training.small_snapshot import silent, write_snapshot  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.core.recipe import Stage  # noqa: E402
from training.ml import __main__ as trainer  # noqa: E402
from training.ml import loop, stages  # noqa: E402
from training.ml.optimizer import learning_rate  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402
from training.ml.trainee import Trainee  # noqa: E402

pytestmark = pytest.mark.ml
ROOT = Path(__file__).parents[2]
CELL = quick_recipe(format="c", memo="none", retrieval="r+R")


def test_killed_and_resumed_equals_never_killed(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    recipe = CELL.with_cell(checkpoint_seconds=0.01)
    train_stage("stage2", recipe, snapshot, tmp_path / "whole", silent)
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    run = tmp_path / "killed"
    command = [sys.executable, "-m", "training.ml", "stage2", "--recipe", str(tmp_path / "recipe.yaml")]
    command += ["--snapshot", str(snapshot), "--run", str(run)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not any((run / "checkpoints").glob("step-*")):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (run / "done.json").exists()
    train_stage("stage2", recipe, snapshot, run, silent)
    assert "resumed from step-" in (run / "log.txt").read_text()
    assert weights(run) == weights(tmp_path / "whole")
    assert json.loads((run / "done.json").read_text())["stage"] == "stage2"


def test_a_stop_file_stops_with_a_checkpoint_and_the_run_goes_on_later(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    train_stage("stage2", CELL, snapshot, tmp_path / "whole", silent)
    run = tmp_path / "run"
    run.mkdir()
    (run / "STOP").touch()
    with pytest.raises(loop.Stopped, match="at step 1"):
        train_stage("stage2", CELL, snapshot, run, silent)
    (run / "STOP").unlink()
    train_stage("stage2", CELL, snapshot, run, silent)
    assert weights(run) == weights(tmp_path / "whole")


def test_other_data_in_the_same_run_directory_is_refused(tmp_path: Path) -> None:
    snapshot, run = write_snapshot(tmp_path / "snapshot"), tmp_path / "run"
    run.mkdir()
    (run / "STOP").touch()
    with pytest.raises(loop.Stopped):
        train_stage("stage2", CELL, snapshot, run, silent)
    with pytest.raises(TraceError, match="other data, another recipe or an earlier version"):
        train_stage("stage2", CELL.with_cell(seed=5), snapshot, run, silent)


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
    assert process.wait(timeout=20) == 75


def test_a_bad_snapshot_is_one_line_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recipe.yaml").write_text(CELL.to_yaml())
    command = ["training.ml", "stage2", "--recipe", str(tmp_path / "recipe.yaml")]
    monkeypatch.setattr("sys.argv", [*command, "--snapshot", str(tmp_path), "--run", str(tmp_path / "run")])
    assert trainer.main() == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "no manifest.json" in told


def test_the_cosine_rises_and_ends_at_the_papers_share() -> None:
    stage = Stage(lr=1.0 - 1e-9, warmup_ratio=0.1, min_lr_ratio=0.1)
    rates = [learning_rate(stage, step / 100) for step in range(101)]
    assert rates[0] < rates[5] < rates[10] == pytest.approx(1)
    assert rates[55] == pytest.approx(0.55, abs=0.01)
    assert rates[100] == pytest.approx(0.1)


def rows_of(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_max_steps_ends_the_run_there_with_a_finished_cosine(tmp_path: Path) -> None:
    stage = Stage(lr=1e-3, batch_size=4, epochs=100000, max_steps=12)
    train_stage(
        "stage2",
        CELL.with_cell(stage2=stage),
        write_snapshot(tmp_path / "snapshot"),
        tmp_path / "run",
        silent,
    )
    last = rows_of(tmp_path / "run")[-1]
    assert last["step"] == last["steps"] == 12
    assert last["lr"] == learning_rate(stage, 11 / 12) < 2e-4
    assert "Stopped at" not in (tmp_path / "run" / "export" / "README.md").read_text()


def test_max_seconds_stops_the_run_with_its_schedule_untouched_and_says_so(tmp_path: Path) -> None:
    stage, run = Stage(lr=1e-3, batch_size=4, epochs=100000, max_seconds=1), tmp_path / "run"
    train_stage("stage2", CELL.with_cell(stage2=stage), write_snapshot(tmp_path / "snapshot"), run, silent)
    rows = rows_of(run)
    last, steps = rows[-1], stage.steps(2 * 10)  # every sample and what its trace restates
    assert {row["steps"] for row in rows} == {steps} and last["step"] < steps / 100
    assert last["lr"] == learning_rate(stage, (last["step"] - 1) / steps)
    assert 1 <= last["seconds"] < 3
    told = "0 % of its steps (time limit 1 s)"
    facts = json.loads((run / "done.json").read_text())["training"]
    assert (facts["Steps"], facts["Stopped at"]) == (last["step"], told)
    assert f"stage2: stopped at {told}; it is not a finished run" in (run / "log.txt").read_text()
    card = (run / "export" / "README.md").read_text()
    assert f"| Stopped at | {told} |" in card and "Part 1 of its training was stopped at" in card


def test_a_run_killed_after_its_time_limit_ends_with_the_weights_it_stopped_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(lr=1e-3, batch_size=4, epochs=200, max_seconds=0.3)
    recipe, run = CELL.with_cell(stage2=stage), tmp_path / "run"
    snapshot, found = write_snapshot(tmp_path / "snapshot"), []

    def die(trainee: Trainee[Any], *_: object) -> None:
        found.append({key: value.detach().clone() for key, value in trainee.model.named_parameters()})
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "export", die)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train_stage("stage2", recipe, snapshot, run, silent)
    first, again = found
    assert all(value.equal(again[key]) for key, value in first.items())
    assert 1 <= rows_of(run)[-1]["step"] < stage.steps(10)
    assert rows_of(run)[-1]["step"] == int(next((run / "checkpoints").glob("step-*")).name[5:])


def test_steps_follow_from_recipe_and_data() -> None:
    assert [Stage(batch_size=16, epochs=8).steps(records) for records in (1, 16, 17, 645)] == [8, 8, 16, 328]
    assert Stage(batch_size=16, epochs=0.1).steps(16) == 1
    assert Stage(batch_size=16, epochs=8, max_steps=120).steps(645) == 120
    assert Stage(batch_size=16, epochs=8, max_steps=400).steps(645) == 328
    assert Stage(batch_size=16, epochs=8, max_seconds=1).steps(645) == 328


def test_a_small_set_is_passed_over_until_the_fewest_steps() -> None:
    assert Stage(batch_size=16, epochs=5, min_steps=100, max_steps=400).steps(160) == 100
    assert Stage(batch_size=16, epochs=2, min_steps=100, max_steps=400).steps(160) == 60
    assert Stage(batch_size=16, epochs=20, min_steps=100, max_steps=400).steps(160) == 200
    with pytest.raises(TraceError, match="above max_steps"):
        Stage(min_steps=10, max_steps=5)
