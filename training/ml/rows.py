"""`embeddings: new_rows`: token tables whose tool rows train while all other rows stay as they are, byte for byte.

In: a causal language model, plain or wrapped by PEFT, and the ids of its tool tokens. Out: the same model, every
table with a row per token (input, output, Gemma's per-layer one) frozen, with its tool rows in a parameter beside it.
A tied head shares that parameter. `merge_rows` writes the rows back and restores the original modules.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trace_site.lib.errors import TraceError
from training.ml.bases.named import token_tables, without_adapters
from training.ml.head import Part


class SplitEmbedding(nn.Module):
    """An embedding whose rows first..first+n come from a parameter of their own; its scale is kept."""

    def __init__(self, table: nn.Embedding, rows: nn.Parameter, first: int) -> None:
        super().__init__()
        self.table, self.rows, self.first = table, rows, first

    @property
    def weight(self) -> Tensor:
        """The frozen table, for its shape and its text rows: the tool rows in it are those of before training."""
        return self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        embedded = self.table(ids)
        new = (ids >= self.first) & (ids < self.first + len(self.rows))
        # float32 rows are rounded as the export rounds them
        found = functional.embedding(ids[new] - self.first, self.rows).to(self.table.weight.dtype)
        return embedded.index_put((new,), self.scaled(found).to(embedded.dtype))

    def scaled(self, found: Tensor) -> Tensor:
        """Gemma multiplies what it looks up, by a number rounded to the table's dtype."""
        scale = getattr(self.table, "embed_scale", None)
        return found if scale is None else found * torch.as_tensor(scale, device=found.device).to(found.dtype)


class SplitHead(nn.Module):
    """An output head whose rows first..first+n come from a parameter of their own."""

    def __init__(self, table: nn.Linear, rows: nn.Parameter, first: int) -> None:
        super().__init__()
        self.table, self.rows, self.first = table, rows, first

    @property
    def weight(self) -> Tensor:
        """The frozen table, see `SplitEmbedding.weight`."""
        return self.table.weight

    def parts(self) -> tuple[Part, ...]:
        """The rows of the head in order: frozen, trained, frozen."""
        weight, bias, end = self.table.weight, self.table.bias, self.first + len(self.rows)
        cuts = (slice(0, self.first), slice(self.first, end), slice(end, len(weight)))
        pieces = (weight[cuts[0]], self.rows, weight[cuts[2]])
        found = [Part(w, None if bias is None else bias[cut]) for w, cut in zip(pieces, cuts, strict=True)]
        return tuple(part for part in found if len(part.weight))

    def forward(self, hidden: Tensor) -> Tensor:
        pieces = [
            functional.linear(hidden, part.weight.to(self.table.weight.dtype), part.bias)
            for part in self.parts()
        ]
        return torch.cat(pieces, dim=-1)


def split_rows(model: Any, ids: list[int]) -> None:
    """Replace every token table in place; call it after PEFT has wrapped the model, so that it leaves them alone."""
    first = min(ids)
    if sorted(ids) != list(range(first, first + len(ids))):
        problem = "the tool tokens do not follow one another in the vocabulary."
        raise TraceError(problem, code="scattered_rows", hint="Train with embeddings: full.")
    rows: dict[int, nn.Parameter] = {}  # by the identity of the table's weight: what is tied stays tied
    base = without_adapters(model)
    head = base.get_output_embeddings()
    tables = {
        **token_tables(base),
        **{name: module for name, module in base.named_modules() if module is head},
    }
    for name, table in tables.items():
        weight = table.weight
        if id(weight) not in rows:
            # float32, because AdamW's small steps vanish in bfloat16
            start = (
                weight[first : first + len(ids)].detach().to(torch.promote_types(weight.dtype, torch.float32))
            )
            rows[id(weight)] = nn.Parameter(start.clone())
        table.requires_grad_(False)
        kind = SplitHead if table is head else SplitEmbedding
        split = kind(table, rows[id(weight)], first)
        if isinstance(split, SplitEmbedding):
            _require_known_scale(split, name)
        base.set_submodule(name, split)


@torch.no_grad()
def _require_known_scale(split: SplitEmbedding, name: str) -> None:
    first = torch.tensor([split.first], device=split.rows.device)
    if not torch.equal(split(first), split.table(first)):
        problem = "this base changes the rows it looks up in a way that is not known here."
        raise TraceError(problem, code="unknown_table", where=name, hint="Train with embeddings: full.")


@torch.no_grad()
def merge_rows(model: Any) -> None:
    """Write trained rows into their tables and put the original modules back; nothing to do in other models."""
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if isinstance(module, SplitEmbedding | SplitHead):
                end = module.first + len(module.rows)
                module.table.weight[module.first : end] = module.rows.to(module.table.weight.dtype)
                setattr(parent, name, module.table)
