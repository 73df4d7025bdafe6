"""Ways to make training, and the writing of a checkpoint, die or run out of disk at a chosen moment.

Children are forked from a server that has torch loaded, so that a run takes a second.
"""

import errno
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.training.small_encoder import quick_recipe
from tests.training.small_snapshot import write_snapshot
from trace_site.lib.files import read_json, sha256_file
from training.core.recipe import Recipe
from training.core.rundir import RunDir

MOMENTS = ("optimizer step", "data fetch", "save", "any time")
forked = multiprocessing.get_context("forkserver")
forked.set_forkserver_preload(["tests.training.preloaded"])


def small_recipe(max_steps: int = 0) -> Recipe:
    """Fifty steps at most, fp32, one thread, a checkpoint after nearly every step."""
    quick = quick_recipe()
    stage = replace(quick.stage2, max_steps=max_steps, micro_batch=3)
    return quick.with_cell(
        format="c", memo="none", retrieval="r+R", bf16=False, checkpoint_seconds=0.001, stage2=stage
    )


def train(
    snapshot: Path, run: Path, recipe: Recipe, moment: str = "", count: int = 0, pipe: Any = None
) -> None:
    """A whole Stage 2; says so through the pipe when the `count`-th moment of a kind begins."""
    from training.ml.stages import train_stage

    if moment in MOMENTS[:3]:
        _tell_at(moment, count, pipe)
    train_stage("stage2", recipe, snapshot, run, lambda *_: None)


def _tell_at(moment: str, count: int, pipe: Any) -> None:
    """Wrap the function behind a kind of moment."""
    import torch

    from training.ml import checkpoints
    from training.ml.deciding import PocketTrainee

    owner, name = {
        "optimizer step": (torch.optim.AdamW, "step"),
        "data fetch": (PocketTrainee, "collate"),
        "save": (checkpoints, "_write"),
    }[moment]
    plain, calls = getattr(owner, name), 0

    def telling(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            pipe.send_bytes(b".")
        return plain(*args, **options)

    setattr(owner, name, telling)


@dataclass
class Killed:
    """What became of one run that was killed and resumed."""

    moment: str
    count: int
    died: bool
    left: str  # the newest checkpoint folder at the time
    same: bool


@dataclass
class World:
    """A snapshot, the weights of a run that nobody killed, and how long it took."""

    folder: Path
    recipe: Recipe = field(default_factory=small_recipe)
    snapshot: Path = field(init=False)
    steps: int = field(init=False)
    expected: str = field(init=False)
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self.snapshot = write_snapshot(self.folder / "snapshot")
        self.run_to_end(self.folder / "first")  # loads the server
        started = time.monotonic()
        self.run_to_end(self.folder / "whole")
        self.seconds = time.monotonic() - started
        self.steps = read_json(self.folder / "whole" / "done.json")["training"]["Steps"]
        self.expected = weights(self.folder / "whole")
        assert weights(self.folder / "first") == self.expected

    def kill_and_resume(self, number: int, draw: random.Random) -> Killed:
        moment, count = MOMENTS[number % len(MOMENTS)], draw.randint(1, self.steps - 1)
        run = self.folder / f"killed-{number}"
        here, there = forked.Pipe(duplex=False)
        process = forked.Process(target=train, args=(self.snapshot, run, self.recipe, moment, count, there))
        process.start()
        there.close()
        if moment == "any time":
            process.join(draw.uniform(0, self.seconds))
        else:
            here.poll(120)
            time.sleep(draw.uniform(0, 0.01))
        process.kill()
        process.join()
        died = process.exitcode == -signal.SIGKILL
        left = next(iter(RunDir(run).by_age()), Path("none")).name
        self.run_to_end(run)
        same = weights(run) == self.expected
        shutil.rmtree(run)
        return Killed(moment, count, died, left, same)

    def run_to_end(self, run: Path) -> None:
        process = forked.Process(target=train, args=(self.snapshot, run, self.recipe))
        process.start()
        process.join()
        assert process.exitcode == 0


def weights(run: Path) -> str:
    return sha256_file(run / "export" / "model.safetensors")


# --- the writer of checkpoints, without torch in the way ---

SIZES = {"model.safetensors": 40_000, "optimizer.safetensors": 80_000, "state.json": 300}
NEEDED = sum(SIZES.values())


def content(step: int, name: str) -> bytes:
    return random.Random(f"{step}:{name}").randbytes(SIZES[name])


def write_files(step: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name in SIZES:
            with (folder / name).open("wb", buffering=4096) as handle:
                data = content(step, name)
                for start in range(0, len(data), 1024):
                    handle.write(data[start : start + 1024])

    return write


def save_steps(root: Path, first: int, last: int) -> None:
    with RunDir(root).locked() as run:
        for step in range(first, last + 1):
            run.save_checkpoint(step, write_files(step))


def holds(checkpoint: Path) -> bool:
    """Whether a checkpoint is byte for byte what its step wrote."""
    step = int(checkpoint.name[5:])
    return all((checkpoint / name).read_bytes() == content(step, name) for name in SIZES)


def die_at_byte(root: Path, step: int, offset: int) -> None:
    """The kernel kills the process at a byte of a file (a file size limit with its default action)."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (offset, offset))
    save_steps(root, step, step)


def die_at_operation(root: Path, step: int, count: int) -> None:
    """SIGKILL at the count-th file operation of the locking, writing, renaming and pruning."""
    seen = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "os.listdir"):
            seen += 1
            if seen == count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    save_steps(root, step, step)


def count_operations(root: Path, step: int) -> int:
    """How many file operations one saving has."""
    seen = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        seen += event in (
            "open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "os.listdir"
        )  # fmt: skip

    sys.addaudithook(hook)
    save_steps(root, step, step)
    os._exit(min(seen, 255))


def in_child(target: Callable[..., None], *args: Any) -> int:
    process = forked.Process(target=target, args=args)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def damage(folder: Path, draw: random.Random) -> str:
    """Flip a bit of, truncate, empty or remove one file of a checkpoint; says what was done."""
    path = draw.choice(sorted(p for p in folder.iterdir() if p.is_file()))
    data = bytearray(path.read_bytes())
    kind = draw.choice(("flip", "flip", "flip", "truncate", "remove"))
    if kind == "remove":
        path.unlink()
    elif kind == "truncate":
        path.write_bytes(data[: draw.randrange(len(data))])
    else:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
    return f"{kind} {path.name}"


@contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[Path]:
    """A file system of its own of that size. Raises OSError where mounting is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(errno.EPERM, done.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
