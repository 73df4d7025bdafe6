"""Attention in float32 while the rest of a CPU training runs in bf16.

torch's fused CPU attention takes twice as long on bf16 as on float32 (forward and backward, 64 to 512 positions), and
it is exact there. Elsewhere, and without autocast, the library's own `sdpa` is used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from training.ml.model import device

NAME = "sdpa_float32"


def _in_float32(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    if not torch.is_autocast_enabled("cpu"):
        return sdpa_attention_forward(module, query, key, value, *args, **options)
    with torch.autocast("cpu", enabled=False):
        out, none = sdpa_attention_forward(
            module, query.float(), key.float(), value.float(), *args, **options
        )
    return out.to(value.dtype), none


AttentionInterface.register(NAME, _in_float32)
AttentionMaskInterface.register(NAME, sdpa_mask)


@contextmanager
def float32_attention(model: Any) -> Iterator[None]:
    """Use it on the CPU for as long as the context lasts; only where `sdpa` would have been used."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    if device().type != "cpu" or base.config._attn_implementation != "sdpa":
        yield
        return
    base.set_attn_implementation(NAME)
    try:
        yield
    finally:
        base.set_attn_implementation("sdpa")
