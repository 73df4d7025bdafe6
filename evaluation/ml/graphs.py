"""Steps of a few fixed shapes, so that a GPU replays each as one recorded graph.

A forward of a large model is thousands of kernels, and while few tokens are written to start them one by one takes
longer than they do. A recorded graph is started at once, but has one shape and reads and writes the same memory each
time. So a step is padded to one of few shapes (padding reads one column and writes where nobody reads, as in any step),
its tensors are copied to where the graph reads them, and the logits are read where it leaves them.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

MOST = 512  # tokens of a step, padding included; more keep a GPU busy as they are
WIDTH = 128  # what a step reads of the buffer is a multiple of these columns
COLUMNS = 512  # of the buffer, at least: where it grows, the graphs of the smaller one are gone
AGAIN = 3  # a shape is recorded the third time it comes
KEPT = 48  # graphs
CLOSE = 0.02  # a replay may differ from the plain forward by this share of the greatest logit: bf16

Sizes = tuple[int, int, int, int]  # first row, rows, tokens, width


@dataclass(frozen=True, eq=False)
class Step:
    """One forward over the rows `first`..`first + n`. New tokens stand on the right, padding on the left of them."""

    first: int
    ids: Tensor  # [n, m]
    positions: Tensor  # [n, m]: how many tokens each has before it in its context
    columns: Tensor  # [n, m]: where its keys go in the buffer; padding writes to a column that nobody reads
    mask: Tensor  # [n, 1, m, width], True where a token attends
    width: int  # columns of the buffer that are read


class Graphs:
    """The steps of one buffer. `first`: its first row that is ever asked; on a CPU nothing is recorded."""

    def __init__(self, forward: Callable[[Step, int], Tensor]) -> None:
        self.forward = forward
        self.first = 0
        self.met: Counter[tuple[Sizes, int]] = Counter()
        self.recorded: dict[tuple[Sizes, int], tuple[torch.cuda.CUDAGraph, Step]] = {}
        self.logits: Tensor | None = None  # [MOST, vocabulary], of whichever graph was replayed last
        self.works = torch.cuda.is_available()

    def sizes(self, first: int, rows: int, tokens: int, width: int) -> Sizes | None:
        """The fixed shape that holds these; None: there is none, it is too large."""
        rows, tokens = power(first + rows - self.first), power(tokens)
        if first < self.first or rows * tokens > MOST:
            return None
        return self.first, rows, tokens, -(-width // WIDTH) * WIDTH

    def room(self, rows: int, columns: int) -> tuple[int, int]:
        """What the buffer must have, that every fixed shape finds its place."""
        return self.first + power(rows - self.first), max(COLUMNS, power(columns))

    def forget(self) -> None:
        """The buffer lies elsewhere now."""
        self.met.clear()
        self.recorded.clear()

    def __call__(self, step: "Step", kept: int) -> Tensor:
        """[rows, at least `kept`, vocabulary] logits, to be read before the next step."""
        sizes = (step.first, *step.ids.shape, step.width)
        if self.sizes(*sizes) != sizes:
            return self.forward(step, kept)
        kept = kept if kept == 1 else step.ids.shape[1]
        key = sizes, kept
        self.met[key] += 1
        if self.works and key not in self.recorded and self.met[key] >= AGAIN:
            try:
                self._record(key, step, kept)
            except RuntimeError as error:  # a model that waits for the device, or no memory left
                self.works = False
                warnings.warn(f"steps are not recorded as graphs here: {error}", stacklevel=2)
        if not self.works or key not in self.recorded:
            return self.forward(step, kept)
        graph, own = self.recorded[key]
        for mine, given in zip(tensors(own), tensors(step), strict=True):
            mine.copy_(given)
        graph.replay()
        return self.left(len(step.ids), kept)

    def left(self, rows: int, kept: int) -> Tensor:
        """What the graph that was replayed last wrote: [rows, kept, vocabulary]."""
        assert self.logits is not None
        return self.logits[: rows * kept].unflatten(0, (rows, kept))

    def _record(self, key: tuple[Sizes, int], step: "Step", kept: int) -> None:
        """One graph more. Raises RuntimeError where it cannot be made, or does not repeat the plain forward."""
        ids, positions, columns, mask = (one.clone() for one in tensors(step))
        own = replace(step, ids=ids, positions=positions, columns=columns, mask=mask)
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # what is set up at a kernel's first run must not be recorded
            plain = self.forward(own, kept)
        torch.cuda.current_stream().wait_stream(side)
        if self.logits is None:
            self.logits = plain.new_zeros(MOST, plain.shape[-1])
        while len(self.recorded) >= KEPT:
            self.recorded.pop(next(iter(self.recorded)))
        pool = next((known.pool() for known, _ in self.recorded.values()), None)
        # other threads may ask the device for memory meanwhile
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            self.left(len(own.ids), kept).copy_(self.forward(own, kept))
        graph.replay()
        apart = (self.left(len(own.ids), kept) - plain).abs().max()
        if not bool(apart <= CLOSE * plain.abs().max()):
            raise RuntimeError("a recorded step gives other logits.")
        self.recorded[key] = graph, own


def tensors(step: "Step") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return step.ids, step.positions, step.columns, step.mask


def power(count: int) -> int:
    """The power of two that holds it."""
    return 1 << max(0, count - 1).bit_length()
