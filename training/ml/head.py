"""Cross-entropy through an output head of hundreds of thousands of rows, without ever holding its logits.

In: hidden states, the wanted ids and a `Head`. Out: the summed loss with gradients. Logits exist one block of
positions x rows at a time: forward keeps each position's log-sum-exp, backward makes every block once more, unless
all of them together are small.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from training.ml.bases.named import without_adapters

# positions and rows of one block: on a CPU it stays in the cache, on a GPU it fills the machine
BLOCK = {"cpu": (512, 4096), "cuda": (4096, 16384)}
# up to so many logits stay for backward: a small vocabulary (256 MiB of them) is faster without a second product
KEPT = 2**26
# what configurations call the number that logits are multiplied by; the second table holds divisors
MULTIPLIERS = ("logit_scale", "lm_head_multiplier", "output_multiplier")
DIVISORS = ("logits_scaling",)
MULTIPLY_ALL = ("hyperclovax", "hyperclovax_vision_v2")  # multiply by what all others divide by
CAPS = ("final_logit_softcapping", "logits_soft_cap")


@dataclass(frozen=True, slots=True)
class Part:
    """Some consecutive rows of the head."""

    weight: Tensor  # [rows, hidden]
    bias: Tensor | None = None  # [rows]


@dataclass(frozen=True, slots=True)
class Head:
    """An output head: logits = cap * tanh(scale * (h·Wᵀ + b) / cap); cap 0 means none."""

    parts: tuple[Part, ...]  # one below another; together a row per token
    scale: float = 1.0
    cap: float = 0.0

    def logits(self, hidden: Tensor) -> Tensor:
        """All of them; for a few positions."""
        pieces = [
            nn.functional.linear(hidden, part.weight.to(hidden.dtype), part.bias) for part in self.parts
        ]
        logits = torch.cat(pieces, dim=-1) * self.scale
        return torch.tanh(logits / self.cap) * self.cap if self.cap else logits


def output_head(model: Any) -> Head:
    """The head of a causal language model, plain, split or wrapped by PEFT, with what its configuration scales."""
    base = without_adapters(model)
    module, config = base.get_output_embeddings(), base.config.get_text_config()
    scale = 1.0
    for name in (*MULTIPLIERS, *DIVISORS):
        value = getattr(config, name, None)
        if value is not None:
            scale *= 1 / value if name in DIVISORS and config.model_type not in MULTIPLY_ALL else value
    cap = next((getattr(config, name) for name in CAPS if getattr(config, name, None)), 0.0)
    split = getattr(module, "parts", None)
    return Head(tuple(split()) if split else (Part(module.weight, module.bias),), float(scale), float(cap))


def summed_loss(head: Head, hidden: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy summed over positions. hidden: [positions, width]; targets: [positions], ids of rows."""
    where = hidden.device.type
    mixed = torch.is_autocast_enabled(where)
    dtype = torch.get_autocast_dtype(where) if mixed else head.parts[0].weight.dtype
    tensors = [tensor for part in head.parts for tensor in (part.weight, part.bias)]
    return _SummedLoss.apply(hidden, targets, head.scale, head.cap, dtype, *tensors)


