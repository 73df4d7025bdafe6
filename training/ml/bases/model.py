"""The two kinds of model: `pocket`, built around a sentence encoder, and any named causal language model with LoRA.

In: a recipe and a snapshot (or an export to go on from). Out: a `Trainee`: a model with one row per tool token, ready
to train. Token ids follow the ledger: id = first tool id + offset, for ever.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional

from catalog.core.tokens import NameIndex, part_token, split_name
from trace_site.lib.files import read_json
from training.core.recipe import POCKET, Recipe
from training.core.records import Snapshot
from training.ml.bases.adapters import WORDS, prepare, template_markers
from training.ml.bases.chat import Chat, chat_of
from training.ml.bases.encoders import Progress
from training.ml.bases.named import (
    NOT_TEXT,
    add_tokens,
    append_tokens,
    base_licence,
    grow_tables,
    has_towers,
    load_named,
    token_tables,
)
from training.ml.deciding import build_pocket
from training.ml.language import LanguageTrainee
from training.ml.rows import split_rows
from training.ml.trainee import Trainee

# The first values of the tool tokens' rows, in every table that has a row per token.
#
# In: a model with room for the tokens, a snapshot, a method. Out: rows set in place: from the words a token stands for
# (`description`), or random ones that carry no words (`opaque`, the control). Rows of no active tool get the table's
# mean row, whose logit is the mean of all and therefore never the largest.
#
# A described row lies halfway between that row and the mean of its words, in whatever table: a mean of rows stays in
# their convex hull, where no logit exceeds the likeliest word's (Hewitt 2021, "Initializing New Word Embeddings for
# Pretrained Language Models"; Mundra et al. 2024, "An Empirical Comparison of Vocabulary Expansion ..."). A longer one
# leaves it: where logits are positive, the mean of 36 words, as long as a usual row, beats every word of a tied table.
# And the words alone share the direction of the commonest ones, after which a model reads badly. SmolLM2-135M-Instruct,
# 215 tools, loss of the words of six traces: 4.1 with names spelled out, 45.0 with the mean of the words as long as a
# usual row, 6.4 with that mean, even where only words can be chosen, 4.4 with the mean row, 4.3 halfway.

SAMPLED = 16_384  # rows from which the mean of a table is taken


def init_rows(model: nn.Module, chat: Chat, snapshot: Snapshot, recipe: Recipe, new: Sequence[str]) -> None:
    """Of the tokens that are new to the model set the rows of active ones by the recipe's method, and all others to the
    mean row."""
    words_of = WORDS | unit_texts(snapshot, recipe.format)
    texts = {string: words_of[string] for string in new if string in words_of}
    rows = torch.tensor(chat.unit_ids(list(texts)), dtype=torch.long)
    first = min(chat.unit_ids(new))
    words = [chat.text_ids(text) for text in texts.values()]
    chance = torch.Generator().manual_seed(recipe.seed)
    with torch.no_grad():
        for table in row_tables(model):
            mean = table[: first : max(1, first // SAMPLED)].float().mean(dim=0)
            table[first:] = mean.to(table.dtype)
            if not words:
                continue  # the ledger grew by tools that are gone again
            apart = (_mean_rows(table, words) - mean) / 2
            if recipe.token_init == "opaque":
                usual = apart.norm(dim=1).mean()
                random = torch.randn(apart.shape, generator=chance).to(table.device)
                apart = functional.normalize(random, dim=1) * usual
            table[rows] = (mean + apart).to(table.dtype)


def row_tables(model: nn.Module) -> list[torch.Tensor]:
    """The weights of every table with token rows; a head of its own counts as one."""
    tables: list[torch.Tensor] = [module.weight for module in token_tables(model).values()]
    head = model.get_output_embeddings()  # type: ignore[operator]
    if head is not None and all(head.weight is not table for table in tables):
        tables.append(head.weight)
    return tables


def _mean_rows(table: torch.Tensor, words: Sequence[Sequence[int]]) -> torch.Tensor:
    """fp32 [texts, width]: the mean row of each text's words."""
    flat = torch.tensor([number for text in words for number in text], dtype=torch.long)
    used, places = flat.unique(return_inverse=True)
    offsets = torch.tensor([0, *accumulate(len(text) for text in words[:-1])])
    return functional.embedding_bag(places, table[used].float(), offsets, mode="mean")


