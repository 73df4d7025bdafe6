"""Training that dies at random moments: short versions of tests/bench/kill_training.py."""

import random
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.bench.kill_training import corrupt, fill_disks, kill_writers  # noqa: E402
from tests.training.killing import World, small_recipe  # noqa: E402

pytestmark = pytest.mark.ml


@pytest.mark.parametrize(
    ("max_steps", "steps", "kills"), [(17, 17, 3), pytest.param(0, 50, 8, marks=pytest.mark.long)]
)
def test_runs_killed_at_random_moments_end_with_the_same_bytes(
    tmp_path: Path, max_steps: int, steps: int, kills: int
) -> None:
    world, draw = World(tmp_path, small_recipe(max_steps)), random.Random(6)
    assert world.steps == steps
    runs = [world.kill_and_resume(number, draw) for number in range(kills)]
    assert all(run.same for run in runs), runs
    assert sum(run.died for run in runs) >= kills * 0.6


def test_a_writer_killed_at_any_byte_or_operation_leaves_the_newest_valid_checkpoint(tmp_path: Path) -> None:
    assert kill_writers(tmp_path, 20, random.Random(7)) == []


def test_a_full_disk_leaves_no_half_checkpoint(tmp_path: Path) -> None:
    try:
        assert fill_disks(tmp_path, 3, random.Random(8)) == []
    except PermissionError:
        pytest.skip("mounting a small disk is not allowed here")


def test_a_damaged_checkpoint_is_never_loaded_and_never_pushes_out_a_good_one(tmp_path: Path) -> None:
    assert corrupt(tmp_path, 20, random.Random(9)) == []
