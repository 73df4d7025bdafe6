"""The two kinds of model: `pocket`, built around a sentence encoder, and any named causal language model with LoRA.

In: a recipe and a snapshot (or an export to go on from). Out: a `Trainee`: a model with one row per tool token,
ready to train, plus its chat. Token ids follow the ledger: id = first tool id + offset, for ever.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional

from catalog.core.tokens import NameIndex, split_name
from catalog.core.tool import embedding_text
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.core.recipe import POCKET, Recipe
from training.core.records import Snapshot
from training.core.stages import encoder_digest
from training.ml.bases.adapters import WORDS, prepare, template_markers
from training.ml.bases.chat import Chat, chat_of
from training.ml.bases.encoders import Make, Progress, embed, kept, load_encoder
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
from training.ml.bases.pocket import pocket_model, writer_tokenizer
from training.ml.rows import split_rows

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

METHODS = {
    "description": "description: halfway from the table's mean row to the mean of the name's and description's rows",
    "opaque": "opaque: random directions from the table's mean row, as far as described rows lie from it on average",
}
POCKET_METHODS = {
    "description": "description: the encoder's embeddings of name and description, length 1",
    "opaque": "opaque: random directions of length 1, which carry no words",
}
SAMPLED = 16_384  # rows from which the mean of a table is taken
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
    owners = token_texts(snapshot.tools, recipe.format)
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
        named = {string: owners[string] for string in new if string in owners}

        def read(texts: Sequence[str]) -> torch.Tensor:
            return kept(cache, recipe, chat, texts, lambda own: embed(model, chat, recipe, own, report))

        rows, usual = encoded_rows(named, read)
        table[first:] = usual.to(table)
        table[torch.tensor(chat.unit_ids(list(named)))] = rows.to(table)


def encoded_rows(texts: Mapping[str, Sequence[str]], read: Make) -> tuple[torch.Tensor, torch.Tensor]:
    """fp32 [strings, width], length 1: the mean of what the encoder reads of the texts of each; and the mean of all
    texts, [width]."""
    every = sorted({text for own in texts.values() for text in own})
    made, place = read(every), {text: number for number, text in enumerate(every)}
    means = torch.stack([made[[place[text] for text in own]].mean(dim=0) for own in texts.values()])
    return functional.normalize(means, dim=1), made.mean(dim=0)


def token_texts(tools: Sequence[Mapping[str, Any]], fmt: str) -> dict[str, list[str]]:
    """For each token string the texts of the tools it stands for."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    index = NameIndex((tool["name"] for tool in tools), fmt)
    for tool in tools:
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


@dataclass
class Trainee:
    """A model to train and what is needed to talk to it."""

    model: nn.Module
    chat: Chat
    first_tool: int  # id of the first tool token
    token_init: str  # how the token rows were first set
    pocket: bool
    source: str = ""  # the base's name or folder, or the export gone on from; "" when it was made here
    licence: str = "not stated"  # the base's, as far as it says
    letters: str = ""  # the half of the tools it learned letters on, as a rule in words; "": it did not
    stages: list[dict[str, Any]] = field(default_factory=list)  # facts of the stages already trained
    grown: int = 0  # tool tokens that the ledger gained since that export


def build(
    recipe: Recipe,
    snapshot: Snapshot,
    init: Path | None = None,
    cache: Path | None = None,
    report: Progress = lambda *_: None,
) -> Trainee:
    """A fresh base with token rows, or the Stage-1 export `init` to go on from. `cache`: of read descriptions."""
    torch.manual_seed(recipe.seed)
    if init:
        return _from_export(recipe, snapshot, init, report)
    if recipe.base == POCKET:
        return _fresh_pocket(recipe, snapshot, cache, report)
    return _fresh_named(recipe, snapshot)


@torch.no_grad()
def take_decoder(trainee: Trainee, export: Path) -> None:
    """Put the decoder of another pocket export in place of the trainee's: its layers, its gate, and the rows of the
    pieces it writes with, which depend on no snapshot. Encoder and tool rows stay the trainee's own."""
    other, _ = load_named(str(export))
    base: Any = trainee.model.model
    theirs: Any = other.model
    words = slice(0, trainee.first_tool)
    same = isinstance(theirs, type(base)) and len(theirs.embed_tokens.weight) >= trainee.first_tool
    try:
        if not same:
            raise ValueError("another architecture")
        base.writer.load_state_dict(theirs.writer.state_dict())
        base.gate.load_state_dict(theirs.gate.state_dict())
    except (ValueError, RuntimeError) as error:  # RuntimeError: torch's word for other shapes
        hint = "Leave decoder_from empty: the pass then begins with the decoder of its plain pass."
        problem = "its decoder has another shape than the recipe asks for."
        raise TraceError(problem, code="wrong_init", where=str(export), hint=hint) from error
    base.scale.copy_(theirs.scale)
    base.embed_tokens.weight[words] = theirs.embed_tokens.weight[words]


