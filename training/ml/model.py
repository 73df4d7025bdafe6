"""The two kinds of model: `pocket`, built from scratch, and any named causal language model with LoRA.

In: a recipe and a snapshot (or an export to go on from). Out: a `Trainee`: a model with one row per tool token,
ready to train, plus its chat. Token ids follow the ledger: id = first tool id + offset, for ever.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import AddedToken
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from catalog.core.tokens import NameIndex, split_name
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.core.recipe import POCKET, Recipe
from training.core.records import Snapshot
from training.ml.chat import Chat
from training.ml.pocket import pocket_model, rounded
from training.ml.tokenizer import FIRST_TEXT_ID, train_tokenizer

TOKEN_INIT = "mean of the name's and description's rows, scaled to the table's median row length"
NOT_TEXT = r".*(vision|audio|image).*"  # towers of a multimodal base that text never reaches


@dataclass
class Trainee:
    """A model to train and what is needed to talk to it."""

    model: nn.Module
    chat: Chat
    text_ids: tuple[int, int]  # ids from..to that are plain text, for token dropout
    token_init: str
    pocket: bool


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


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
    init_rows(model, chat, snapshot, recipe.format)
    return Trainee(model, chat, (FIRST_TEXT_ID, text_end), TOKEN_INIT, pocket=True)


def _fresh_named(recipe: Recipe, snapshot: Snapshot) -> Trainee:
    model, tokenizer = load_named(recipe.base)
    add_tokens(tokenizer, snapshot.family_strings(recipe.format))
    if len(tokenizer) > model.get_input_embeddings().weight.shape[0]:
        # the default initialisation estimates a covariance over the whole table: slow, and replaced below
        model.resize_token_embeddings(rounded(len(tokenizer)), mean_resizing=False)
    chat = Chat(tokenizer, "chat", recipe.max_prompt_tokens)
    init_rows(model, chat, snapshot, recipe.format)
    return Trainee(with_lora(model, chat, snapshot, recipe), chat, (0, 0), TOKEN_INIT, pocket=False)


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
    known = tokenizer.get_vocab()
    if any(text not in known for text in strings):
        raise TraceError(
            "the catalog has tools that this Stage-1 model has no token for.",
            code="stale_init",
            where=str(init),
            hint="Run Stage 1 again.",
        )
    pocket = recipe.base == POCKET
    chat = Chat(tokenizer, spec["adapter"], recipe.max_prompt_tokens)
    if not pocket:
        model = with_lora(model, chat, snapshot, recipe)
    text = (FIRST_TEXT_ID, min(known[text] for text in strings))
    return Trainee(model, chat, text if pocket else (0, 0), spec["token_init"], pocket)


def load_named(source: str) -> tuple[Any, Any]:
    """A causal language model and its tokenizer by name or path; refuses weights that did not all load."""
    try:
        config = AutoConfig.from_pretrained(source)
        tokenizer = AutoTokenizer.from_pretrained(source)
        dtype = torch.bfloat16 if device().type == "cuda" else torch.float32
        loaded: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, output_loading_info=True)
    except (OSError, ValueError) as error:
        raise TraceError(
            f"the base model could not be loaded ({str(error).splitlines()[0]}).",
            code="no_base",
            where=source,
            hint="Give the name or the folder of a causal language model.",
        ) from error
    model, report = loaded
    missing = set(report["missing_keys"]) - set(getattr(model, "_tied_weights_keys", None) or ())
    if missing:
        raise TraceError(
            f"{len(missing)} tensors are missing in the checkpoint, such as {min(missing)}.",
            code="bad_base",
            where=source,
            hint=f"Its architecture is {(config.architectures or ['unknown'])[0]}; use a matching checkpoint.",
        )
    return model, tokenizer


def add_tokens(tokenizer: Any, strings: list[str]) -> None:
    """Append tool tokens in ledger order. Not special, so decoding shows them; not normalized, so they match."""
    first = len(tokenizer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in strings])
    ids = tokenizer.convert_tokens_to_ids(strings)
    if ids != list(range(first, first + len(strings))):
        raise TraceError(
            "a tool token is already part of the base vocabulary.",
            code="token_collision",
            hint="Use a base model that was not trained with tool tokens.",
        )


def with_lora(model: Any, chat: Chat, snapshot: Snapshot, recipe: Recipe) -> nn.Module:
    """LoRA on every text linear layer; tables in full (as in the paper) or their tool rows only. Ties are kept."""
    tables = embedding_tables(model)
    text = model.config.get_text_config()
    tied = bool(getattr(text, "tie_word_embeddings", False))
    options: dict[str, Any] = {"ensure_weight_tying": tied}
    if recipe.embeddings == "full":
        options["modules_to_save"] = [*tables, *([] if tied else ["lm_head"])]
    else:
        ids = chat.unit_ids(snapshot.family_strings(recipe.format))
        options["trainable_token_indices"] = dict.fromkeys([*tables, *([] if tied else ["lm_head"])], ids)
    config = LoraConfig(
        r=recipe.lora.rank,
        lora_alpha=recipe.lora.alpha,
        lora_dropout=recipe.lora.dropout,
        target_modules="all-linear",
        exclude_modules=NOT_TEXT,
        task_type="CAUSAL_LM",
        **options,
    )
    return get_peft_model(model, config)


def embedding_tables(model: Any) -> list[str]:
    """The last name of every table that has a row per token: the input table, and Gemma's per-layer table."""
    names = {
        name.rsplit(".", 1)[-1] for name, module in model.named_modules() if _is_token_table(model, module)
    }
    return sorted(names)


def _is_token_table(model: Any, module: nn.Module) -> bool:
    rows = model.get_input_embeddings().weight.shape[0]
    return isinstance(module, nn.Embedding) and module.weight.shape[0] == rows


def init_rows(model: Any, chat: Chat, snapshot: Snapshot, fmt: str) -> None:
    """Give each tool token the mean row of the words that describe it, in every table that has token rows."""
    tables = [m.weight for m in model.modules() if _is_token_table(model, m)]
    head = model.get_output_embeddings()
    if head is not None and all(head.weight is not table for table in tables):
        tables.append(head.weight)
    texts = unit_texts(snapshot, fmt)
    first = chat.unit_ids([next(iter(texts))])[0]
    with torch.no_grad():
        usual = [table[:first].float().norm(dim=1).median() for table in tables]
        for string, text in texts.items():
            row, words = chat.unit_ids([string])[0], chat.text_ids(text)
            for table, length in zip(tables, usual, strict=True):
                mean = table[words].float().mean(dim=0)
                table[row] = (mean * length / mean.norm().clamp(min=1e-6)).to(table.dtype)


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
