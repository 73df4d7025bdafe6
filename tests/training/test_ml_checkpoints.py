"""A full disk costs a checkpoint, not the training; what is left always loads."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.training.killing import small_disk, small_recipe  # noqa: E402
from tests.training.small_snapshot import write_snapshot  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.core.recipe import Recipe  # noqa: E402
from training.core.records import load_snapshot  # noqa: E402
from training.core.rundir import RunDir  # noqa: E402
from training.ml import checkpoints, loop  # noqa: E402
from training.ml.bases.model import build  # noqa: E402
from training.ml.data import epoch_batches  # noqa: E402
from training.ml.step import train_step  # noqa: E402

pytestmark = pytest.mark.ml


def prepared(
    tmp_path: Path, run: Path, recipe: Recipe | None = None
) -> tuple[checkpoints.Trainer, list[list[int]]]:
    """A trainer on ten samples, and its batches."""
    recipe = recipe or small_recipe()
    snapshot = load_snapshot(write_snapshot(tmp_path / "snapshot"))
    trainee = build(recipe, snapshot)
    examples, _, _ = trainee.retrieval(snapshot, recipe)
    directory = RunDir(run)
    directory.checkpoints.mkdir(parents=True, exist_ok=True)
    trainer = loop.prepare(trainee, examples, recipe.stage2, recipe, directory, "stage2", [])
    trainee.model.train()
    return trainer, epoch_batches([len(one.ids) for one in examples], 4, 0, 0)


def steps(trainer: checkpoints.Trainer, batches: list[list[int]], count: int) -> None:
    for numbers in batches[:count]:
        train_step(trainer, [trainer.examples[number] for number in numbers])


@pytest.fixture
def disk(tmp_path: Path) -> Any:
    try:
        with small_disk(tmp_path / "disk", 3000) as folder:
            yield folder
    except PermissionError:
        pytest.skip("mounting a small disk is not allowed here")


@pytest.mark.parametrize("seen_before", [True, False])
def test_training_goes_on_without_a_checkpoint_while_an_older_one_is_intact(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch, seen_before: bool
) -> None:
    trainer, batches = prepared(tmp_path, disk / "run")
    steps(trainer, batches, 1)
    assert checkpoints.save(trainer)
    steps(trainer, batches[1:], 1)
    needed = checkpoints.checkpoint_bytes(trainer)
    if not seen_before:  # the kernel says so while the tensors are written
        monkeypatch.setattr(checkpoints, "checkpoint_bytes", lambda trainer: 0)
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as handle, pytest.raises(OSError, match="No space"):
        while True:
            handle.write(random.Random(1).randbytes(4096))
    with filler.open("r+b") as handle:
        handle.truncate(filler.stat().st_size - needed // 2)
    assert not checkpoints.save(trainer)
    assert [path.name for path in trainer.run.checkpoints.iterdir()].count("step-000001") == 1
    assert not list(trainer.run.checkpoints.glob(".step*"))
    line = (trainer.run.root / "log.txt").read_text().splitlines()[-1]
    assert "the disk is full: the checkpoint of step 2 needs" in line
    assert "would go back to step-000001" in line
    filler.unlink()
    assert checkpoints.save(trainer)
    assert trainer.run.latest_checkpoint() == trainer.run.checkpoints / "step-000002"


def test_without_any_checkpoint_a_full_disk_ends_the_training_in_one_line(tmp_path: Path, disk: Path) -> None:
    trainer, batches = prepared(tmp_path, disk / "run")
    steps(trainer, batches, 1)
    with (disk / "filler").open("wb", buffering=0) as handle, pytest.raises(OSError, match="No space"):
        while True:
            handle.write(bytes(4096))
    with pytest.raises(
        TraceError, match=r"the checkpoint of step 1 needs \d+\.\d MB, 0\.0 MB are free"
    ) as found:
        checkpoints.save(trainer)
    assert found.value.code == "disk_full"
    trainer.run.log("a line that has no room is lost, not the run")


def test_a_checkpoint_takes_about_what_was_foretold(tmp_path: Path) -> None:
    trainer, batches = prepared(tmp_path, tmp_path / "run")
    steps(trainer, batches, 2)
    checkpoints.save(trainer)
    folder = trainer.run.latest_checkpoint()
    assert folder is not None
    written = sum(path.stat().st_size for path in folder.iterdir())
    assert written <= checkpoints.checkpoint_bytes(trainer) <= written * 1.3 + 2**16


def test_a_resumed_trainer_holds_what_was_saved(tmp_path: Path) -> None:
    first, batches = prepared(tmp_path, tmp_path / "run")
    steps(first, batches, 2)
    checkpoints.save(first)
    again, _ = prepared(tmp_path, tmp_path / "run")
    checkpoints.resume(again)
    assert again.state == replace(first.state)
    for key, value in first.weights.items():
        assert value.equal(again.weights[key])
        kept, found = first.optimizer.state[value], again.optimizer.state[again.weights[key]]
        assert kept and kept.keys() == found.keys()
        assert all(moment.equal(found[name]) for name, moment in kept.items())
    folder = first.run.latest_checkpoint()
    assert folder is not None
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}
