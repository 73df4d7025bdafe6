"""The model card: what is known of a model, from the recipe, the snapshot, the run and the checks; nothing else.

In: the recipe, the snapshot, trace.json and round-trip figures. Out: Markdown of headings, paragraphs and
two-column tables, which is what the page of a model can draw.
"""

import os
import platform
from collections import Counter
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from trace_site.lib.revision import code_revision
from training.core.recipe import POCKET, Recipe
from training.core.records import Snapshot
from training.ml.bases.named import autocast, device

ROOT = Path(__file__).resolve().parents[2]
Rows = dict[str, Any]


def model_card(recipe: Recipe, snapshot: Snapshot, spec: dict[str, Any], checks: dict[str, Any]) -> str:
    """Markdown; a fact that cannot be told says so."""
    parts = [
        "# TRACE tool retrieval model",
        "Answers a request with a JSON list of tool tokens. Read it together with trace.json.",
        *_table("Model", _model(recipe, spec, checks)),
        *_table("Data", _data(snapshot, spec)),
    ]
    for number, stage in enumerate(spec["stages"], start=1):
        parts += _table(f"Training, part {number}", stage)
    parts += _table("Recipe, where it is not the default", _changed(recipe))
    parts += _table("Made with", _made_with(recipe))
    parts += _table("Check of the written files", _checked(checks))
    parts += ["## Limits", *_limits(recipe, snapshot, spec)]
    return "\n\n".join(parts) + "\n"


def _table(title: str, rows: Rows) -> list[str]:
    if not rows:
        return [f"## {title}", "Nothing."]
    lines = [f"| {_cell(key)} | {_cell(value)} |" for key, value in rows.items()]
    return [f"## {title}", "\n".join(["| fact | value |", "|---|---|", *lines])]


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(str(value).replace("|", "/").split())


def _model(recipe: Recipe, spec: dict[str, Any], checks: dict[str, Any]) -> Rows:
    return {
        "Base": recipe.base,
        "Licence of the base": spec["licence"],
        "Cell (format, memo, retrieval)": f"{spec['format']}, {spec['memo']}, {spec['retrieval']}",
        "Architecture": checks["architecture"],
        "Parameters": checks["parameters"],
        "First values of the token rows": spec["token_init"],
        "Tools it learned letters on": f"those where the {spec['letters']}" if spec["letters"] else "none",
        "Seed": str(recipe.seed),
    }


def _data(snapshot: Snapshot, spec: dict[str, Any]) -> Rows:
    branches = Counter(sample["branch"] for sample in snapshot.samples)
    return {
        "Snapshot": snapshot.hash,
        "Tools": len(spec["tools"]),
        "Rules": len(snapshot.rules),
        "Samples": len(snapshot.samples),
        **{f"Samples of branch {branch}": count for branch, count in sorted(branches.items())},
        "Samples with a trace": sum(bool(sample.get("trace")) for sample in snapshot.samples),
        "Samples by the offline writer": _offline(snapshot),
    }


def _offline(snapshot: Snapshot) -> str:
    count = sum(sample.get("writer") == "offline" for sample in snapshot.samples)
    share = f" ({100 * count / len(snapshot.samples):.0f} %)" if snapshot.samples else ""
    return f"{count:,} of {len(snapshot.samples):,}{share}"


def _changed(recipe: Recipe) -> Rows:
    """Every field that differs from the default, by its name in the recipe file."""
    chosen, usual = _flat(asdict(recipe)), _flat(asdict(Recipe()))
    return {name: str(value) for name, value in chosen.items() if value != usual[name]}


def _flat(data: dict[str, Any], prefix: str = "") -> Rows:
    rows: Rows = {}
    for key, value in data.items():
        rows |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return rows


def _made_with(recipe: Recipe) -> Rows:
    code = code_revision(ROOT)
    with autocast(recipe):
        arithmetic = "bf16 autocast" if torch.is_autocast_enabled(device().type) else "fp32"
    return {
        "Hardware": _hardware(recipe),
        "Arithmetic": arithmetic,
        "Code": f"{code['version'] or 'unknown version'}, commit {code['commit'] or 'unknown'}",
        "Libraries": ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "peft")),
    }


def _hardware(recipe: Recipe) -> str:
    if torch.cuda.is_available():
        return f"{os.environ.get('WORLD_SIZE', '1')} x {torch.cuda.get_device_name(0)}"
    return f"CPU ({_processor()}), threads: {recipe.threads}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _checked(checks: dict[str, Any]) -> Rows:
    return {
        "Prompts compared": checks["prompts"],
        "Largest logit difference, adapters to merged": f"{checks['merge_difference']:.2g}",
        "Largest logit difference, merged to read back": f"{checks['max_logit_difference']:.2g}",
        "Largest logit": f"{checks['largest_logit']:.3g}",
        "Input and output table tied": "yes" if checks["tied"] else "no",
        "Rows": ", ".join(f"{name} {count:,}" for name, count in checks["rows"].items()),
    }


def _limits(recipe: Recipe, snapshot: Snapshot, spec: dict[str, Any]) -> list[str]:
    limits = [
        f"It knows the {len(snapshot.tools):,} tools of its snapshot and no other.",
        f"A request is cut after {spec['max_prompt_tokens']:,} tokens, an answer after {recipe.max_new_tokens:,}.",
    ]
    limits += [
        f"Part {number} of its training was stopped at {stage['Stopped at']}: it is not finished, and the same recipe"
        " may stop elsewhere on another day."
        for number, stage in enumerate(spec["stages"], start=1)
        if "Stopped at" in stage
    ]
    if recipe.base == POCKET:
        limits.append(
            f"It is a pocket model, a small decoder beside the sentence encoder {recipe.pocket.encoder}, which has read"
            " English: pocket figures are not the paper's."
        )
    if any(sample.get("writer") == "offline" for sample in snapshot.samples):
        limits.append(
            "The offline writer composes its samples from tool descriptions and rule clauses: they are plainer than"
            " what people or a language model write."
        )
    return limits
