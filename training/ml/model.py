"""The two kinds of model: `pocket`, built from scratch, and any named causal language model with LoRA.

In: a recipe and a snapshot (or an export to go on from). Out: a `Trainee`: a model with one row per tool token,
ready to train, plus its chat. Token ids follow the ledger: id = first tool id + offset, for ever.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.core.recipe import POCKET, Recipe
from training.core.records import Snapshot
from training.ml.adapters import prepare, template_markers
from training.ml.bases import (
    NOT_TEXT,
    add_tokens,
    append_tokens,
    base_licence,
    device,
    grow_tables,
    has_towers,
    load_named,
    token_tables,
)
from training.ml.chat import Chat, chat_of
from training.ml.initial import METHODS, init_rows
from training.ml.pocket import pocket_model
from training.ml.rows import split_rows
from training.ml.tokenizer import FIRST_TEXT_ID, train_tokenizer

__all__ = ["Trainee", "add_tokens", "build", "device", "load_named", "with_lora"]


@dataclass
class Trainee:
    """A model to train and what is needed to talk to it."""

    model: nn.Module
    chat: Chat
    text_ids: tuple[int, int]  # ids from..to that are plain text, for token dropout
    token_init: str  # how the token rows were first set
    pocket: bool
    source: str = ""  # the base's name or folder, or the export gone on from; "" when it was made here
    licence: str = "none: made from scratch"  # the base's, as far as it says
    stages: list[dict[str, Any]] = field(default_factory=list)  # facts of the stages already trained
    grown: int = 0  # tool tokens that the ledger gained since that export


def build(recipe: Recipe, snapshot: Snapshot, init: Path | None = None) -> Trainee:
    """A fresh base with token rows, or the Stage-1 export `init` to go on from."""
    torch.manual_seed(recipe.seed)
    if init:
        return _from_export(recipe, snapshot, init)
    if recipe.base == POCKET:
        return _fresh_pocket(recipe, snapshot)
    return _fresh_named(recipe, snapshot)


def _fresh_pocket(recipe: Recipe, snapshot: Snapshot) -> Trainee:
    tokenizer = train_tokenizer(snapshot, recipe.pocket.vocab, recipe.pocket.lowercase)
    text_end = len(tokenizer)
    add_tokens(tokenizer, snapshot.family_strings(recipe.format))
    chat = Chat(tokenizer, "pocket", recipe.max_prompt_tokens)
    model = pocket_model(recipe, tokenizer)
    init_rows(model, chat, snapshot, recipe)
    return Trainee(model, chat, (FIRST_TEXT_ID, text_end), METHODS[recipe.token_init], pocket=True)


def _fresh_named(recipe: Recipe, snapshot: Snapshot) -> Trainee:
    model, tokenizer = load_named(recipe.base)
    added = prepare(tokenizer)
    add_tokens(tokenizer, snapshot.family_strings(recipe.format))
    grow_tables(model, len(tokenizer))
    chat = Chat(tokenizer, "chat", recipe.max_prompt_tokens, template_markers(tokenizer, added))
    init_rows(model, chat, snapshot, recipe)
    model = in_fp32(with_lora(model, chat, snapshot, recipe))
    return Trainee(
        model,
        chat,
        (0, 0),
        METHODS[recipe.token_init],
        pocket=False,
        source=recipe.base,
        licence=base_licence(recipe.base),
    )


def _from_export(recipe: Recipe, snapshot: Snapshot, init: Path) -> Trainee:
    spec = read_json(init / "trace.json")
    if (spec["format"], spec["base"]) != (recipe.format, recipe.base):
        raise TraceError(
            f"it holds format {spec['format']} on {spec['base']}, the recipe asks for"
            f" format {recipe.format} on {recipe.base}.",
            code="wrong_init",
            where=str(init),
            hint="Train Stage 1 with the same format and base first.",
        )
    model, tokenizer = load_named(str(init))
    strings = snapshot.family_strings(recipe.format)
    fresh = append_tokens(tokenizer, strings, str(init))
    pocket = recipe.base == POCKET
    chat = chat_of(spec, tokenizer, recipe.max_prompt_tokens)
    if fresh:
        grow_tables(model, len(tokenizer))
        init_rows(model, chat, snapshot, recipe, fresh)
    if not pocket:
        model = in_fp32(with_lora(model, chat, snapshot, recipe))
    text = (FIRST_TEXT_ID, min(chat.unit_ids(strings)))
    return Trainee(
        model,
        chat,
        text if pocket else (0, 0),
        spec["token_init"],
        pocket,
        source=str(init),
        licence=spec.get("licence", Trainee.licence),
        stages=list(spec.get("stages", [])),
        grown=len(fresh),
    )


def with_lora(model: Any, chat: Chat, snapshot: Snapshot, recipe: Recipe) -> nn.Module:
    """LoRA on every text linear layer; tables in full (as in the paper) or their tool rows only. Ties are kept."""
    tables = embedding_tables(model)
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
    return wrapped


def in_fp32(model: nn.Module) -> nn.Module:
    """What trains is kept in fp32: in bf16 most steps of a small learning rate would round to nothing."""
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    return model


def embedding_tables(model: Any) -> list[str]:
    """The last name of every table that has a row per token, as PEFT wants them named."""
    return sorted({name.rsplit(".", 1)[-1] for name in token_tables(model)})
