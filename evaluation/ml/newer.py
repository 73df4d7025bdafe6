"""Tools that came to the catalog after a pocket model was trained, held by what its encoder reads of them.

In: an export and tools {"name", "description", "domain", "permissions"}. Out: an export that answers with them too. A
request scores with them by an untrained encoder of the same kind, see pocket.Held, as long as training has made the
rows of the others; what else reads their tokens gets the rows that training would begin with.

Why an untrained one, and what it finds: docs/decisions.md, "Newer tools are answered untrained".
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import nn

from catalog.core.tokens import NameIndex, tool_units
from catalog.ml.encoder import DEFAULT_ENCODER
from evaluation.ml import trie
from evaluation.ml.export import Export
from evaluation.ml.packed import linear
from evaluation.ml.pocket import Held
from training.core.recipe import Recipe
from training.core.stages import ENCODERS
from training.ml.bases.chat import load_chat
from training.ml.bases.encoders import embed, load_encoder
from training.ml.bases.model import encoded_rows, token_texts
from training.ml.bases.named import add_tokens
from training.ml.bases.pocket import PocketConfig

EXACT = Recipe(bf16=False)  # as the engine computes


@torch.inference_mode()
def with_newer(export: Export, tools: Sequence[Mapping[str, Any]]) -> Export:
    """The export itself where it knows all of them, or has no encoder to read them with."""
    fresh = [tool for tool in tools if tool["name"] not in export.numbers]
    if not fresh or getattr(export.model.config, "model_type", "") != PocketConfig.model_type:
        return export
    fmt, table = export.spec["format"], export.model.get_input_embeddings().weight
    chat, _ = load_chat(export.folder)
    units = {tool["name"]: tool_units(tool["name"], fmt) for tool in fresh}
    vocabulary = chat.tokenizer.get_vocab()
    add_tokens(
        chat.tokenizer, [text for text in dict.fromkeys(chain(*units.values())) if text not in vocabulary]
    )
    texts = {
        # the token of a tool that was retired when the model was trained stands for nothing there
        string: own
        for string, own in token_texts(fresh, fmt).items()
        if chat.unit_ids([string])[0] not in export.unit_ids
    }

    untrained = _untrained(export)
    began, rows = (
        encoded_rows(texts, lambda own, model=model: embed(model, chat, EXACT, own).to(table))[0]  # type: ignore[misc]
        for model in (export.model, untrained)
    )
    ids = chat.unit_ids(list(texts))
    usual = table[sorted(export.unit_ids)].norm(dim=1).median()
    together = sorted(
        [*export.spec["tools"], *({**tool, "ids": chat.unit_ids(units[tool["name"]])} for tool in fresh)],
        key=lambda tool: str(tool["name"]),
    )
    names = [tool["name"] for tool in together]
    spec = {**export.spec, "tools": together}
    numbers = frozenset(names.index(tool["name"]) for tool in fresh)
    made = replace(
        export,
        model=_with_rows(export.model, ids, began, len(chat.tokenizer)),
        chat=chat,
        spec=spec,
        names=names,
        index=NameIndex(names, fmt),
        root=trie.build([tool["ids"] for tool in together]),
        masks={},
        held=Held(numbers, ids, usual.float() * rows.float(), untrained.model),
    )
    made.__dict__["decoder"] = export.decoder  # the same layers, laid out once
    return made


def _untrained(export: Export) -> Any:
    """The model around the encoder it was made with; itself where that one is not here."""
    if export.spec.get("encoder") != ENCODERS[DEFAULT_ENCODER]:
        return export.model
    encoder, _ = load_encoder(EXACT)
    made = _shallow(export.model)
    made.model = _shallow(export.model.model)
    made.model.encoder = encoder.to(export.model.device, export.model.dtype).eval()
    return made


def _with_rows(model: Any, ids: Sequence[int], rows: torch.Tensor, size: int) -> Any:
    """The same model with these rows in its table, which has at least `size`. The decoder is still shown the nearest of
    the tools that it knows."""
    table = model.get_input_embeddings().weight
    weight = torch.cat([table, table.new_zeros(max(0, size - len(table)), table.shape[1])])
    weight[list(ids)] = rows
    made = _shallow(model)
    made.model = _shallow(model.model)
    made.model.embed_tokens = nn.Embedding.from_pretrained(weight)
    made.lm_head = linear(weight)
    return made


def _shallow(module: Any) -> Any:
    """Another module of the same parts, which can be exchanged without the first one knowing."""
    made = copy(module)
    made.__dict__["_modules"] = dict(module._modules)
    return made
