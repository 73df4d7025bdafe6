"""Several processes that train one model, started by `accelerate launch -m training.ml ...`; usually there is one.

Each process takes its part of every batch; gradients are summed, each already divided by the supervised tokens of
the whole batch, so the result is that of one process. The first process alone writes and decides.
"""

import os
from collections.abc import Sequence

import torch
from torch import distributed, nn

from trace_site.lib.errors import TraceError

RHYTHM = 8  # steps between two agreements on stopping


class Team:
    """What one process knows of the others."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.rhythm = RHYTHM if self.size > 1 else 1
        if self.size > 1:
            from accelerate import PartialState  # picks device and backend (nccl, gloo) as it was launched

            self.state = PartialState()

    def part(self, rows: int) -> slice:
        """Which rows of a batch are ours; every other one, since a batch is sorted by length."""
        return slice(self.rank, rows, self.size)

    def sum_gradients(self, weights: Sequence[nn.Parameter], loss: torch.Tensor) -> None:
        """Replace gradients and the loss by their sums over all processes."""
        if self.size == 1:
            return
        for value in weights:
            if value.grad is None:
                value.grad = torch.zeros_like(value)
        summed = [loss, *(value.grad for value in weights if value.grad is not None)]
        for work in [distributed.all_reduce(tensor, async_op=True) for tensor in summed]:
            work.wait()

    def agree(self, stop: bool, spent: bool) -> tuple[bool, bool]:
        """What the first process has decided: stop on request, stop because the time is spent."""
        if self.size == 1:
            return stop, spent
        said = [stop, spent]
        distributed.broadcast_object_list(said, src=0)
        return said[0], said[1]

    def require_same(self, fingerprint: str, step: int) -> None:
        """Raise when the processes read different data or resumed from different checkpoints; wait for the last."""
        if self.size == 1:
            return
        found: list[object] = [None] * self.size
        distributed.all_gather_object(found, (fingerprint, step))
        if len(set(found)) > 1:
            raise TraceError(
                "the processes of this training see different data or checkpoints.",
                code="team_differs",
                hint="Give all of them the same snapshot, recipe and a run directory on shared storage.",
            )

    def leave(self) -> None:
        if self.size > 1:
            self.state.destroy_process_group()
