"""Tools that came to the catalog after a pocket model was trained, held by what its encoder reads of them.

In: an export and tools {"name", "description", "domain", "permissions"}, some that it knows among them. Out: an export
that answers with the others too. Each of their tokens gets the row that training would begin it with; all other weights
are the export's own. Those it knows tell how far training has raised the scores of tools, see pocket.Held.
"""

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import nn

from catalog.core.tokens import NameIndex, tool_units
from catalog.core.tool import embedding_text
from evaluation.ml import trie
from evaluation.ml.export import Export
from evaluation.ml.packed import linear
from evaluation.ml.pocket import Held
from training.core.recipe import Recipe
from training.ml.bases.chat import load_chat
from training.ml.bases.encoders import embed
from training.ml.bases.model import encoded_rows, token_texts
from training.ml.bases.named import add_tokens
from training.ml.bases.pocket import PocketConfig

EXACT = Recipe(bf16=False)  # as the engine computes


@torch.inference_mode()
def with_newer(export: Export, tools: Sequence[Mapping[str, Any]]) -> Export:
    """The export itself where it knows all of them, or has no encoder to read them with."""
    fresh = [tool for tool in tools if tool["name"] not in export.numbers]
    known = [tool for tool in tools if tool["name"] in export.numbers]
    if not fresh or getattr(export.model.config, "model_type", "") != PocketConfig.model_type:
        return export
    fmt, table = export.spec["format"], export.model.get_input_embeddings().weight
    chat, _ = load_chat(export.folder)
    units = {tool["name"]: tool_units(tool["name"], fmt) for tool in fresh}
    vocabulary = chat.tokenizer.get_vocab()
    added = [string for string in dict.fromkeys(chain(*units.values())) if string not in vocabulary]
    add_tokens(chat.tokenizer, added)
    texts = {
        # the token of a tool that was retired when the model was trained stands for nothing there
        string: own
        for string, own in token_texts(fresh, fmt).items()
        if chat.unit_ids([string])[0] not in export.unit_ids
    }

    def read(own: Sequence[str]) -> torch.Tensor:
        return embed(export.model, chat, EXACT, own).to(table)

    rows, _ = encoded_rows(texts, read)
    ids = chat.unit_ids(list(texts))
    together = sorted(
        [*export.spec["tools"], *({**tool, "ids": chat.unit_ids(units[tool["name"]])} for tool in fresh)],
        key=lambda tool: str(tool["name"]),
    )
    names = [tool["name"] for tool in together]
    spec = {**export.spec, "tools": together}
    known_ids = [export.spec["tools"][export.numbers[tool["name"]]]["ids"] for tool in known]
    held = Held(
        tools=frozenset(names.index(tool["name"]) for tool in fresh),
        tokens=ids,
        trained=torch.stack([table[own].mean(dim=0) for own in known_ids]) if known else table[:0],
        read=read([embedding_text(tool["name"], tool["description"]) for tool in known]),
    )
    made = replace(
        export,
        model=_with_rows(export.model, ids, rows, len(added), len(chat.tokenizer)),
        chat=chat,
        spec=spec,
        names=names,
        index=NameIndex(names, fmt),
        root=trie.build([tool["ids"] for tool in together]),
        masks={},
        held=held,
    )
    made.__dict__["decoder"] = export.decoder  # the same layers, laid out once
    return made


def _with_rows(model: Any, ids: Sequence[int], rows: torch.Tensor, added: int, size: int) -> Any:
    """The same model with these rows in its table, which has at least `size`; `added`: tool tokens at its end."""
    table = model.get_input_embeddings().weight
    weight = torch.cat([table, table.new_zeros(max(0, size - len(table)), table.shape[1])])
    weight[list(ids)] = rows
    made = _shallow(model)
    made.model = _shallow(model.model)
    made.model.embed_tokens = nn.Embedding.from_pretrained(weight)
    made.lm_head = linear(weight)
    made.config = made.model.config = deepcopy(model.config)
    first, count = model.config.tools
    made.config.tools = [first, count + added]
    return made


def _shallow(module: Any) -> Any:
    """Another module of the same parts, which can be exchanged without the first one knowing."""
    made = copy(module)
    made.__dict__["_modules"] = dict(module._modules)
    return made
