"""Cross-entropy through an output head of hundreds of thousands of rows, without ever holding its logits.

In: hidden states, the wanted ids and a `Head`. Out: the summed loss with gradients. Logits exist one block of
positions x rows at a time: forward keeps each position's log-sum-exp, backward makes every block once more, unless
all of them together are small.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

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

    def below(self, first: int) -> "Head":
        """The rows from `first` on."""
        found, start = [], 0
        for part in self.parts:
            skip = max(0, first - start)
            start += len(part.weight)
            if skip < len(part.weight):
                found.append(Part(part.weight[skip:], None if part.bias is None else part.bias[skip:]))
        return replace(self, parts=tuple(found))

    def logits(self, hidden: Tensor) -> Tensor:
        """All of them; for a few positions."""
        pieces = [
            nn.functional.linear(hidden, part.weight.to(hidden.dtype), part.bias) for part in self.parts
        ]
        logits = torch.cat(pieces, dim=-1) * self.scale
        return torch.tanh(logits / self.cap) * self.cap if self.cap else logits


def output_head(model: Any) -> Head:
    """The head of a causal language model, plain, split or wrapped by PEFT, with what its configuration scales."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
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
    how = _How(head.scale, head.cap, dtype, sum(len(part.weight) for part in head.parts))
    tensors = [tensor for part in head.parts for tensor in (part.weight, part.bias)]
    return _SummedLoss.apply(hidden, targets, how, *tensors)


@dataclass(frozen=True, slots=True)
class _How:
    scale: float
    cap: float
    dtype: torch.dtype  # of the products; everything else is at least float32
    rows: int

    @property
    def exact(self) -> torch.dtype:
        return torch.promote_types(self.dtype, torch.float32)


class _SummedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, targets: Tensor, how: _How, *tensors: Tensor | None) -> Tensor:
        sums, kept = _Sums.empty(targets, how), []
        keep = len(targets) * how.rows <= KEPT
        with _no_autocast(hidden):
            narrow = hidden.to(how.dtype)
            for block in _blocks(tensors, len(targets), hidden.device.type, how):
                shares = block.shares(narrow, how)
                sums.add(block, shares, targets)
                kept += shares.kept(how) if keep else []
        ctx.how, ctx.inputs = how, len(tensors)
        ctx.save_for_backward(hidden, targets, sums.total, *tensors, *kept)
        return (sums.total - sums.wanted).sum()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, total, *rest = ctx.saved_tensors
        tensors, kept = rest[: ctx.inputs], iter(rest[ctx.inputs :])
        needs, how = ctx.needs_input_grad, ctx.how
        with _no_autocast(hidden):
            narrow, factor = hidden.to(how.dtype), outer[0] * how.scale
            scaled = (hidden * factor).to(how.dtype)
            d_hidden = torch.zeros_like(hidden, dtype=how.exact) if needs[0] else None
            grads = [_zeros(tensor, need) for tensor, need in zip(tensors, needs[3:], strict=True)]
            for block in _blocks(tensors, len(targets), hidden.device.type, how):
                shares = _Shares.of(kept, how) or block.shares(narrow, how)
                slope = block.slope(shares, targets, total, how)
                d_weight, d_bias = grads[2 * block.part : 2 * block.part + 2]
                if d_bias is not None:
                    d_bias[block.rows] += slope.sum(dim=0) * factor
                slope = slope.to(how.dtype)
                if d_hidden is not None:
                    _add_product(d_hidden[block.positions], slope, block.weight)
                if d_weight is not None:
                    _add_product(d_weight[block.rows], slope.T, scaled[block.positions])
            if d_hidden is not None:
                d_hidden = d_hidden.mul_(factor).to(hidden.dtype)
        return d_hidden, None, None, *grads


