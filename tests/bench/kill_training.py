"""Training and its checkpoints under faults: 60 kills, 200 killed writers, 20 full disks, 100 damaged checkpoints.

    python -m tests.bench.kill_training [--kills 60] [--writers 200] [--disks 20] [--flips 100] [--seed 6]

Every killed run is resumed and must end with the bytes of the run nobody killed (fp32, one thread; half of them with
max_steps, none with max_seconds, which the clock ends). Full disks are small file systems of their own, so this part
needs the right to mount. Exit code 1 when anything was lost or a bad checkpoint was accepted.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.training.killing import (
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
from trace_site.lib.errors import TraceError
from training.core.rundir import RunDir, is_intact


def kill_runs(folder: Path, kills: int, draw: random.Random, max_steps: int = 0) -> list[str]:
    world, problems, moments = World(folder, small_recipe(max_steps)), [], Counter()
    for number in range(kills):
        found = world.kill_and_resume(number, draw)
        moments[found.moment if found.died else "ended before the kill"] += 1
        if not found.same:
            problems.append(str(found))
    print(
        f"runs of {world.steps} steps: {kills}, an unkilled one takes {world.seconds:.1f} s; killed in {dict(moments)}"
    )
    return problems


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
    print(f"writers: {writers}, {died} killed on the way, {operations} file operations a save")
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
    print(f"full disks: {disks}, {refused} of {2 * disks} savings refused in one line")
    return problems if refused == 2 * disks else [*problems, "a full disk was not named"]


def corrupt(folder: Path, flips: int, draw: random.Random) -> list[str]:
    """Damage the newest of two checkpoints: the older one loads, and stays when the next one is saved."""
    problems, kinds = [], Counter()
    for number in range(flips):
        root = folder / f"flip-{number}"
        save_steps(root, 1, 2)
        with RunDir(root).locked() as run:
            done = damage(run.checkpoints / "step-000002", draw)
            kinds[done.split()[0]] += 1
            found = run.latest_checkpoint()
            if found != run.checkpoints / "step-000001" and not (found and holds(found)):
                problems.append(f"{number}: {done}: loads {found}")
            run.save_checkpoint(3, write_files(3))
            kept = [path.name for path in run.by_age() if is_intact(path) and holds(path)]
            if len(kept) != 2 or kept[0] != "step-000003":
                problems.append(f"{number}: {done}: kept {kept}")
        shutil.rmtree(root)
    print(f"damaged checkpoints: {flips}, {dict(kinds)}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser()
    for name, number in (("kills", 60), ("writers", 200), ("disks", 20), ("flips", 100), ("seed", 6)):
        parser.add_argument(f"--{name}", type=int, default=number)
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problems = corrupt(folder, asked.flips, draw) + kill_writers(folder, asked.writers, draw)
        problems += fill_disks(folder, asked.disks, draw) if asked.disks else []
        for max_steps in (0, 17) if asked.kills else ():
            problems += kill_runs(folder / f"runs-{max_steps}", asked.kills // 2, draw, max_steps)
    for line in problems:
        print(line)
    print(f"{len(problems)} problems")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
