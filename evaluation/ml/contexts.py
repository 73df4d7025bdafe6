"""Contexts in a language model: what each has read and written, as keys and values in one buffer, a row a context.

Any causal model of transformers reads and writes the buffer through a cache of ours. Contexts join and leave at any
time, and each grows by what it is fed. A context can also be asked what would follow several continuations of it at
once, as a tree of tokens that attend to their own ancestors only: one forward serves a whole search, or checks a guess
of several tokens, and nothing of it stays unless it is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from evaluation.ml.graphs import Graphs, Step

Ids = Sequence[int]
Numbers = npt.NDArray[np.float64]
ROOM = 64  # columns by which the buffer grows
SLIDING = "sliding_attention"


@dataclass(eq=False)
class Context:
    """One request's place in the buffer. `row` moves when others leave."""

    row: int
    length: int = 0  # tokens that are kept


class Scores:
    """What may come next after each of several places: logits [places, vocabulary], normalised only where asked."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits.float()

    def __len__(self) -> int:
        return int(self.logits.shape[0])

    @cached_property
    def best(self) -> list[int]:
        """The likeliest token of every place."""
        return [int(token) for token in self.logits.argmax(dim=1).tolist()]

    @cached_property
    def _norms(self) -> Numbers:
        # by the greatest value: torch.logsumexp is several times slower on a CPU
        top = self.logits.amax(dim=1, keepdim=True)
        norms = (self.logits - top).exp_().sum(dim=1).log_() + top[:, 0]
        return np.asarray(norms.cpu().numpy(), dtype=np.float64)

    def _few(self, place: int, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Logits of some tokens: of a GPU's table these alone are copied."""
        if self.logits.is_cpu:
            return np.asarray(self.logits.numpy()[place, ids])
        chosen = torch.from_numpy(ids).to(self.logits.device)
        return np.asarray(self.logits[place, chosen].cpu().numpy())

    def of(self, place: int, ids: Sequence[int] | npt.NDArray[np.int64]) -> Numbers:
        """Log-probabilities of some tokens at a place; they are over the whole vocabulary."""
        few = self._few(place, np.asarray(ids, dtype=np.int64))
        return np.asarray(few - self._norms[place], dtype=np.float64)

    def likeliest(self, place: int, ids: Sequence[int]) -> int:
        """The best of some tokens, the first among equals."""
        return ids[int(self._few(place, np.asarray(ids, dtype=np.int64)).argmax())]


@dataclass(frozen=True, eq=False)
class Tree:
    """Tokens to be tried after one context: each follows its parent, or the context itself (-1)."""

    tokens: list[int]
    parents: list[int]

    @property
    def branches(self) -> bool:
        return self.parents != list(range(-1, len(self.tokens) - 1))

    @classmethod
    def chain(cls, tokens: Ids) -> "Tree":
        return cls(list(tokens), list(range(-1, len(tokens) - 1)))

    @classmethod
    def of_paths(cls, paths: Sequence[Ids]) -> tuple["Tree", list[int]]:
        """The paths with their common beginnings merged, and where each ends."""
        tokens: list[int] = []
        parents: list[int] = []
        known: dict[tuple[int, int], int] = {}
        ends = []
        for path in paths:
            at = -1
            for token in path:
                if (at, token) not in known:
                    known[at, token] = len(tokens)
                    tokens.append(token)
                    parents.append(at)
                at = known[at, token]
            ends.append(at)
        return cls(tokens, parents), ends


