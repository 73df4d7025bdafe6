"""What the training benches share: a probe of the machine, and pairs that are timed in turn.

In: two callables. Out: medians, the ratio with its 95 % interval, and A/A, which says whether the machine was calm
enough to tell. Processor time is what counts where other processes share the cores; wall time stands beside it.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

NOISE = 0.10  # A/A above this: no verdict


@dataclass(frozen=True)
class Pairs:
    """Seconds of both sides, one entry a pair; `again` is side A once more."""

    ours: Sequence[float]
    theirs: Sequence[float]
    again: Sequence[float]

    @property
    def ratio(self) -> float:
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def noise(self) -> float:
        """How far side A is from itself."""
        return abs(statistics.median(b / a for a, b in zip(self.ours, self.again, strict=True)) - 1)

    def interval(self) -> tuple[float, float]:
        """95 % bootstrap interval of the median ratio."""
        chance = random.Random(0)
        ratios = [a / b for a, b in zip(self.ours, self.theirs, strict=True)]
        drawn = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(2000))
        return drawn[50], drawn[1949]

    def line(self, name: str) -> str:
        low, high = self.interval()
        return (
            f"{name}: ours {statistics.median(self.ours):.2f} s, theirs {statistics.median(self.theirs):.2f} s,"
            f" ratio {self.ratio:.3f} [{low:.3f}, {high:.3f}], A/A {self.noise:.1%}, {len(self.ours)} pairs"
        )


def in_turn(ours: Callable[[], object], theirs: Callable[[], object], pairs: int) -> tuple[Pairs, Pairs]:
    """Processor time and wall time of A/B/A, `pairs` times after one round of warm-up."""
    rounds = []
    for _ in range(pairs + 1):
        rounds.append([_timed(side) for side in (ours, theirs, ours)])
    processor, wall = (
        Pairs(*([turn[side][clock] for turn in rounds[1:]] for side in range(3))) for clock in (0, 1)
    )
    return processor, wall


def _timed(side: Callable[[], object]) -> tuple[float, float]:
    processor, wall = time.process_time(), time.perf_counter()
    side()
    return time.process_time() - processor, time.perf_counter() - wall


def machine() -> str:
    """One line: cores, load, copy bandwidth, fp32 and bf16 products, fsync."""
    source = torch.ones(64 * 2**20)
    copy = _best(lambda: source.clone())
    square = torch.randn(1536, 1536)
    single, half = _best(lambda: square @ square), square.bfloat16()
    low = _best(lambda: half @ half)
    work = 2 * 1536**3 / 1e9
    return (
        f"machine: {os.cpu_count()} cores, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f},"
        f" copy {2 * source.numel() * 4 / copy / 1e9:.1f} GB/s, fp32 {work / single:.0f} GFLOP/s,"
        f" bf16 {work / low:.0f} GFLOP/s, fsync {_fsync() * 1e3:.1f} ms, torch {torch.__version__}"
    )


def _best(work: Callable[[], object]) -> float:
    return min(_timed(work)[1] for _ in range(7))


def _fsync() -> float:
    with tempfile.NamedTemporaryFile() as file:

        def write() -> None:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())

        return _best(write)
