"""From a trained model to the directory that evaluation and vLLM read.

In: a trainee. Out: export/: merged safetensors, tokenizer, trace.json, README.md, manifest.json last. The written model
is read back and must be the trained one, in logits, ties, tables and tokens, before the directory gets its name.
"""

import json
import os
import shutil
from collections import Counter
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import GenerationConfig

from catalog.core.tokens import tool_units
from trace_site.lib.files import read_json
from trace_site.lib.provenance import code_revision, hardware_facts
from training.core.delivery import RUNS_CODE
from training.core.recipe import POCKET, Recipe, flat
from training.core.records import Snapshot
from training.core.rundir import RunDir, publish_dir
from training.core.stages import encoder_digest
from training.ml.bases.chat import ENCODER_WORDS
from training.ml.bases.model import Trainee
from training.ml.bases.named import autocast, device, on_this_machine
from training.ml.round_trip import compare_merged, last_logits, prompts, read_back
from training.ml.rows import merge_rows

ROOT = Path(__file__).resolve().parents[2]


def model_card(recipe: Recipe, snapshot: Snapshot, spec: dict[str, Any], checks: dict[str, Any]) -> str:
    """What is known of a model, as Markdown of headings, paragraphs and two-column tables, which is what the page of a
    model can draw; a fact that cannot be told says so."""
    parts = [
        "# TRACE tool retrieval model",
        "Answers a request with a JSON list of tool tokens. Read it together with trace.json.",
    ]
    for title, facts in card_facts(recipe, snapshot, spec, checks).items():
        rows = [f"| {_cell(key)} | {_cell(value)} |" for key, value in facts.items()]
        table = "\n".join(["| fact | value |", "|---|---|", *rows])
        parts += [f"## {title}", table if rows else "Nothing."]
    parts += [
        "## Limits",
        f"It knows the {len(snapshot.tools):,} tools of its snapshot and no other.",
        f"A request is cut after {spec['max_prompt_tokens']:,} tokens, an answer after {recipe.max_new_tokens:,}.",
    ]
    parts += [
        f"Part {number} of its training was stopped at {stage['Stopped at']}: it is not finished, and the same recipe"
        " may stop elsewhere on another day."
        for number, stage in enumerate(spec["stages"], start=1)
        if "Stopped at" in stage
    ]
    if recipe.base == POCKET:
        parts.append(
            f"It is a pocket model, a small decoder beside the sentence encoder {recipe.pocket.encoder}, which has read"
            " English: pocket figures are not the paper's."
        )
    if any(sample.get("writer") == "offline" for sample in snapshot.samples):
        parts.append(
            "The offline writer composes its samples from tool descriptions and rule clauses: they are plainer than"
            " what people or a language model write."
        )
    return "\n\n".join(parts) + "\n"


def card_facts(
    recipe: Recipe, snapshot: Snapshot, spec: dict[str, Any], checks: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """{title of a table: {fact: value}}"""
    samples, code, machine = snapshot.samples, code_revision(ROOT), hardware_facts(recipe.threads)
    offline = sum(sample.get("writer") == "offline" for sample in samples)
    share = f" ({100 * offline / len(samples):.0f} %)" if samples else ""
    branches = Counter(sample["branch"] for sample in samples)
    chosen, usual = flat(recipe), flat(Recipe())
    with autocast(recipe):
        arithmetic = "bf16 autocast" if torch.is_autocast_enabled(device().type) else "fp32"
    on_gpu = f"{os.environ.get('WORLD_SIZE', '1')} x {machine['gpu']}"
    return {
        "Model": {
            "Base": recipe.base,
            "Licence of the base": spec["licence"],
            "Cell (format, memo, retrieval)": f"{spec['format']}, {spec['memo']}, {spec['retrieval']}",
            "Architecture": checks["architecture"],
            "Parameters": checks["parameters"],
            "First values of the token rows": spec["token_init"],
            "Tools it learned letters on": f"those where the {spec['letters']}"
            if spec["letters"]
            else "none",
            "Seed": str(recipe.seed),
        },
        "Data": {
            "Snapshot": snapshot.hash,
            "Tools": len(spec["tools"]),
            "Rules": len(snapshot.rules),
            "Samples": len(samples),
            **{f"Samples of branch {branch}": count for branch, count in sorted(branches.items())},
            "Samples with a trace": sum(bool(sample.get("trace")) for sample in samples),
            "Samples by the offline writer": f"{offline:,} of {len(samples):,}{share}",
        },
        **{f"Training, part {number}": stage for number, stage in enumerate(spec["stages"], start=1)},
        "Recipe, where it is not the default": {
            name: str(value) for name, value in chosen.items() if value != usual[name]
        },
        "Made with": {
            "Hardware": on_gpu if machine["gpu"] else f"CPU ({machine['cpu']}), threads: {recipe.threads}",
            "Arithmetic": arithmetic,
            "Code": f"{code['version'] or 'unknown version'}, commit {code['commit'] or 'unknown'}",
            "Libraries": ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "peft")),
        },
        "Check of the written files": {
            "Prompts compared": checks["prompts"],
            "Largest logit difference, adapters to merged": f"{checks['merge_difference']:.2g}",
            "Largest logit difference, merged to read back": f"{checks['max_logit_difference']:.2g}",
            "Largest logit": f"{checks['largest_logit']:.3g}",
            "Input and output table tied": "yes" if checks["tied"] else "no",
            "Rows": ", ".join(f"{name} {count:,}" for name, count in checks["rows"].items()),
        },
    }


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(str(value).replace("|", "/").split())


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
        for name in PROCESSOR if trainee.source else ():
            if found := on_this_machine(trainee.source, name):
                shutil.copyfile(found, folder / name)
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
    # servers take their defaults from here: a base's sampling or repetition penalty would change the answers
    own = model.generation_config.eos_token_id
    ends = {own} if isinstance(own, int) else set(own or ())
    if len(trainee.chat.end_ids) == 1:
        ends |= set(trainee.chat.end_ids)
    model.generation_config = GenerationConfig(
        do_sample=False,
        bos_token_id=model.generation_config.bos_token_id,
        eos_token_id=sorted(ends),
        pad_token_id=trainee.chat.pad_id,
    )
    return model


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
