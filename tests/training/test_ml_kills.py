"""Training that dies at random moments, writers of checkpoints that are killed, full disks, damaged checkpoints."""

import random
import shutil
import signal
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.training.killing import (  # noqa: E402
    NEEDED,
    SIZES,
    World,
    count_operations,
    damage,
    die_at_byte,
    die_at_operation,
    holds,
    in_child,
    save_steps,
    small_disk,
    small_recipe,
    write_files,
)
from trace_site.lib.errors import TraceError  # noqa: E402
from training.core.rundir import RunDir, is_intact  # noqa: E402

pytestmark = pytest.mark.ml


@pytest.mark.parametrize(
    ("max_steps", "steps", "kills"),
    [
        (9, 9, 3),
        pytest.param(17, 17, 3, marks=pytest.mark.long),
        pytest.param(0, 50, 8, marks=pytest.mark.long),
    ],
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


def kill_writers(folder: Path, writers: int, draw: random.Random) -> list[str]:
    """Half at a byte, half at a file operation; then the newest valid checkpoint must load, and a new one save."""
    root = folder / "writer"
    save_steps(root, 1, 1)
    in_child(save_steps, root, 2, 3)
    operations, problems, died, newest, step = in_child(count_operations, root, 4), [], 0, 4, 4
    for number in range(writers):
        step += 1
        if number % 2:
            code = in_child(die_at_operation, root, step, draw.randint(1, operations))
        else:
            code = in_child(die_at_byte, root, step, draw.randrange(max(SIZES.values())))
        died += code in (-signal.SIGKILL, -signal.SIGXFSZ)
        problems += [f"{number}: {text}" for text in after(root, newest, step)]
        newest = int(RunDir(root).by_age()[0].name[5:])
    return problems


def after(root: Path, newest: int, step: int) -> list[str]:
    """What is wrong once a writer of `step` has died, when `newest` was the newest before."""
    with RunDir(root).locked() as run:
        found, named = run.latest_checkpoint(), run.by_age()
        rest = [path.name for path in run.checkpoints.glob(".*")]
    problems = [f"{path.name} is half a checkpoint" for path in named if not is_intact(path)]
    problems += [f"{name} is left over" for name in rest]
    if found is None or not holds(found) or int(found.name[5:]) not in (newest, step):
        problems.append(f"loads {found}, the newest was {newest}")
    return problems


def fill_disks(folder: Path, disks: int, draw: random.Random) -> list[str]:
    """A small disk, filled up but for a random rest, while checkpoints are saved without asking for room first."""
    problems: list[str] = []
    refused = 0
    for number in range(disks):
        with small_disk(folder / f"disk-{number}", 4 * NEEDED // 1024) as disk:
            save_steps(disk / "run", 1, 2)
            room = draw.randrange(NEEDED)
            free = shutil.disk_usage(disk).free
            (disk / "filler").write_bytes(b"x" * max(0, free - room))
            with RunDir(disk / "run").locked() as run:
                for asked in (0, NEEDED):  # met while writing, and seen before it
                    try:
                        run.save_checkpoint(3, write_files(3), asked)
                        problems.append(f"{number}: saved into {room} bytes")
                    except TraceError as error:
                        refused += error.code == "disk_full" and "MB are free" in str(error)
                    run.log("a line")
                    run.add_metrics({"step": 3})
            problems += [f"{number}: {text}" for text in after(disk / "run", 2, 3)]
            (disk / "filler").unlink()
            with RunDir(disk / "run").locked() as run:
                run.save_checkpoint(3, write_files(3))
                if run.latest_checkpoint() != run.checkpoints / "step-000003":
                    problems.append(f"{number}: does not save once there is room")
    return problems if refused == 2 * disks else [*problems, "a full disk was not named"]


def corrupt(folder: Path, flips: int, draw: random.Random) -> list[str]:
    """Damage the newest of two checkpoints: the older one loads, and stays when the next one is saved."""
    problems = []
    for number in range(flips):
        root = folder / f"flip-{number}"
        save_steps(root, 1, 2)
        with RunDir(root).locked() as run:
            done = damage(run.checkpoints / "step-000002", draw)
            found = run.latest_checkpoint()
            if found != run.checkpoints / "step-000001" and not (found and holds(found)):
                problems.append(f"{number}: {done}: loads {found}")
            run.save_checkpoint(3, write_files(3))
            kept = [path.name for path in run.by_age() if is_intact(path) and holds(path)]
            if len(kept) != 2 or kept[0] != "step-000003":
                problems.append(f"{number}: {done}: kept {kept}")
        shutil.rmtree(root)
    return problems