@dataclass(slots=True)
class _Shares:
    """What a block's logits become: softmax over the block alone, and their log-sum-exp."""

    softmax: Tensor  # [positions, rows]
    total: Tensor  # [positions, 1]
    capped: Tensor  # the logits; under a soft cap as a share of it. Only a soft cap needs them again

    def kept(self, how: _How) -> list[Tensor]:
        return [self.softmax, self.total, self.capped] if how.cap else [self.softmax, self.total]

    @staticmethod
    def of(kept: Iterator[Tensor], how: _How) -> "_Shares | None":
        softmax = next(kept, None)
        if softmax is None:
            return None
        return _Shares(softmax, next(kept), next(kept) if how.cap else softmax)


@dataclass(slots=True)
class _Block:
    """A rectangle of the logits: some positions, some consecutive rows of one part."""

    part: int
    positions: slice
    rows: slice  # inside the part
    first: int  # id of the first row
    weight: Tensor
    bias: Tensor | None

    def shares(self, hidden: Tensor, how: _How) -> _Shares:
        capped = (hidden[self.positions] @ self.weight.T).to(how.exact)
        if self.bias is not None:
            capped += self.bias
        if how.cap:
            capped.mul_(how.scale / how.cap).tanh_()
        elif how.scale != 1:
            capped.mul_(how.scale)
        logits = capped * how.cap if how.cap else capped
        softmax = logits.softmax(dim=1)  # one pass over the block, where logsumexp takes four
        total = logits.amax(dim=1, keepdim=True) - softmax.amax(dim=1, keepdim=True).log()
        return _Shares(softmax, total, capped)

    def here(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """For each position its wanted row in this block (any, when elsewhere), and whether it is in this block."""
        wanted = targets[self.positions, None] - self.first
        return wanted.clamp(0, len(self.weight) - 1), (wanted >= 0) & (wanted < len(self.weight))

    def slope(self, shares: _Shares, targets: Tensor, total: Tensor, how: _How) -> Tensor:
        """The derivative of the loss by the logits before scale and cap, without the factor `scale`."""
        place, inside = self.here(targets)
        slope = shares.softmax * (shares.total - total[self.positions, None]).exp()
        slope.scatter_add_(1, place, -inside.to(slope.dtype))
        return slope.addcmul_(slope * shares.capped, shares.capped, value=-1) if how.cap else slope


@dataclass(slots=True)
class _Sums:
    """What forward collects of each position's logits."""

    how: _How
    total: Tensor  # log-sum-exp of the rows so far
    wanted: Tensor  # the logit of the wanted row

    @staticmethod
    def empty(targets: Tensor, how: _How) -> "_Sums":
        zero = torch.zeros(len(targets), dtype=how.exact, device=targets.device)
        return _Sums(how, torch.full_like(zero, -torch.inf), zero)

    def add(self, block: _Block, shares: _Shares, targets: Tensor) -> None:
        at, (place, inside), factor = block.positions, block.here(targets), self.how.cap or 1.0
        self.wanted[at] += (shares.capped.gather(1, place) * inside).squeeze(1) * factor
        self.total[at] = torch.logaddexp(self.total[at], shares.total.squeeze(1))


def _blocks(tensors: Any, positions: int, where: str, how: _How) -> Iterator[_Block]:
    """Rows outside, positions inside: each piece of the weight is cast, and its gradient touched, in one go."""
    high, wide = BLOCK.get(where, BLOCK["cpu"])
    first = 0
    for part in range(len(tensors) // 2):
        weight, bias = tensors[2 * part : 2 * part + 2]
        for start in range(0, len(weight), wide):
            rows = slice(start, min(start + wide, len(weight)))
            piece = weight[rows].detach().to(how.dtype)
            shift = None if bias is None else bias[rows].detach()
            for top in range(0, positions, high):
                yield _Block(part, slice(top, top + high), rows, first + start, piece, shift)
        first += len(weight)


def _zeros(tensor: Tensor | None, needed: bool) -> Tensor | None:
    return torch.zeros_like(tensor) if tensor is not None and needed else None


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _no_autocast(like: Tensor) -> AbstractContextManager[Any]:
    """Every cast here is written out."""
    return torch.autocast(like.device.type, enabled=False)