class Contexts:
    """Every context that is being answered."""

    def __init__(self, model: Any, pad_id: int, prefix: Ids = (), fixed: bool | None = None) -> None:
        """`prefix`: what every prompt begins with; it is read once. `fixed`: steps of few shapes; None: on a GPU."""
        self.model, self.pad_id = model, pad_id
        self.device = model.device
        self.live: list[Context] = []
        self.keys: list[Tensor] = []  # a layer: [rows, heads, columns, width]
        self.values: list[Tensor] = []
        self._size = (0, 0)
        config = model.config.get_text_config()
        self.window = int(getattr(config, "sliding_window", None) or 0)
        self.kinds = set(getattr(config, "layer_types", None) or ())
        fixed = self.device.type == "cuda" if fixed is None else fixed
        self.graphs = Graphs(self._run) if fixed else None
        self.prefix, self.prefix_ids = None, list(prefix)
        if prefix:
            (self.prefix,), _ = self.admit([prefix])
            if self.graphs:
                self.graphs.first = 1

    def __len__(self) -> int:
        return len(self.live)

    @torch.inference_mode()
    def admit(self, prompts: Sequence[Ids]) -> tuple[list[Context], Scores]:
        """New contexts that have read their prompts, and what follows each."""
        added = [Context(len(self.live) + number) for number in range(len(prompts))]
        self._make_room(len(self.live) + len(prompts), max(map(len, prompts)) + 1)
        self.live += added
        rest = []
        for context, prompt in zip(added, prompts, strict=True):
            if self.prefix and list(prompt[: self.prefix.length]) == self.prefix_ids:
                context.length = self.prefix.length
                self._copy(self.prefix.row, context.row, context.length)
            rest.append(prompt[context.length :])
        step = self._step(added, [Tree.chain(own) for own in rest])
        logits = self._logits(step, added, [1] * len(added))
        for context, own in zip(added, rest, strict=True):
            self.keep(context, own)
        return added, Scores(logits)

    @torch.inference_mode()
    def drop(self, contexts: Sequence[Context]) -> None:
        """Forget contexts; the last ones take their rows."""
        for gone in sorted(contexts, key=lambda one: -one.row):
            last = self.live.pop()
            if last is not gone:
                self._copy(last.row, gone.row, last.length)
                last.row = gone.row
                self.live[gone.row] = last

    def after(
        self, contexts: Sequence[Context], paths: Sequence[Sequence[Ids]]
    ) -> tuple[Scores, list[range]]:
        """What follows each path of each context, and which places of the scores are whose. Nothing is kept."""
        merged = [Tree.of_paths(own) for own in paths]
        scores, places = self.look(contexts, [tree for tree, _ in merged])
        wanted = [own[end] for own, (_, ends) in zip(places, merged, strict=True) for end in ends]
        starts = np.cumsum([0, *(len(ends) for _, ends in merged)])
        ranges = [range(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]
        return Scores(scores.logits[wanted]), ranges

    @torch.inference_mode()
    def look(self, contexts: Sequence[Context], trees: Sequence[Tree]) -> tuple[Scores, list[range]]:
        """What follows each token of each tree. Their keys lie behind the context's own, in the order of the tree: the
        first of a chain can be kept."""
        sizes = [len(tree.tokens) for tree in trees]
        longest = max(one.length + size for one, size in zip(contexts, sizes, strict=True))
        self._make_room(len(self.live), longest + 1)
        logits = self._logits(self._step(contexts, trees), contexts, sizes)
        starts = np.cumsum([0, *sizes])
        return Scores(logits), [range(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]

    def keep(self, context: Context, tokens: Ids) -> None:
        """The first tokens of the chain that was looked at last become part of the context."""
        context.length += len(tokens)

    def feed(self, contexts: Sequence[Context], tokens: Sequence[Ids]) -> Scores:
        """Contexts with tokens added, and what follows the last of each."""
        scores, places = self.look(contexts, [Tree.chain(own) for own in tokens])
        for context, own in zip(contexts, tokens, strict=True):
            self.keep(context, own)
        return Scores(scores.logits[[own[-1] for own in places]])

    def _step(self, contexts: Sequence[Context], trees: Sequence[Tree]) -> Step:
        """The rows from the first of the contexts to the last; a row between them that is not asked is all padding."""
        rows = [one.row for one in contexts]
        first, count = min(rows), max(rows) - min(rows) + 1
        most = max(len(tree.tokens) for tree in trees)
        width = max(one.length + len(tree.tokens) for one, tree in zip(contexts, trees, strict=True))
        if self.graphs and (sizes := self.graphs.sizes(first, count, most, width)):
            first, count, most, width = sizes
        lengths, added = np.zeros((2, count, 1), dtype=np.int64)
        ids = np.full((count, most), self.pad_id, dtype=np.int64)
        for one, tree in zip(contexts, trees, strict=True):
            row, size = one.row - first, len(tree.tokens)
            lengths[row], added[row], ids[row, most - size :] = one.length, size, tree.tokens
        # as if each were a chain
        after = np.arange(most) - (most - added)  # how many of the tree stand before; less than 0: padding
        columns = np.where(after >= 0, lengths + after, self._size[1] - 1)
        positions = np.where(after >= 0, lengths + after, 0)
        # padding reads one column, so that no number is undefined
        mask = (np.arange(width) <= positions[:, :, None])[:, None]
        for one, tree in zip(contexts, trees, strict=True):
            if tree.branches:
                row, begin = one.row - first, most - len(tree.tokens)
                seen = mask[row, 0, begin:]
                seen[:, one.length :] = False
                for at, parent in enumerate(tree.parents):
                    if parent < 0:
                        positions[row, begin + at] = one.length
                    else:
                        positions[row, begin + at] = positions[row, begin + parent] + 1
                        seen[at] = seen[parent]
                    seen[at, one.length + at] = True
        arrays = [torch.from_numpy(array).to(self.device) for array in (ids, positions, columns, mask)]
        return Step(first, arrays[0], arrays[1], arrays[2], arrays[3], width)

    def _logits(self, step: Step, contexts: Sequence[Context], sizes: Sequence[int]) -> Tensor:
        """[sum of sizes, vocabulary]: after the last `sizes[i]` tokens of each context, one after the other."""
        output = (self.graphs or self._run)(step, max(sizes))
        width = output.shape[1]
        return torch.cat(
            [output[one.row - step.first, width - size :] for one, size in zip(contexts, sizes, strict=True)]
        )

    def _write(self, layer: int, step: Step, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a layer's new keys and values [n, heads, m, width] into the buffer; all that the step reads of it."""
        while len(self.keys) <= layer:
            count, columns = self._size
            for buffers, new in ((self.keys, keys), (self.values, values)):
                buffers.append(new.new_zeros(count, new.shape[1], columns, new.shape[3]))
        rows = torch.arange(step.first, step.first + len(step.ids), device=self.device)[:, None]
        of_keys, of_values = self.keys[layer], self.values[layer]
        of_keys[rows, :, step.columns] = keys.transpose(1, 2)
        of_values[rows, :, step.columns] = values.transpose(1, 2)
        there = slice(step.first, step.first + len(step.ids))
        return of_keys[there, :, : step.width], of_values[there, :, : step.width]

    def _make_room(self, rows: int, columns: int) -> None:
        """Buffers of at least this size; twice the rows and some columns more, so that growing is rare."""
        if self.graphs:
            rows, columns = self.graphs.room(rows, columns)
        known_rows, known_columns = self._size
        if rows <= known_rows and columns <= known_columns:
            return
        self._size = (
            known_rows if rows <= known_rows else max(rows, 2 * known_rows),
            known_columns if columns <= known_columns else columns + ROOM,
        )
        for buffers in (self.keys, self.values):
            for layer, old in enumerate(buffers):
                buffers[layer] = old.new_zeros(self._size[0], old.shape[1], self._size[1], old.shape[3])
                buffers[layer][:known_rows, :, :known_columns] = old
        if self.graphs:
            self.graphs.forget()

    def _copy(self, source: int, target: int, length: int) -> None:
        for buffers in (self.keys, self.values):
            for buffer in buffers:
                buffer[target, :, :length] = buffer[source, :, :length]

    def _run(self, step: Step, kept: int) -> Tensor:
        """[rows, kept, vocabulary] logits after the last tokens of each row."""
        output: Tensor = self.model(
            input_ids=step.ids,
            attention_mask=self._masks(step),
            position_ids=step.positions,
            past_key_values=Buffered(self, step),
            use_cache=True,
            logits_to_keep=kept,
        ).logits
        return output

    def _masks(self, step: Step) -> Tensor | dict[str, Tensor]:
        """Additive, since not every attention takes another; one a kind of layer where a model has several."""
        least = torch.finfo(self.model.dtype).min
        full = torch.zeros(step.mask.shape, dtype=self.model.dtype, device=self.device)
        full.masked_fill_(~step.mask, least)
        if SLIDING not in self.kinds:
            return full
        # a position in the buffer is a position in the context, but for the new tokens, which are all within reach
        distance = step.positions[:, None, :, None] - torch.arange(step.width, device=self.device)
        near = full.masked_fill(distance >= self.window, least)
        return {kind: near if kind == SLIDING else full for kind in self.kinds}


class Buffered(Cache):
    """What a model of transformers takes for its cache during one step."""

    def __init__(self, contexts: Contexts, step: Step) -> None:
        super().__init__(layers=[])
        self.contexts, self.step = contexts, step

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        return self.contexts._write(layer_idx, self.step, key_states, value_states)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.step.width - self.step.ids.shape[1]