def _fresh_pocket(recipe: Recipe, snapshot: Snapshot, cache: Path | None, report: Progress) -> Trainee:
    encoder, words = load_encoder(recipe)
    tokenizer = writer_tokenizer(words, recipe.pocket.vocab)
    add_tokens(tokenizer, snapshot.family_strings(recipe.format))
    # an encoder reads no further than its positions reach
    longest = min(recipe.max_prompt_tokens, int(encoder.config.max_position_embeddings))
    chat = Chat(tokenizer, "pocket", longest, encoder_words=words)
    model = pocket_model(recipe, encoder, chat)
    init_pocket_rows(model, chat, snapshot, recipe, cache, report)
    licence = base_licence(str(encoder.name_or_path))
    first = split_tool_rows(model, chat, snapshot, recipe)
    return Trainee(model, chat, first, POCKET_METHODS[recipe.token_init], pocket=True, licence=licence)


def split_tool_rows(model: Any, chat: Chat, snapshot: Snapshot, recipe: Recipe) -> int:
    """The rows of the pocket model's tool tokens as a parameter of their own, since they move at their own rate; the
    id of the first."""
    ids = chat.unit_ids(snapshot.family_strings(recipe.format))
    model.config.tools = [ids[0], len(ids)]
    split_rows(model, ids, frozen=False)
    return min(ids)


def _fresh_named(recipe: Recipe, snapshot: Snapshot) -> Trainee:
    model, tokenizer = load_named(recipe.base)
    added = prepare(tokenizer)
    add_tokens(tokenizer, snapshot.family_strings(recipe.format))
    grow_tables(model, len(tokenizer))
    chat = Chat(tokenizer, "chat", recipe.max_prompt_tokens, template_markers(tokenizer, added))
    init_rows(model, chat, snapshot, recipe)
    model = with_lora(model, chat, snapshot, recipe)
    first, about = min(chat.unit_ids(snapshot.family_strings(recipe.format))), METHODS[recipe.token_init]
    licence = base_licence(recipe.base)
    return Trainee(model, chat, first, about, pocket=False, source=recipe.base, licence=licence)


def _from_export(recipe: Recipe, snapshot: Snapshot, init: Path, report: Progress) -> Trainee:
    spec = read_json(init / "trace.json")
    if (spec["format"], spec["base"]) != (recipe.format, recipe.base):
        raise TraceError(
            f"it holds format {spec['format']} on {spec['base']}, the recipe asks for"
            f" format {recipe.format} on {recipe.base}.",
            code="wrong_init",
            where=str(init),
            hint="Train Stage 1 with the same format and base first.",
        )
    pocket = recipe.base == POCKET
    if pocket and spec.get("encoder") != encoder_digest(recipe.pocket.encoder):
        raise TraceError(
            "it was made around another encoder, or by an earlier version from random weights.",
            code="wrong_init",
            where=str(init),
            hint="Run Stage 1 again with this recipe.",
        )
    model, tokenizer = load_named(str(init))
    strings = snapshot.family_strings(recipe.format)
    fresh = append_tokens(tokenizer, strings, str(init))
    longest = min(recipe.max_prompt_tokens, spec["max_prompt_tokens"]) if pocket else recipe.max_prompt_tokens
    chat = chat_of(spec, tokenizer, init, longest)
    if fresh:
        grow_tables(model, len(tokenizer))
        if pocket:
            # no cache: this encoder has been trained, what is kept is of the untrained one
            init_pocket_rows(model, chat, snapshot, recipe, None, report, fresh)
        else:
            init_rows(model, chat, snapshot, recipe, fresh)
    if pocket:
        split_tool_rows(model, chat, snapshot, recipe)
    else:
        model = with_lora(model, chat, snapshot, recipe)
    return Trainee(
        model,
        chat,
        min(chat.unit_ids(strings)),
        spec["token_init"],
        pocket,
        source=str(init),
        licence=spec.get("licence", Trainee.licence),
        letters=spec.get("letters", ""),
        stages=list(spec.get("stages", [])),
        grown=len(fresh),
    )


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
