"""From a trained model to the directory that evaluation and vLLM read.

In: a trainee. Out: export/: merged safetensors, tokenizer, trace.json, README.md, manifest.json last. The written
model is read back and must give the same logits before the directory gets its name.
"""

import json
import os
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from catalog.core.tokens import tool_units
from trace_site.lib.errors import TraceError
from training.core.recipe import Recipe
from training.core.records import Snapshot
from training.core.publish import publish_dir
from training.core.rundir import RunDir
from training.ml.chat import Chat
from training.ml.model import Trainee

PROMPTS = 20  # compared before and after the round trip
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}


def export(
    trainee: Trainee, recipe: Recipe, snapshot: Snapshot, run: RunDir, facts: dict[str, Any]
) -> dict[str, Any]:
    """Merge, write, read back, compare, rename. `facts` (memo, retrieval, reasoning, training) go into trace.json."""
    model = _merged(trainee)
    model.eval()
    spec = trace_spec(trainee, recipe, snapshot, facts)
    checks: dict[str, Any] = {}

    def write(folder: Path) -> None:
        model.save_pretrained(folder)
        trainee.chat.tokenizer.save_pretrained(folder)
        checks.update(round_trip(model, trainee.chat, folder, snapshot, recipe.format))
        (folder / "trace.json").write_text(json.dumps(spec, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(model_card(spec, facts, checks), encoding="utf-8")

    publish_dir(run.root / f".export-{os.getpid()}", run.export, write, {"schema": 1, "round_trip": checks})
    return checks


def _merged(trainee: Trainee) -> Any:
    model: Any = trainee.model
    return model.merge_and_unload(safe_merge=True) if hasattr(model, "merge_and_unload") else model


def trace_spec(trainee: Trainee, recipe: Recipe, snapshot: Snapshot, facts: dict[str, Any]) -> dict[str, Any]:
    """trace.json: how to talk to this model and what its tokens mean."""
    chat = trainee.chat
    return {
        "schema": 1,
        "format": recipe.format,
        "memo": facts["memo"],
        "retrieval": facts["retrieval"],
        "base": recipe.base,
        "reasoning": facts["retrieval"] in ("r", "r+R", "n>r"),
        "thinking": {"open": chat.markers.open, "close": chat.markers.close},
        "adapter": chat.adapter,
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
        "max_prompt_tokens": recipe.max_prompt_tokens,
        "max_new_tokens": recipe.max_new_tokens,
        "snapshot_hash": snapshot.hash,
        "catalog_hash": snapshot.catalog_hash,
        "recipe_hash": recipe.hash(),
        "token_init": trainee.token_init,
        "seed": recipe.seed,
    }


@torch.no_grad()
def round_trip(model: Any, chat: Chat, folder: Path, snapshot: Snapshot, fmt: str) -> dict[str, Any]:
    """Read the folder back: same logits, same tie, one row per token in every table, same ids."""
    dtype = next(model.parameters()).dtype
    again = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype).to(model.device).eval()
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    worst = 0.0
    for tool in snapshot.tools[:PROMPTS]:
        units = tool_units(tool["name"], fmt)
        ids = [
            *chat.query_ids(tool["description"]),
            *chat.empty_ids,
            *chat.list_open_ids,
            *chat.unit_ids(units),
        ]
        prompt = torch.tensor([ids], device=model.device)
        difference = model(input_ids=prompt).logits - again(input_ids=prompt).logits
        worst = max(worst, difference.abs().max().item())
        if tokenizer.convert_tokens_to_ids(units) != chat.unit_ids(units):
            raise TraceError(f"the ids of {''.join(units)} changed on the way to disk.", code="round_trip")
    tied = [_is_tied(model), _is_tied(again)]
    if worst > TOLERANCE.get(dtype, 2e-2) or tied[0] != tied[1]:
        raise TraceError(
            f"the exported model differs from the trained one (logits by {worst:.2g}, tied {tied}).",
            code="round_trip",
            hint="The run's checkpoints are intact; report this base model.",
        )
    return {"prompts": min(PROMPTS, len(snapshot.tools)), "max_logit_difference": worst, "tied": tied[1]}


def _is_tied(model: Any) -> bool:
    head = model.get_output_embeddings()
    return head is not None and head.weight.data_ptr() == model.get_input_embeddings().weight.data_ptr()


def model_card(spec: dict[str, Any], facts: dict[str, Any], checks: dict[str, Any]) -> str:
    """A short card, generated from facts only."""
    training = facts.get("training", {})
    rows = {
        "Base": spec["base"],
        "Cell (format, memo, retrieval)": f"{spec['format']}, {spec['memo']}, {spec['retrieval']}",
        "Tools": len(spec["tools"]),
        "Snapshot": spec["snapshot_hash"],
        "Recipe": spec["recipe_hash"],
        "Seed": spec["seed"],
        "Token rows": spec["token_init"],
        **training,
        "Round trip": f"largest logit difference {checks['max_logit_difference']:.2g} on {checks['prompts']} prompts",
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    head = (
        "# TRACE tool retrieval model\n\nRead it together with `trace.json`.\n\n| fact | value |\n|---|---|\n"
    )
    return f"{head}{table}\n"
