"""A batch of contexts in a model: keys and values so far, and the next token's log-probabilities.

Contexts are padded on the left. Nothing is changed in place: `extend` returns a new state and leaves the old one
usable, which is what lets one prefill serve every continuation of a search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

Layer = tuple[Tensor, Tensor] | None  # None: the layer reads another layer's keys and values


@dataclass(frozen=True, eq=False)
class State:
    model: Any
    layers: tuple[Layer, ...]
    mask: Tensor  # [contexts, length], False on padding
    scores: Tensor  # [contexts, vocabulary], log-probabilities of the next token

    def __len__(self) -> int:
        return int(self.mask.shape[0])

    def select(self, rows: Sequence[int]) -> "State":
        """The contexts at these positions, in this order; a position may repeat."""
        chosen = torch.as_tensor(rows, dtype=torch.long, device=self.mask.device)
        start = int(self.mask[chosen].any(dim=0).int().argmax())  # columns that are padding everywhere go
        layers = tuple(
            (layer[0][chosen, :, start:], layer[1][chosen, :, start:]) if layer else None
            for layer in self.layers
        )
        return State(self.model, layers, self.mask[chosen, start:], self.scores[chosen])

    def extend(self, tokens: Sequence[Sequence[int]]) -> "State":
        """Every context followed by its tokens: one row a context, all of one length."""
        return _forward(self.model, tokens, self.layers, self.mask)


def start(model: Any, prompts: Sequence[Sequence[int]], pad_id: int) -> State:
    """The one prefill of a batch."""
    width = max(map(len, prompts))
    padded = [[pad_id] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    real = [[False] * (width - len(prompt)) + [True] * len(prompt) for prompt in prompts]
    empty = torch.zeros((len(prompts), 0), dtype=torch.bool, device=model.device)
    return _forward(model, padded, (), empty, torch.tensor(real, device=model.device))


def join(states: Sequence[State]) -> State:
    """Several states as one batch, the shorter ones padded on the left."""
    if len(states) == 1:
        return states[0]
    width = max(state.mask.shape[1] for state in states)
    layers: list[Layer] = []
    for column in zip(*(state.layers for state in states), strict=True):
        pairs = [layer for layer in column if layer]
        keys, values = ([_padded(pair[side], width, 2) for pair in pairs] for side in (0, 1))
        layers.append((torch.cat(keys), torch.cat(values)) if pairs else None)
    mask = torch.cat([_padded(state.mask, width, 1) for state in states])
    return State(states[0].model, tuple(layers), mask, torch.cat([state.scores for state in states]))


def _padded(tensor: Tensor, width: int, dim: int) -> Tensor:
    shape = list(tensor.shape)
    shape[dim] = width - shape[dim]
    return torch.cat([tensor.new_zeros(shape), tensor], dim=dim) if shape[dim] else tensor


@torch.inference_mode()
def _forward(
    model: Any,
    tokens: Sequence[Sequence[int]],
    layers: tuple[Layer, ...],
    before: Tensor,
    real: Tensor | None = None,
) -> State:
    ids = torch.tensor(tokens, dtype=torch.long, device=model.device)
    real = torch.ones_like(ids, dtype=torch.bool) if real is None else real
    mask = torch.cat([before, real], dim=1)
    positions = (mask.long().cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
    output = model(
        input_ids=ids,
        attention_mask=None if bool(mask.all()) else mask.long(),
        position_ids=positions,
        past_key_values=_cache(layers),
        use_cache=True,
        logits_to_keep=1,
    )
    cached = [
        (layer.keys, layer.values) if layer.is_initialized else None
        for layer in output.past_key_values.layers
    ]
    return State(model, tuple(cached), mask, output.logits[:, -1].float().log_softmax(dim=-1))


def _cache(layers: tuple[Layer, ...]) -> DynamicCache:
    """The library's cache around our tensors; it appends by making new ones, so ours stay as they are."""
    cache = DynamicCache()
    for layer in layers:
        held = DynamicLayer()
        if layer:
            held.lazy_initialization(*layer)
            held.keys, held.values = layer
        cache.layers.append(held)
    return cache