def unit_texts(snapshot: Snapshot, fmt: str) -> dict[str, str]:
    """For each active token string the words it stands for."""
    texts: defaultdict[str, list[str]] = defaultdict(list)
    index = NameIndex((tool["name"] for tool in snapshot.tools), fmt)
    for tool in snapshot.tools:
        name, api, endpoint = tool["name"], *split_name(tool["name"])
        about = f"{name} {tool['description']}"
        named = {part_token(api): api, part_token(endpoint): f"{endpoint} {tool['description']}"}
        for string in index.units[name]:
            texts[string].append(named.get(string, about))
    return {string: " ".join(parts[:8]) for string, parts in sorted(texts.items())}


def build(
    recipe: Recipe, snapshot: Snapshot, init: Path | None = None, report: Progress = lambda *_: None
) -> Trainee[Any]:
    """A fresh base with token rows, or the export `init` to go on from."""
    torch.manual_seed(recipe.seed)
    if recipe.base == POCKET:
        return build_pocket(recipe, snapshot, init, report)
    return _build_named(recipe, snapshot, init)


def _build_named(recipe: Recipe, snapshot: Snapshot, init: Path | None) -> LanguageTrainee:
    strings, source = snapshot.family_strings(recipe.format), str(init or recipe.base)
    model, tokenizer = load_named(source)
    if init:
        spec = read_json(init / "trace.json")
        new = append_tokens(tokenizer, strings, source)
        chat = chat_of(spec, tokenizer, recipe.max_prompt_tokens)
        known = {"licence": spec["licence"], "stages": list(spec["stages"]), "grown": len(new)}
    else:
        added = prepare(tokenizer)
        add_tokens(tokenizer, strings)
        new = [*added, *strings]
        chat = Chat(tokenizer, recipe.max_prompt_tokens, template_markers(tokenizer, added))
        known = {"licence": base_licence(source)}
    if new:
        grow_tables(model, len(tokenizer))
        init_rows(model, chat, snapshot, recipe, new)
    return LanguageTrainee(model=with_lora(model, chat, snapshot, recipe), chat=chat, source=source, **known)


def with_lora(model: Any, chat: Chat, snapshot: Snapshot, recipe: Recipe) -> nn.Module:
    """LoRA on every text linear layer; tables in full (as in the paper) or their tool rows only. Ties are kept."""
    tables = sorted({name.rsplit(".", 1)[-1] for name in token_tables(model)})  # as PEFT wants them named
    text = model.config.get_text_config()
    tied = bool(getattr(text, "tie_word_embeddings", False))
    options: dict[str, Any] = {}
    if recipe.embeddings == "full":
        options["ensure_weight_tying"] = tied
        options["modules_to_save"] = [*tables, *([] if tied else ["lm_head"])]
    config = LoraConfig(
        r=recipe.lora.rank,
        lora_alpha=recipe.lora.alpha,
        lora_dropout=recipe.lora.dropout,
        target_modules="all-linear",
        exclude_modules=NOT_TEXT if has_towers(model) else None,
        task_type="CAUSAL_LM",
        **options,
    )
    wrapped = get_peft_model(model, config)
    if recipe.embeddings == "new_rows":
        strings = [*chat.markers.added, *snapshot.family_strings(recipe.format)]
        split_rows(wrapped, chat.unit_ids(strings))
    # what trains is kept in fp32: in bf16 most steps of a small learning rate would round to nothing
    for weight in wrapped.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    return wrapped
