"""The pocket model while it writes: the same numbers as its own forward, without what does not change in a context.

A request is read once. From then on its mean, and the tool nearest to it, stand fixed; a token costs two decoder layers
and the head. See training/ml/bases/pocket.py for what is computed and why.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from evaluation.ml.contexts import Context, Contexts, Ids, Scores, Step, Tree
from evaluation.ml.packed import linear

PADDED = 1.25  # prompts are read together while none is longer than the shortest by this factor
SPARE = 4  # ... and these tokens
TINY = 1e-6
NEVER = -1e4  # of a logit
# of a layer's number and its queries, keys and values [n, heads, m, width]: what is attended to, [n, heads, m, width]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Layer:
    """One decoder layer's weights: those that read the same input as one matrix, a norm's weights with those after."""

    qkv: nn.Module
    out: nn.Module
    gate_up: nn.Module
    down: nn.Module

    @classmethod
    def of(cls, layer: Any) -> "Layer":
        attention, mlp = layer.self_attn, layer.mlp
        qkv = [one.weight for one in (attention.q_proj, attention.k_proj, attention.v_proj)]
        gate_up = [mlp.gate_proj.weight, mlp.up_proj.weight]
        return cls(
            linear(torch.cat(qkv) * layer.input_layernorm.weight),
            linear(attention.o_proj.weight),
            linear(torch.cat(gate_up) * layer.post_attention_layernorm.weight),
            linear(mlp.down_proj.weight),
        )


class Decoder:
    """The model's decoder (Qwen3's layers) with fewer and larger products."""

    def __init__(self, model: Any, longest: int) -> None:
        """`longest`: tokens that a context may come to hold."""
        writer, config = model.model.writer, model.config.writer
        self.heads = config.num_attention_heads
        self.layers = [Layer.of(layer) for layer in writer.layers]
        self.norm = writer.norm.weight
        places = torch.arange(longest, device=self.norm.device)[None]
        cos, sin = (one[0] for one in writer.rotary_emb(self.norm.detach().float(), places))
        # [layers, 2, 2, places, width of a head]: what a query and a key are multiplied by, and what their other half
        # is, so that they are scaled by their norm's weights and turned to their position at once
        self.turns = torch.stack([self._turns(layer.self_attn, cos, sin) for layer in writer.layers]).detach()

    @staticmethod
    def _turns(attention: Any, cos: Tensor, sin: Tensor) -> Tensor:
        weights = torch.stack([attention.q_norm.weight, attention.k_norm.weight])[:, None]
        one, other = weights.chunk(2, dim=-1)
        return torch.stack([weights * cos, torch.cat([-other, one], dim=-1) * sin])

    def __call__(self, hidden: Tensor, positions: Tensor, attend: Attend, last_only: bool = False) -> Tensor:
        """[n, m, width] of both, or [n, 1, width] after the last token; `positions`: [n, m], how many tokens each has
        before it."""
        count, size, width = hidden.shape
        shape = (count, size, 3, self.heads, width // self.heads)
        turns = self.turns[:, :, :, positions, None].transpose(4, 5)
        for number, layer in enumerate(self.layers):
            parts = layer.qkv(even(hidden)).view(shape).permute(2, 0, 3, 1, 4)
            asked, (own, other) = even(parts[:2]), turns[number]
            asked = torch.addcmul(asked * own, asked.roll(shape[-1] // 2, -1), other)
            queries, keys = asked
            if last_only and layer is self.layers[-1]:
                queries, hidden = queries[:, :, -1:], hidden[:, -1:]
            found = attend(number, queries, keys, parts[2])
            hidden = hidden + layer.out(found.transpose(1, 2).flatten(2))
            gate, up = layer.gate_up(even(hidden)).chunk(2, dim=-1)
            hidden = hidden + layer.down(functional.silu(gate) * up)
        return even(hidden) * self.norm


def even(vectors: Tensor) -> Tensor:
    """Of root mean square 1 over the last dimension, zero where they are. In three steps: the library's rms_norm takes
    three times as long on a CPU."""
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / lengths.mul_(vectors.shape[-1] ** -0.5).clamp_min_(TINY)


@dataclass(frozen=True, eq=False)
class Held:
    """Tools that the model was not trained on. A request scores with them what an untrained encoder makes of both: the
    trained one has forgotten a part of what it knew of tools that nothing taught it."""

    tools: frozenset[int]  # their numbers in the export
    tokens: list[int]  # the ids of their tokens
    rows: Tensor  # fp32 [tokens, width]
    encoder: Any  # a PocketModel whose encoder is untrained

    def reading(self, given: Tensor, real: Tensor) -> Tensor:
        """[requests, width], length 1."""
        states, _ = self.encoder.read(given, real)
        return functional.normalize(states.sum(dim=1).float(), dim=-1)


class PocketContexts(Contexts):
    """Contexts of the pocket model; see training.ml.bases.pocket.PocketModel."""

    def __init__(self, model: Any, decoder: Decoder, pad_id: int, held: Held | None = None) -> None:
        super().__init__(model, pad_id)
        self.held = held
        base, config = model.model, model.config
        self.decoder, self.assistant = decoder, config.assistant_id
        self.opened, self.closed = config.thinking_ids
        self.standing = {int(control) for control in config.standing_for}
        first, count = config.tools
        self.tool_rows = base.embed_tokens.weight[first : first + count].detach()
        self.scale = base.scale.detach().exp()
        self.means = self.tool_rows.new_zeros(0, config.hidden_size, dtype=torch.float32)
        self.nearest = self.tool_rows.new_zeros(0, config.hidden_size)  # of each context, length 1 or 0
        self.untrained = torch.zeros_like(self.means)  # what Held reads of each context

    def _read(self, contexts: Sequence[Context], prompts: Sequence[Ids]) -> Scores:
        """Prompts of similar length together."""
        order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
        hidden = []
        begin = 0
        while begin < len(order):
            most = PADDED * len(prompts[order[begin]]) + SPARE
            end = begin + 1
            while end < len(order) and len(prompts[order[end]]) <= most:
                end += 1
            chosen = order[begin:end]
            hidden.append(self._prefill([contexts[at] for at in chosen], [prompts[at] for at in chosen]))
            begin = end
        mixed = torch.cat(hidden)
        back = torch.empty(len(order), dtype=torch.long)
        back[order] = torch.arange(len(order))
        return Scores(self._logits(mixed[back.to(mixed.device)]))

    def _prefill(self, contexts: Sequence[Context], prompts: Sequence[Ids]) -> Tensor:
        """[prompts, width]: what the head reads after each, as PocketModel.forward has it for an empty cache."""
        base, width = self.model.model, max(map(len, prompts))
        ids = np.full((len(prompts), width), self.pad_id, dtype=np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = prompt
        at = np.arange(width)
        starts = width - np.array([len(prompt) for prompt in prompts])[:, None]
        given, real, positions = (
            torch.from_numpy(array).to(self.device)
            for array in (ids, at >= starts, np.maximum(at - starts, 0))
        )
        states, asked = base.read(given, real)
        mean, reach = base.mean_and_reach(given, states, asked, real, None)
        embedded = base.with_nearest(states + base.embedded(given), mean[:, 0], asked, real & ~asked & reach)
        # padding attends to itself, so that no number is undefined
        mask = real[:, None, None] & torch.ones(width, width, dtype=torch.bool, device=self.device).tril()
        mask |= torch.eye(width, dtype=torch.bool, device=self.device)

        def attend(number: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            if len(self.keys) <= number:
                self._add_layer(keys, values)
            for place, (context, prompt) in enumerate(zip(contexts, prompts, strict=True)):
                for buffers, new in ((self.keys, keys), (self.values, values)):
                    buffers[number][context.row, :, : len(prompt)] = new[place, :, width - len(prompt) :]
            return functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=mask[:, :, -queries.shape[2] :]
            )

        hidden = self.decoder(even(embedded), positions, attend, last_only=True)[:, 0]
        for context, prompt in zip(contexts, prompts, strict=True):
            context.length = list(prompt).index(self.assistant) + 1 if self.assistant in prompt else 0
            self.keep(context, prompt[context.length :])
        rows = [context.row for context in contexts]
        self.means[rows] = mean[:, 0]
        if len(self.tool_rows):
            best = (mean[:, 0] @ self.tool_rows.float().T).argmax(dim=1)
            self.nearest[rows] = functional.normalize(self.tool_rows[best], dim=-1) * mean.any(dim=-1)
        if self.held is not None:
            self.untrained[rows] = self.held.reading(given, real)
        return self._mixed(hidden, reach[:, -1:], rows, given[:, -1:] == self.opened)

    def _mixed(self, hidden: Tensor, reach: Tensor, rows: Sequence[int], thinks: Tensor) -> Tensor:
        """[n, width] of contexts in `rows`: what the head reads. Where newer tools are held, beside it what they are
        compared with, and whether a trace begins or says something: there none of their tokens may be written."""
        share = torch.sigmoid(self.model.model.gate(hidden).float()) * reach
        mixed: Tensor = share * self.scale * self.means[rows] + (1 - share) * hidden.float()
        if self.held is None:
            return mixed
        return torch.cat([mixed, self.scale * self.untrained[rows], thinks.float()], dim=1)

    def _logits(self, mixed: Tensor) -> Tensor:
        width = self.tool_rows.shape[1]
        logits: Tensor = self.model.lm_head(mixed[:, :width].to(self.model.dtype))
        if self.held is not None:
            scores, thinks = mixed[:, width:-1] @ self.held.rows.T, mixed[:, -1:] > 0
            logits[:, self.held.tokens] = scores.masked_fill(thinks, NEVER).to(logits.dtype)
        return logits

    def readings(self, contexts: Sequence[Context]) -> Tensor:
        return self.means[[context.row for context in contexts]]

    def keep(self, context: Context, tokens: Ids) -> None:
        super().keep(context, tokens)
        for token in tokens:
            context.ended |= token == self.closed
            context.thought |= not context.ended and token != self.opened

    def _reach(self, step: Step, contexts: Sequence[Context], trees: Sequence[Tree]) -> tuple[Tensor, Tensor]:
        """[n, m] 1 where the request's mean is in reach: until a trace that says something has been closed; and where
        a trace begins or says something."""
        found = np.ones((2, *step.ids.shape), dtype=np.float32)
        for one, tree in zip(contexts, trees, strict=True):
            begin = found.shape[2] - len(tree.tokens)
            states: list[tuple[bool, bool]] = []
            for token, parent in zip(tree.tokens, tree.parents, strict=True):
                thought, ended = states[parent] if parent >= 0 else (one.thought, one.ended)
                ended = ended or token == self.closed
                thought = thought or (not ended and token != self.opened)
                thinks = thought or token == self.opened
                found[:, one.row - step.first, begin + len(states)] = not (ended and thought), thinks
                states.append((thought, ended))
        reach, thinks = torch.from_numpy(found).to(self.device)
        return reach, thinks

    def _forward(self, step: Step, contexts: Sequence[Context], trees: Sequence[Tree]) -> Tensor:
        rows = slice(step.first, step.first + len(step.ids))
        base = self.model.model
        reach, thinks = (found[..., None] for found in self._reach(step, contexts, trees))
        if self.standing.isdisjoint(token for tree in trees for token in tree.tokens):
            hidden = functional.embedding(step.ids, base.embed_tokens.weight)
        else:
            hidden = base.embedded(step.ids)
        if len(self.tool_rows):
            nearest = self.nearest[rows, None]
            led = functional.normalize(hidden, dim=-1) + nearest
            hidden = torch.where((reach > 0) & nearest.any(dim=-1, keepdim=True), led, hidden)
        count, size, width = hidden.shape

        def attend(number: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            all_keys, all_values = self._write(number, step, keys, values)
            return functional.scaled_dot_product_attention(queries, all_keys, all_values, attn_mask=step.mask)

        hidden = self.decoder(even(hidden), step.positions, attend)
        wanted = [
            (one.row - step.first, size - len(tree.tokens)) for one, tree in zip(contexts, trees, strict=True)
        ]
        flat = [row * size + at for row, begin in wanted for at in range(begin, size)]
        if flat != list(range(count * size)):  # the contexts may stand in another order than their rows
            hidden = hidden.reshape(-1, width)[flat]
            reach, thinks = reach.reshape(-1, 1)[flat], thinks.reshape(-1, 1)[flat]
        else:
            hidden, reach, thinks = hidden.reshape(-1, width), reach.reshape(-1, 1), thinks.reshape(-1, 1)
        return self._logits(self._mixed(hidden, reach, [step.first + at // size for at in flat], thinks))

    def _make_room(self, rows: int, columns: int) -> None:
        super()._make_room(rows, columns)
        missing = self._size[0] - len(self.means)
        if missing > 0:
            self.means, self.nearest, self.untrained = (
                torch.cat([one, one.new_zeros(missing, one.shape[1])])
                for one in (self.means, self.nearest, self.untrained)
            )

    def _copy(self, source: int, target: int, length: int) -> None:
        super()._copy(source, target, length)
        for one in (self.means, self.nearest, self.untrained):
            one[target] = one[source]
