"""The pocket model while it writes: the same numbers as its own forward, without what does not change in a context.

A request is read by the model itself, once. From then on its mean, and the tool nearest to it, stand fixed; a token
costs two decoder layers and the head. See training/ml/bases/pocket.py for what is computed and why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache

from evaluation.ml.contexts import Context, Contexts, Ids, Scores, Step, Tree

PADDED = 1.25  # prompts are read together while none is longer than the shortest by this factor
SPARE = 4  # ... and these tokens


@dataclass(frozen=True, eq=False)
class Layer:
    """One decoder layer's weights, those that read the same input as one matrix."""

    before: Tensor
    qkv: Tensor
    query_norm: Tensor
    key_norm: Tensor
    out: Tensor
    between: Tensor
    gate_up: Tensor
    down: Tensor

    @classmethod
    def of(cls, layer: Any) -> "Layer":
        attention, mlp = layer.self_attn, layer.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        return cls(
            layer.input_layernorm.weight,
            torch.cat([one.weight for one in projections]).detach(),
            attention.q_norm.weight,
            attention.k_norm.weight,
            attention.o_proj.weight,
            layer.post_attention_layernorm.weight,
            torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach(),
            mlp.down_proj.weight,
        )


class PocketContexts(Contexts):
    """Contexts of the pocket model; see training.ml.bases.pocket.PocketModel."""

    def __init__(self, model: Any, pad_id: int) -> None:
        super().__init__(model, pad_id)
        base, config = model.model, model.config
        self.layers = [Layer.of(layer) for layer in base.writer.layers]
        self.heads, self.eps = config.writer.num_attention_heads, config.writer.rms_norm_eps
        self.opened, self.closed = config.thinking_ids
        self.standing = {int(control) for control in config.standing_for}
        first, count = config.tools
        self.tool_rows = base.embed_tokens.weight[first : first + count].detach()
        self.scale = base.scale.detach().exp()
        places = torch.arange(config.writer.max_position_embeddings, device=self.device)[None]
        cos, sin = base.writer.rotary_emb(self.tool_rows[:0].float(), places)
        self.cos, self.sin = cos[0], sin[0]
        self.means = self.tool_rows.new_zeros(0, config.hidden_size, dtype=torch.float32)
        self.nearest = self.tool_rows.new_zeros(0, config.hidden_size)  # of each context, length 1 or 0

    def _read(self, contexts: Sequence[Context], prompts: Sequence[Ids]) -> Scores:
        """By the model's own forward, prompts of similar length together."""
        order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
        logits = torch.empty(0)
        begin = 0
        while begin < len(order):
            most = PADDED * len(prompts[order[begin]]) + SPARE
            end = begin + 1
            while end < len(order) and len(prompts[order[end]]) <= most:
                end += 1
            chosen = order[begin:end]
            found = self._prefill([contexts[at] for at in chosen], [prompts[at] for at in chosen])
            if not len(logits):
                logits = found.new_empty(len(prompts), found.shape[1])
            logits[chosen] = found
            begin = end
        return Scores(logits)

    def _prefill(self, contexts: Sequence[Context], prompts: Sequence[Ids]) -> Tensor:
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self.pad_id)
        real = torch.zeros_like(ids, dtype=torch.bool)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            real[row, width - len(prompt) :] = True
        ids, real = ids.to(self.device), real.to(self.device)
        cache = DynamicCache()
        logits = self.model(
            input_ids=ids,
            attention_mask=None if bool(real.all()) else real.long(),
            position_ids=(real.long().cumsum(dim=1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        found: list[Any] = list(cache.layers)
        *layers, of_mean = found
        asked, thought, closed = (of_mean.keys[:, 0, :, part] for part in range(3))
        sizes = asked.sum(dim=1, keepdim=True)
        means = of_mean.values[:, 0].sum(dim=1) / sizes.clamp(min=1)
        means = functional.normalize(means.float(), dim=-1)
        while len(self.keys) < len(layers):
            self._add_layer(layers[0].keys, layers[0].values)
        for number, (context, prompt) in enumerate(zip(contexts, prompts, strict=True)):
            context.length = len(prompt)
            context.thought, context.ended = bool(thought[number].any()), bool(closed[number].any())
            for layer, one in enumerate(layers):
                self.keys[layer][context.row, :, : len(prompt)] = one.keys[number, :, width - len(prompt) :]
                self.values[layer][context.row, :, : len(prompt)] = one.values[
                    number, :, width - len(prompt) :
                ]
        rows = [context.row for context in contexts]
        self.means[rows] = means
        if len(self.tool_rows):
            best = (means @ self.tool_rows.float().T).argmax(dim=1)
            has_request = means.any(dim=1, keepdim=True)
            self.nearest[rows] = functional.normalize(self.tool_rows[best], dim=-1) * has_request
        return logits

    def readings(self, contexts: Sequence[Context]) -> Tensor:
        return self.means[[context.row for context in contexts]]

    def keep(self, context: Context, tokens: Ids) -> None:
        super().keep(context, tokens)
        for token in tokens:
            context.ended |= token == self.closed
            context.thought |= not context.ended and token != self.opened

    def _reach(self, step: Step, contexts: Sequence[Context], trees: Sequence[Tree]) -> Tensor:
        """[n, m] 1 where the request's mean is in reach: until a trace that says something has been closed."""
        found = np.ones(step.ids.shape, dtype=np.float32)
        for one, tree in zip(contexts, trees, strict=True):
            begin = found.shape[1] - len(tree.tokens)
            states: list[tuple[bool, bool]] = []
            for token, parent in zip(tree.tokens, tree.parents, strict=True):
                thought, ended = states[parent] if parent >= 0 else (one.thought, one.ended)
                ended = ended or token == self.closed
                thought = thought or (not ended and token != self.opened)
                found[one.row - step.first, begin + len(states)] = not (ended and thought)
                states.append((thought, ended))
        return torch.from_numpy(found).to(self.device)

    def _forward(self, step: Step, contexts: Sequence[Context], trees: Sequence[Tree]) -> Tensor:
        rows = slice(step.first, step.first + len(step.ids))
        base = self.model.model
        reach = self._reach(step, contexts, trees)[..., None]
        if self.standing.isdisjoint(token for tree in trees for token in tree.tokens):
            hidden = functional.embedding(step.ids, base.embed_tokens.weight)
        else:
            hidden = base.embedded(step.ids)
        if len(self.tool_rows):
            nearest = self.nearest[rows, None]
            led = functional.normalize(hidden, dim=-1) + nearest
            hidden = torch.where((reach > 0) & nearest.any(dim=-1, keepdim=True), led, hidden)
        width = hidden.shape[-1]
        hidden = functional.rms_norm(hidden, (width,))
        cos, sin = self.cos[step.positions][:, None], self.sin[step.positions][:, None]
        for number, layer in enumerate(self.layers):
            attended = self._attended(step, number, layer, hidden, cos, sin)
            hidden = hidden + functional.linear(attended, layer.out)
            normed = functional.rms_norm(hidden, (width,), layer.between, self.eps)
            gate, up = functional.linear(normed, layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + functional.linear(functional.silu(gate) * up, layer.down)
        hidden = functional.rms_norm(hidden, (width,), base.writer.norm.weight, self.eps)
        size = hidden.shape[1]
        wanted = [
            (one.row - step.first, size - len(tree.tokens)) for one, tree in zip(contexts, trees, strict=True)
        ]
        flat = [row * size + at for row, begin in wanted for at in range(begin, size)]
        if flat != list(range(len(hidden) * size)):  # the contexts may stand in another order than their rows
            hidden = hidden.reshape(-1, width)[flat]
            reach = reach.reshape(-1, 1)[flat]
            means = self.means[[step.first + at // size for at in flat]]
        else:
            hidden, reach = hidden.reshape(-1, width), reach.reshape(-1, 1)
            means = self.means[rows].repeat_interleave(size, dim=0)
        share = torch.sigmoid(base.gate(hidden).float()) * reach
        mixed = share * self.scale * means + (1 - share) * hidden.float()
        logits: Tensor = self.model.lm_head(mixed.to(self.model.dtype))
        return logits

    def _attended(
        self, step: Step, number: int, layer: Layer, hidden: Tensor, cos: Tensor, sin: Tensor
    ) -> Tensor:
        count, size, width = hidden.shape
        normed = functional.rms_norm(hidden, (width,), layer.before, self.eps)
        projected = functional.linear(normed, layer.qkv).view(count, size, 3, self.heads, width // self.heads)
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        span = (width // self.heads,)
        queries = turned(functional.rms_norm(queries, span, layer.query_norm, self.eps), cos, sin)
        keys = turned(functional.rms_norm(keys, span, layer.key_norm, self.eps), cos, sin)
        all_keys, all_values = self._write(number, step, keys, values)
        found = functional.scaled_dot_product_attention(queries, all_keys, all_values, attn_mask=step.mask)
        return found.transpose(1, 2).reshape(count, size, width)

    def _make_room(self, rows: int, columns: int) -> None:
        super()._make_room(rows, columns)
        missing = self._size[0] - len(self.means)
        if missing > 0:
            self.means, self.nearest = (
                torch.cat([one, one.new_zeros(missing, one.shape[1])]) for one in (self.means, self.nearest)
            )

    def _copy(self, source: int, target: int, length: int) -> None:
        super()._copy(source, target, length)
        self.means[target], self.nearest[target] = self.means[source], self.nearest[source]


def turned(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, as Qwen3 turns its halves."""
    one, other = states.chunk(2, dim=-1)
    return states * cos + torch.cat([-other, one], dim=-1) * sin