class _Block(NamedTuple):
    """A rectangle of the logits: some positions, some consecutive rows of one part."""

    part: int
    at: slice  # positions
    rows: slice  # inside the part
    first: int  # id of the first row
    weight: Tensor
    bias: Tensor | None

    def here(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """For each position its wanted row in this block (any, when elsewhere), and whether it is in this block."""
        wanted = targets[self.at, None] - self.first
        return wanted.clamp(0, len(self.weight) - 1), (wanted >= 0) & (wanted < len(self.weight))

    def softmax(self, hidden: Tensor, scale: float, cap: float) -> tuple[Tensor, Tensor, Tensor]:
        """Over this block alone, at least in float32: softmax, log-sum-exp, and the logits, under a soft cap as a share
        of it."""
        capped = (hidden[self.at] @ self.weight.T).to(_exact(hidden.dtype))
        if self.bias is not None:
            capped += self.bias
        if cap:
            capped.mul_(scale / cap).tanh_()
        elif scale != 1:
            capped.mul_(scale)
        logits = capped * cap if cap else capped
        softmax = logits.softmax(dim=1)  # one pass over the block, where logsumexp takes four
        return softmax, logits.amax(dim=1, keepdim=True) - softmax.amax(dim=1, keepdim=True).log(), capped


class _SummedLoss(torch.autograd.Function):
    """Products are made in `dtype`, everything else at least in float32; autocast is off, so every cast is written."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        targets: Tensor,
        scale: float,
        cap: float,
        dtype: torch.dtype,
        *tensors: Tensor | None,
    ) -> Tensor:
        # logits of the wanted rows
        wanted = torch.zeros(len(targets), dtype=_exact(dtype), device=targets.device)
        total = torch.full_like(wanted, -torch.inf)  # log-sum-exp of the rows so far
        rows = sum(len(weight) for weight in tensors[::2] if weight is not None)
        kept: list[Tensor] = []
        with torch.autocast(hidden.device.type, enabled=False):
            narrow = hidden.to(dtype)
            for block in _blocks(tensors, len(targets), hidden.device.type, dtype):
                softmax, own_total, capped = block.softmax(narrow, scale, cap)
                place, inside = block.here(targets)
                wanted[block.at] += (capped.gather(1, place) * inside).squeeze(1) * (cap or 1.0)
                total[block.at] = torch.logaddexp(total[block.at], own_total.squeeze(1))
                if len(targets) * rows <= KEPT:
                    kept += [softmax, own_total, capped] if cap else [softmax, own_total]
        ctx.numbers, ctx.inputs = (scale, cap, dtype), len(tensors)
        ctx.save_for_backward(hidden, targets, total, *tensors, *kept)
        return (total - wanted).sum()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, total, *rest = ctx.saved_tensors
        (scale, cap, dtype), needs = ctx.numbers, ctx.needs_input_grad
        tensors, kept = rest[: ctx.inputs], iter(rest[ctx.inputs :])
        with torch.autocast(hidden.device.type, enabled=False):
            narrow, factor = hidden.to(dtype), outer[0] * scale
            scaled = (hidden * factor).to(dtype)
            d_hidden = torch.zeros_like(hidden, dtype=_exact(dtype)) if needs[0] else None
            grads = [
                torch.zeros_like(tensor) if tensor is not None and need else None
                for tensor, need in zip(tensors, needs[5:], strict=True)
            ]
            for block in _blocks(tensors, len(targets), hidden.device.type, dtype):
                if (softmax := next(kept, None)) is not None:
                    own_total = next(kept)
                    capped = next(kept) if cap else softmax
                else:
                    softmax, own_total, capped = block.softmax(narrow, scale, cap)
                # the derivative of the loss by the logits before scale and cap, without the factor `scale`
                place, inside = block.here(targets)
                slope = softmax * (own_total - total[block.at, None]).exp()
                slope.scatter_add_(1, place, -inside.to(slope.dtype))
                if cap:
                    slope = slope.addcmul_(slope * capped, capped, value=-1)
                d_weight, d_bias = grads[2 * block.part : 2 * block.part + 2]
                if d_bias is not None:
                    d_bias[block.rows] += slope.sum(dim=0) * factor
                slope = slope.to(dtype)
                if d_hidden is not None:
                    _add_product(d_hidden[block.at], slope, block.weight)
                if d_weight is not None:
                    _add_product(d_weight[block.rows], slope.T, scaled[block.at])
            if d_hidden is not None:
                d_hidden = d_hidden.mul_(factor).to(hidden.dtype)
        return d_hidden, None, None, None, None, *grads


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _blocks(tensors: Any, positions: int, where: str, dtype: torch.dtype) -> Iterator[_Block]:
    """Rows outside, positions inside: each piece of the weight is cast, and its gradient touched, in one go."""
    high, wide = BLOCK.get(where, BLOCK["cpu"])
    first = 0
    for part in range(len(tensors) // 2):
        weight, bias = tensors[2 * part : 2 * part + 2]
        for start in range(0, len(weight), wide):
            rows = slice(start, min(start + wide, len(weight)))
            piece = weight[rows].detach().to(dtype)
            shift = None if bias is None else bias[rows].detach()
            for top in range(0, positions, high):
                yield _Block(part, slice(top, top + high), rows, first + start, piece, shift)
        first += len(weight)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
