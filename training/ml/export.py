"""From a trained model to the directory that evaluation and vLLM read.

In: a trainee. Out: export/: merged safetensors, tokenizer, trace.json, README.md, manifest.json last. The written model
is read back and must be the trained one, in logits, ties, tables and tokens, before the directory gets its name.
"""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import GenerationConfig
from transformers.utils.hub import cached_file

from catalog.core.tokens import tool_units
from trace_site.lib.files import read_json
from training.core.bases import encoder_digest
from training.core.delivery import RUNS_CODE
from training.core.publish import publish_dir
from training.core.recipe import Recipe
from training.core.records import Snapshot
from training.core.rundir import RunDir
from training.ml.bases.chat import ENCODER_WORDS
from training.ml.bases.model import Trainee
from training.ml.card import model_card
from training.ml.round_trip import compare_merged, last_logits, prompts, read_back
from training.ml.rows import merge_rows

# a base with towers is not served without them
PROCESSOR = ("preprocessor_config.json", "processor_config.json")


def export(
    trainee: Trainee, recipe: Recipe, snapshot: Snapshot, run: RunDir, facts: dict[str, Any]
) -> dict[str, Any]:
    """Merge, write, read back, compare, rename. `facts` (memo, retrieval, training) go into trace.json and card."""
    dtype: torch.dtype = getattr(trainee.model.config, "dtype", None) or torch.float32
    cast(trainee.model.eval(), torch.float32)  # adapters are merged and compared without the rounding of bf16
    strings = snapshot.family_strings(recipe.format)
    asked = prompts(trainee.chat, snapshot, recipe.format)
    trained = last_logits(trainee.model, asked)
    model = merged(trainee)
    checks = compare_merged(trained, model, asked)
    cast(model, dtype)
    spec = trace_spec(trainee, recipe, snapshot, facts)

    def write(folder: Path) -> None:
        model.save_pretrained(folder)
        trainee.chat.tokenizer.save_pretrained(folder)
        if trainee.chat.encoder_words is not None:
            trainee.chat.encoder_words.save_pretrained(folder / ENCODER_WORDS)
        _copy_processor(trainee.source, folder)
        forget_code(folder)
        checks.update(read_back(model, trainee.chat, folder, strings, asked))
        (folder / "trace.json").write_text(json.dumps(spec, ensure_ascii=False) + "\n", encoding="utf-8")
        card = model_card(recipe, snapshot, spec, checks)
        (folder / "README.md").write_text(card, encoding="utf-8")

    publish_dir(run.root / f".export-{os.getpid()}", run.export, write, {"schema": 1, "round_trip": checks})
    return checks


def cast(model: nn.Module, dtype: torch.dtype) -> None:
    """Weights only: `model.to` would also round what rotary positions are computed from."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)


def merged(trainee: Trainee) -> Any:
    """The model with its adapters and rows inside its weights, decoding greedily."""
    model: Any = trainee.model
    merge_rows(model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload(safe_merge=True)
    model.generation_config = _greedy(model, trainee)
    return model


def _greedy(model: Any, trainee: Trainee) -> GenerationConfig:
    """Servers take their defaults from here: a base's sampling or repetition penalty would change the answers."""
    own = model.generation_config.eos_token_id
    ends = {own} if isinstance(own, int) else set(own or ())
    if len(trainee.chat.end_ids) == 1:
        ends |= set(trainee.chat.end_ids)
    return GenerationConfig(
        do_sample=False,
        bos_token_id=model.generation_config.bos_token_id,
        eos_token_id=sorted(ends),
        pad_token_id=trainee.chat.pad_id,
    )


def _copy_processor(source: str, folder: Path) -> None:
    for name in PROCESSOR if source else ():
        found = cached_file(
            source,
            name,
            local_files_only=True,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        if found:
            shutil.copyfile(found, folder / name)


def forget_code(folder: Path) -> None:
    """A base may name code instead of a class of the library: it was not run here, and the engine would refuse it."""
    for path in folder.rglob("*config.json"):
        config = read_json(path)
        kept = {name: value for name, value in config.items() if name not in RUNS_CODE}
        if kept != config:
            path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def trace_spec(trainee: Trainee, recipe: Recipe, snapshot: Snapshot, facts: dict[str, Any]) -> dict[str, Any]:
    """trace.json: how to talk to this model and what its tokens mean."""
    chat = trainee.chat
    stage = {"memo": facts["memo"], "retrieval": facts["retrieval"], **facts.get("training", {})}
    return {
        "schema": 1,
        "format": recipe.format,
        "memo": facts["memo"],
        "retrieval": facts["retrieval"],
        "base": recipe.base,
        **({"encoder": encoder_digest(recipe.pocket.encoder)} if trainee.pocket else {}),
        "licence": trainee.licence,
        "reasoning": facts["retrieval"] in ("r", "r+R", "n>r"),
        "thinking": {"open": chat.markers.open, "close": chat.markers.close},
        "adapter": chat.adapter,
        "markers": asdict(chat.markers),
        "tools": [
            {
                "name": tool["name"],
                "ids": chat.unit_ids(tool_units(tool["name"], recipe.format)),
                "domain": tool["domain"],
                "permissions": tool.get("permissions") or [],
                "deprecated": tool["deprecated"],
            }
            for tool in snapshot.tools
        ],
        "max_prompt_tokens": chat.max_prompt_tokens,
        "max_new_tokens": recipe.max_new_tokens,
        "snapshot_hash": snapshot.hash,
        "catalog_hash": snapshot.catalog_hash,
        "recipe_hash": recipe.hash(),
        "token_init": trainee.token_init,
        "letters": trainee.letters,  # of which tools it has seen lettered questions: probes count none of them
        "seed": recipe.seed,
        "stages": [*trainee.stages, *([stage] if facts.get("training") else [])],
    }
