"""An output head whose weights lie as the CPU's kernel reads them.

A head is a matrix of a row a token, asked with a few vectors at a time. The usual product lays the whole matrix out
anew for each call of more than one vector: 12 ms for two where reading it takes 1 (16,640 x 384, two cores of an AMD
EPYC; laid out once: .6 ms). The operators are those that torch.compile uses on a CPU.
"""

from typing import Any

import torch
from torch import Tensor, nn

LEAST = 4096  # rows from which it pays
TYPICAL = 32  # vectors a call, for which the layout is chosen


class PackedLinear(nn.Module):
    """The same product. The weights are copied once; later changes of the original are not seen."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = linear.bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), TYPICAL)

    def forward(self, vectors: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(vectors, self.packed, self.bias, "none", [], "")
        return found


def pack_head(model: Any) -> None:
    """In place, where it pays: float32 on a CPU, many rows."""
    head = getattr(model, "lm_head", None)
    if (
        isinstance(head, nn.Linear)
        and head.weight.device.type == "cpu"
        and head.weight.dtype == torch.float32
        and head.weight.shape[0] >= LEAST
        and torch.backends.mkldnn.is_available()
    ):
        model.lm_head = PackedLinear(head)
