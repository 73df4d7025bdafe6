"""A tiny random model in an export folder, as training left it before the pocket model had an encoder. Needs torch."""

import json
from pathlib import Path

import torch
from tokenizers import AddedToken
from transformers import LlamaConfig, LlamaForCausalLM

from catalog.core.tokens import tool_units
from tests.training.small_encoder import word_pieces
from trace_site.lib.files import sha256_file
from training.ml.bases.adapters import CLOSE, OPEN
from training.ml.bases.pocket import writer_tokenizer

NAMES = [
    f"{api}/{end}" for api in ("PayV1", "PayV2", "Leave", "Tax") for end in ("Get", "List", "Create", "Drop")
]
PERMISSIONS = {"Tax/Get": ["tax"], "Tax/List": ["tax"], "Leave/Get": ["leave"]}


def tools() -> list[dict]:
    return [
        {
            "name": name,
            "description": f"Handles the {name.split('/')[1].lower()} request of {name.split('/')[0]} records",
            "domain": "hr" if name.startswith("Leave") else "finance",
            "permissions": PERMISSIONS.get(name, []),
            "deprecated": False,
        }
        for name in NAMES
    ]


def write_export(
    folder: Path, fmt: str, *, reasoning: bool = True, seed: int = 0, scale: float = 1.0, base: str = "pocket"
) -> Path:
    tokenizer = writer_tokenizer(word_pieces(), 512)
    strings = list(dict.fromkeys(unit for name in NAMES for unit in tool_units(name, fmt)))
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in strings])
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
        "base": base,
        "reasoning": reasoning,
        "thinking": {"open": OPEN, "close": CLOSE},
        "adapter": "pocket",
        "tools": [
            {**tool, "ids": tokenizer.convert_tokens_to_ids(tool_units(tool["name"], fmt))}
            for tool in tools()
        ],
        "max_prompt_tokens": 128,
        "max_new_tokens": 64,
    }
    (folder / "trace.json").write_text(json.dumps(spec))
    files = {path.name: {"sha256": sha256_file(path)} for path in folder.iterdir()}
    (folder / "manifest.json").write_text(json.dumps({"schema": 1, "files": files}))
    return folder
