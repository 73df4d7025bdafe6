"""The first values of the tool tokens' rows, in every table that has a row per token.

In: a model with room for the tokens, a snapshot, a method. Out: rows set in place: from the words a token stands for
(`description`), or random ones that carry no words (`opaque`, the control). Rows of no active tool get the table's
mean row, whose logit is the mean of all and therefore never the largest.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from catalog.core.tokens import NameIndex, split_name
from catalog.core.tool import embedding_text
from training.core.recipe import Recipe
from training.core.records import Snapshot
from training.ml.adapters import WORDS
from training.ml.bases import token_tables
from training.ml.chat import Chat
from training.ml.encoders import Progress, embed, kept

METHODS = {
    "description": "description: mean of the name's and description's rows, scaled to the table's median row length",
    "opaque": "opaque: random directions of the table's median row length, which carry no words",
}
POCKET_METHODS = {
    "description": "description: the encoder's embeddings of name and description, length 1",
    "opaque": "opaque: random directions of length 1, which carry no words",
}
SAMPLED = 16_384  # rows from which the mean and the median length of a table are taken
TEXTS_AT_ONCE = 512  # bounds the memory for the words' rows of a wide table


def init_rows(
    model: nn.Module, chat: Chat, snapshot: Snapshot, recipe: Recipe, fresh: Sequence[str] = ()
) -> None:
    """Set the row of every active token by the recipe's method, all other new rows to the mean row.

    `fresh`: the tokens that are new to a model trained before; the rows of all others stay.
    """
    new = fresh or [*chat.markers.added, *snapshot.family_strings(recipe.format)]
    words_of = WORDS | unit_texts(snapshot, recipe.format)
    texts = {string: words_of[string] for string in new if string in words_of}
    rows = torch.tensor(chat.unit_ids(list(texts)), dtype=torch.long)
    first = min(chat.unit_ids(new))
    words = [chat.text_ids(text) for text in texts.values()] if recipe.token_init == "description" else []
    chance = torch.Generator().manual_seed(recipe.seed)
    with torch.no_grad():
        for table in row_tables(model):
            known = table[: first : max(1, first // SAMPLED)].float()
            usual = known.norm(dim=1).median()
            table[first:] = known.mean(dim=0).to(table.dtype)
            if words:
                values = _mean_rows(table, words)
            else:
                values = torch.randn(len(rows), table.shape[1], generator=chance).to(table.device)
            length = values.norm(dim=1, keepdim=True).clamp(min=1e-6)
            table[rows] = (values * usual / length).to(table.dtype)


def init_pocket_rows(
    model: Any,
    chat: Chat,
    snapshot: Snapshot,
    recipe: Recipe,
    cache: Path | None,
    report: Progress,
    fresh: Sequence[str] = (),
) -> None:
    """The row of every tool token as its tools' embeddings (length 1), of all other new ones as the mean of these.

    So the untrained model ranks tools as the catalog's embeddings do. `fresh`: as in `init_rows`.
    """
    new = fresh or snapshot.family_strings(recipe.format)
    owners = _owners(snapshot, recipe.format)
    table = model.get_input_embeddings().weight
    first = min(chat.unit_ids(new))
    with torch.no_grad():
        if recipe.token_init == "opaque":
            chance = torch.Generator().manual_seed(recipe.seed)
            rows = functional.normalize(
                torch.randn(len(table) - first, table.shape[1], generator=chance), dim=1
            )
            table[first:] = rows.to(table)
            return
        named = [string for string in new if string in owners]
        tools = sorted({text for string in named for text in owners[string]})
        made = kept(cache, recipe, chat, tools, lambda texts: embed(model, chat, recipe, texts, report))
        place = {text: number for number, text in enumerate(tools)}
        means = torch.stack([made[[place[text] for text in owners[string]]].mean(dim=0) for string in named])
        table[first:] = made.mean(dim=0).to(table)
        table[torch.tensor(chat.unit_ids(named))] = functional.normalize(means, dim=1).to(table)


def _owners(snapshot: Snapshot, fmt: str) -> dict[str, list[str]]:
    """For each active token string the texts of the tools it stands for."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    index = NameIndex((tool["name"] for tool in snapshot.tools), fmt)
    for tool in snapshot.tools:
        units = index.units[tool["name"]]
        for string in units[1:-1] if len(units) == 4 else units:  # the wrapping tokens stand for every tool
            found[string].append(embedding_text(tool["name"], tool["description"]))
    return found


def row_tables(model: nn.Module) -> list[torch.Tensor]:
    """The weights of every table with token rows; a head of its own counts as one."""
    tables: list[torch.Tensor] = [module.weight for module in token_tables(model).values()]
    head = model.get_output_embeddings()  # type: ignore[operator]
    if head is not None and all(head.weight is not table for table in tables):
        tables.append(head.weight)
    return tables


def _mean_rows(table: torch.Tensor, words: Sequence[Sequence[int]]) -> torch.Tensor:
    """fp32 [texts, width]: the mean row of each text's words."""
    means: list[torch.Tensor] = []
    for start in range(0, len(words), TEXTS_AT_ONCE):
        part = words[start : start + TEXTS_AT_ONCE]
        flat = torch.tensor([number for text in part for number in text], dtype=torch.long)
        used, places = flat.unique(return_inverse=True)
        offsets = torch.tensor([0, *accumulate(len(text) for text in part[:-1])])
        means.append(functional.embedding_bag(places, table[used].float(), offsets, mode="mean"))
    return torch.cat(means)


def unit_texts(snapshot: Snapshot, fmt: str) -> dict[str, str]:
    """For each active token string the words it stands for."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    index = NameIndex((tool["name"] for tool in snapshot.tools), fmt)
    for tool in snapshot.tools:
        name, api, endpoint = tool["name"], *split_name(tool["name"])
        about = f"{name} {tool['description']}"
        named = {f"<<{api}>>": api, f"<<{endpoint}>>": f"{endpoint} {tool['description']}"}
        for string in index.units[name]:
            texts[string].append(named.get(string, about))
    return {string: " ".join(parts[:8]) for string, parts in sorted(texts.items())}
