"""Two processes of `accelerate launch` train what one trains; only the first one writes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from safetensors.torch import load_file  # noqa: E402

from tests.training.killing import small_recipe  # noqa: E402
from tests.training.small_snapshot import write_snapshot  # noqa: E402
from trace_site.lib.files import read_json  # noqa: E402
from training.core.recipe import Recipe, Stage  # noqa: E402
from training.core.rundir import RunDir  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402

pytestmark = pytest.mark.ml
ROOT = Path(__file__).parents[2]


LAUNCHER = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
LAUNCHER += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0", "-m"]


def small_one(max_seconds: float = 0.0) -> Recipe:
    recipe = small_recipe()
    # three rows a batch: the second process has one row of most batches, and none of a last batch of one
    stage = Stage(lr=3e-3, batch_size=3, epochs=4, max_seconds=max_seconds)
    return replace(recipe, stage2=stage, checkpoint_seconds=60)


def train_together(tmp_path: Path, name: str, stopped: bool = False, max_seconds: float = 0.0) -> Path:
    (tmp_path / "recipe.yaml").write_text(small_one(max_seconds).to_yaml())
    run = tmp_path / name
    run.mkdir(exist_ok=True)
    (run / "STOP").touch() if stopped else (run / "STOP").unlink(missing_ok=True)
    command = [sys.executable, "-m", *LAUNCHER, "training.ml", "stage2", "--run", str(run)]
    command += ["--snapshot", str(write_snapshot(tmp_path / "snapshot"))]
    command += ["--recipe", str(tmp_path / "recipe.yaml")]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    env["ACCELERATE_USE_CPU"] = "true"  # launched as several GPUs are; gloo takes the place of nccl
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode == 0) is not stopped, done.stderr[-3000:]
    assert done.stdout.count('"event": "done"') == (0 if stopped else 1)
    return run


def rows(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.long
@pytest.mark.parametrize("stopped", [False, True])
def test_two_processes_train_what_one_trains(tmp_path: Path, stopped: bool) -> None:
    alone = tmp_path / "alone"
    train_stage(
        "stage2", small_one(), write_snapshot(tmp_path / "snapshot"), alone, lambda done, total, note: None
    )
    if stopped:
        together = train_together(tmp_path, "together", stopped=True)
        assert [path.name for path in RunDir(together).by_age()] == [
            "step-000008"
        ]  # where the two next agree
    together = train_together(tmp_path, "together")
    assert ("resumed from step-000008" in (together / "log.txt").read_text()) is stopped
    one, two = (load_file(run / "export" / "model.safetensors") for run in (alone, together))
    assert one.keys() == two.keys()
    for key, value in one.items():
        assert (two[key] - value).abs().max() < 2e-3, key
    last, other = rows(alone)[-1], rows(together)[-1]
    assert (other["step"], other["tokens"]) == (last["step"], last["tokens"])
    assert other["loss"] == pytest.approx(last["loss"], rel=1e-3)
    assert len({row["step"] for row in rows(together)}) == len(rows(together))  # one writer


@pytest.mark.long
def test_a_time_limit_stops_two_processes_at_the_step_where_they_next_agree(tmp_path: Path) -> None:
    run = train_together(tmp_path, "short", max_seconds=0.001)
    assert read_json(run / "done.json")["training"]["Steps"] == 8 < rows(run)[-1]["steps"]
    assert "time limit 0.001 s" in (run / "log.txt").read_text()


def test_a_process_that_is_not_the_first_writes_nothing(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "run", writer=False)
    with run.locked():
        run.log("a line")
        run.add_metrics({"step": 1})
        run.keep("recipe.yaml", "")
        run.finish({})
    assert not (tmp_path / "run").exists()
