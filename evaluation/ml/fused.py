"""What transformers computes in several kernels or copies, in one: norms, and attention of heads that share keys.

A GPU takes longer to start the kernels of a step of few tokens than its products take, and a norm alone is eight. On an
H200 a step of an E4B-shaped model takes 7.6 ms instead of 11.6, and one that checks four tokens of each of 32 requests
9.8 instead of 19.8 (bench/e4b_serving.py, random weights).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_grouped"
TRIED = 64  # numbers of a vector on which a norm without weights is tried


def fuse(model: Any) -> int:
    """Change how a model computes, not what: its attention, where that is `sdpa`, and each norm that torch has a kernel
    for. How many norms that are."""
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(NAME)
    changed = 0
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and (norm := _one_kernel(module)):
            module.forward = norm
            changed += 1
    return changed


@torch.inference_mode()
def _one_kernel(module: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """torch's own norm, if it gives what this one gives; some add 1 to their weights."""
    weight: Any = getattr(module, "weight", None)
    eps: Any = getattr(module, "eps", getattr(module, "variance_epsilon", None))
    like = next(module.parameters(), torch.empty(0))
    width = TRIED if weight is None else len(weight)
    tried = torch.randn(4, width, generator=torch.Generator().manual_seed(0)).to(like)
    norm = partial(_normed, weight=weight, eps=eps)
    try:
        torch.testing.assert_close(norm(tried), module(tried))
    except AssertionError:
        return None
    return norm


def _normed(vectors: Tensor, weight: Tensor | None, eps: float | None) -> Tensor:
    return functional.rms_norm(vectors, vectors.shape[-1:], weight, eps)


def _grouped(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Heads that share keys as further queries of these, where `sdpa` copies the keys for each of them."""
    count, heads, tokens, _ = query.shape
    shared = heads // key.shape[1]
    if shared == 1 or tokens == 1 or attention_mask is None or options.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    stacked = query.reshape(count, key.shape[1], shared * tokens, -1)
    mask = attention_mask.repeat(1, 1, shared, 1)
    read = functional.scaled_dot_product_attention(stacked, key, value, attn_mask=mask, scale=scaling)
    return read.reshape(count, heads, tokens, -1).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _grouped)
AttentionMaskInterface.register(NAME, sdpa_mask)
