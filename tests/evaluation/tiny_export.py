"""Tiny random models in export folders, as training leaves them: a language model, and a pocket model. Needs torch."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from catalog.core.tokens import telling_units, tool_units
from catalog.core.tool import embedding_text
from tests.training.small_encoder import COMMON, small_encoder
from trace_site.lib.files import sha256_file
from training.core.recipe import Pocket as Settings
from training.core.recipe import Recipe
from training.ml.bases.adapters import ASSISTANT, CLOSE, END, OPEN, PAD, USER
from training.ml.bases.encoders import embed, load_encoder
from training.ml.bases.pocket import Pocket, Reader, save

NAMES = [
    f"{api}/{end}" for api in ("PayV1", "PayV2", "Leave", "Tax") for end in ("Get", "List", "Create", "Drop")
]
PERMISSIONS = {"Tax/Get": ["tax"], "Tax/List": ["tax"], "Leave/Get": ["leave"]}
DEPRECATED = {"PayV1/List"}
MARKERS = {
    "before": USER,
    "after": ASSISTANT,
    "end": END,
    "open": OPEN,
    "close": CLOSE,
    "empty": OPEN + CLOSE,
    "added": [],
}


def tools() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "description": f"Handles the {name.split('/')[1].lower()} request of {name.split('/')[0]} records",
            "domain": "hr" if name.startswith("Leave") else "finance",
            "permissions": PERMISSIONS.get(name, []),
            "deprecated": name in DEPRECATED,
        }
        for name in NAMES
    ]


def tokenizer_of(strings: Sequence[str]) -> Any:
    """A byte-level tokenizer in which each marker is one token, and each of the strings."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=[PAD, END, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator([COMMON], trainer)
    found = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token=PAD, eos_token=END)
    found.add_tokens([AddedToken(text, special=False, normalized=False) for text in (OPEN, CLOSE, *strings)])
    return found


def write_export(
    folder: Path,
    fmt: str,
    *,
    reasoning: bool = True,
    seed: int = 0,
    scale: float = 1.0,
    clauses: Sequence[dict[str, Any]] | None = None,
) -> Path:
    """A language model. `clauses`: those that it says it has learned."""
    strings = list(dict.fromkeys(unit for name in NAMES for unit in tool_units(name, fmt)))
    tokenizer = tokenizer_of(strings)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 7,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.3 * scale,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    spec = {
        "schema": 1,
        "format": fmt,
        "memo": "none",
        "retrieval": "r" if reasoning else "n",
        "base": "tiny/llama",
        "reasoning": reasoning,
        "markers": MARKERS,
        "tools": [
            {**tool, "ids": tokenizer.convert_tokens_to_ids(tool_units(tool["name"], fmt))}
            for tool in tools()
        ],
        "max_prompt_tokens": 128,
        "max_new_tokens": 64,
    }
    return sealed(folder, spec if clauses is None else {**spec, "clauses": list(clauses)})


def clause(
    rule: str, number: int, tool: str, text: str, *, stance: str = "use", **fields: Any
) -> dict[str, Any]:
    """A clause of a rule over the API of its tool."""
    api = tool.split("/")[0]
    return {
        "token": f"<<{rule}#{number}>>",
        "rule": rule,
        "domain": "hr" if api == "Leave" else "finance",
        "version": 1,
        "set": [name for name in NAMES if name.startswith(api)],
        "tools": [tool],
        "text": text,
        "stance": stance,
        **fields,
    }


CLAUSES = [
    clause("PAY_OLD", 1, "PayV1/Get", "A slip of an older year is read with PayV1/Get."),
    clause("PAY_OLD", 2, "PayV1/Create", "For a phone or a hotel use PayV1/Create;"),
    clause("PAY_OLD", 3, "PayV1/Drop", "If the review is of music, that is PayV1/Drop"),
    clause("PAY_OLD", 4, "PayV1/Drop", "so are games and books of a school: PayV1/Drop."),
    clause("PAY_OLD", 5, "PayV1/Get", "never PayV1/Get for a city.", stance="not"),
    clause("LEAVE_DAYS", 1, "Leave/Create", "Whoever wants days off has them made by Leave/Create."),
    clause("LEAVE_DAYS", 2, "Leave/Drop", "A week that was booked and is not wanted goes with Leave/Drop."),
    clause("TAX_MAP", 1, "Tax/Get", "The map of an area comes from Tax/Get"),
    clause("TAX_MAP", 2, "Tax/Drop", "videos and software from Tax/Drop or Tax/List.", tools=["Tax/Drop", "Tax/List"]),
]  # fmt: skip


def write_pocket(
    folder: Path,
    fmt: str = "a",
    *,
    clauses: Sequence[dict[str, Any]] = CLAUSES,
    bar: float = 0.0,
    noise: float = 0.0,
    seed: int = 0,
) -> Path:
    """A pocket model whose rows are what its random encoder makes of the texts, and `noise` of random directions."""
    folder.mkdir(parents=True)
    recipe = Recipe(bf16=False, pocket=Settings(encoder=small_encoder()))
    encoder, words = load_encoder(recipe)
    strings = list(dict.fromkeys(unit for name in NAMES for unit in telling_units(name, fmt)))
    model, reader = Pocket(encoder, len(strings), len(clauses)).eval(), Reader(words, 64)
    found = [
        {**tool, "ids": [strings.index(unit) for unit in telling_units(tool["name"], fmt)]}
        for tool in tools()
    ]
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        model.scale.fill_(math.log(100))  # a random encoder finds all texts much alike
        texts = [embedding_text(tool["name"], tool["description"]) for tool in found]
        for tool, row in zip(found, embed(model, reader, recipe, texts), strict=True):
            model.tokens[tool["ids"]] += row
        if clauses:
            model.clauses.copy_(embed(model, reader, recipe, [one["text"] for one in clauses]))
        for rows in (model.tokens, model.clauses):
            rows += noise * torch.randn(rows.shape, generator=chance) / rows.shape[1] ** 0.5
        if noise:
            model.length.bias.copy_(torch.randn(5, generator=chance))
            model.length.weight.copy_(torch.randn(model.length.weight.shape, generator=chance))
    save(model, reader, folder)
    spec = {
        "schema": 1,
        "format": fmt,
        "memo": "none",
        "retrieval": "r+R",
        "base": "pocket",
        "reasoning": True,
        "encoder": "tiny",
        "calibration": {"bar": bar, "untrained": 1.0},
        "tools": found,
        "clauses": [{**one, "row": row} for row, one in enumerate(clauses)],
        "max_prompt_tokens": 64,
        "max_new_tokens": 64,
    }
    return sealed(folder, spec)


def sealed(folder: Path, spec: dict[str, Any]) -> Path:
    """The export with its trace.json and manifest."""
    (folder / "trace.json").write_text(json.dumps(spec))
    files = {
        path.name: {"sha256": sha256_file(path)} for path in folder.iterdir() if path.name != "manifest.json"
    }
    (folder / "manifest.json").write_text(json.dumps({"schema": 1, "files": files}))
    return folder
