"""Linear layers whose weights lie as the CPU's kernel reads them.

The usual product lays a matrix out anew for each call of more than one vector, and a forward that writes has a few
vectors at a time: a head of 16,640 x 384 takes 12 ms for two of them where reading it takes 1, a layer of 2,048 x 384
.5 ms for two to eight. Laid out once: .6 and .1 ms (two cores of an AMD EPYC). The operators are those that
torch.compile uses on a CPU.
"""

import torch
from torch import Tensor, nn

LEAST = 1 << 16  # weights from which it pays
TYPICAL = 8  # vectors a call, for which the layout is chosen


class PackedLinear(nn.Module):
    """The same product. The weights are copied once; later changes of the original are not seen."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.bias = bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), TYPICAL)

    def forward(self, vectors: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(vectors, self.packed, self.bias, "none", [], "")
        return found


def packs(weight: Tensor) -> bool:
    """float32 on a CPU, and not small."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.numel() >= LEAST
        and torch.backends.mkldnn.is_available()
    )


def pack(module: nn.Module) -> None:
    """Every linear layer below a module, in place."""
    for name, child in list(module.named_children()):
        if type(child) is nn.Linear and packs(child.weight):
            setattr(module, name, PackedLinear(child.weight, child.bias))
        else:
            pack(child)
