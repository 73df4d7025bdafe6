"""From a trained model to the directory that evaluation and vLLM read.

In: a trainee. Out: export/: merged safetensors, tokenizer, trace.json, drafts.json, README.md, manifest.json last. The
written model is read back and must be the trained one, in logits, ties, tables and tokens, before the directory gets
its name.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from math import log
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, GenerationConfig

from catalog.core.tokens import NameIndex, tool_units
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_json
from trace_site.lib.provenance import code_revision, hardware_facts
from training.core.delivery import RUNS_CODE
from training.core.recipe import POCKET, Recipe, flat
from training.core.records import Snapshot, text_parts
from training.core.rundir import ROOT, RunDir, publish_dir
from training.core.stages import encoder_digest
from training.ml.bases import pocket
from training.ml.bases.chat import Chat
from training.ml.bases.named import autocast, device, is_tied, load_whole, on_this_machine
from training.ml.bases.pocket import Board, Pocket, together
from training.ml.deciding import PocketTrainee, spec_of, tool_facts
from training.ml.language import LanguageTrainee
from training.ml.rows import merge_rows
from training.ml.trainee import Trainee

DRAFTS = "drafts.json"


def model_card(recipe: Recipe, snapshot: Snapshot, spec: dict[str, Any], model: nn.Module) -> str:
    """What is known of a model, as Markdown of headings, paragraphs and two-column tables, which is what the page of a
    model can draw; a fact that cannot be told says so."""
    parts = [
        "# TRACE tool retrieval model",
        "Answers a request with a JSON list of tool tokens. Read it together with trace.json. What stands here was read"
        " back after it was written, and is the model that was trained.",
    ]
    for title, facts in card_facts(recipe, snapshot, spec, model).items():
        rows = [f"| {_cell(key)} | {_cell(value)} |" for key, value in facts.items()]
        table = "\n".join(["| fact | value |", "|---|---|", *rows])
        parts += [f"## {title}", table if rows else "Nothing."]
    parts += [
        "## Limits",
        f"It knows the {len(snapshot.tools):,} tools of its snapshot and no other.",
        f"A request is cut after {spec['max_prompt_tokens']:,} tokens"
        + (f", an answer after {recipe.max_new_tokens:,}." if recipe.base != POCKET else "."),
    ]
    parts += [
        f"Part {number} of its training was stopped at {stage['Stopped at']}: it is not finished, and the same recipe"
        " may stop elsewhere on another day."
        for number, stage in enumerate(spec["stages"], start=1)
        if "Stopped at" in stage
    ]
    if recipe.base == POCKET:
        parts.append(
            f"It is a pocket model, rows beside the sentence encoder {recipe.pocket.encoder}, which has read English:"
            " pocket figures are not the paper's. It decides and writes nothing: its traces are written out from its"
            " decisions."
        )
    if any(sample.get("writer") == "offline" for sample in snapshot.samples):
        parts.append(
            "The offline writer composes its samples from tool descriptions and rule clauses: they are plainer than"
            " what people or a language model write."
        )
    return "\n\n".join(parts) + "\n"


def card_facts(
    recipe: Recipe, snapshot: Snapshot, spec: dict[str, Any], model: nn.Module
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
            "Architecture": type(model).__name__,
            "Parameters": sum({value.data_ptr(): value.numel() for value in model.parameters()}.values()),
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
    }


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(str(value).replace("|", "/").split())


# a base with towers is not served without them
PROCESSOR = ("preprocessor_config.json", "processor_config.json")


def export(
    trainee: Trainee[Any], recipe: Recipe, snapshot: Snapshot, run: RunDir, facts: dict[str, Any]
) -> None:
    """Write, read back, compare, rename. `facts` (memo, retrieval, training) go into trace.json and card."""
    spec, model = trace_spec(trainee, recipe, snapshot, facts), trainee.model
    if isinstance(trainee, PocketTrainee):
        spec |= pocket_spec(trainee, recipe, snapshot)
        save = partial(save_pocket, trainee, snapshot)
    else:
        assert isinstance(trainee, LanguageTrainee)
        asked = prompts(trainee.chat, snapshot, recipe.format)
        model = merged_as_trained(trainee, asked)
        spec |= language_spec(trainee, recipe, snapshot)
        save = partial(save_language, model, trainee, recipe, snapshot, asked)

    def write(folder: Path) -> None:
        save(folder)
        (folder / "trace.json").write_text(json.dumps(spec, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(model_card(recipe, snapshot, spec, model), encoding="utf-8")

    publish_dir(run.root / f".export-{os.getpid()}", run.export, write, {"schema": 1})


def pocket_spec(trainee: PocketTrainee, recipe: Recipe, snapshot: Snapshot) -> dict[str, Any]:
    settings = recipe.pocket
    return {
        "encoder": encoder_digest(settings.encoder),
        "tokens": content_hash(snapshot.family_strings(recipe.format)),
        "max_prompt_tokens": trainee.reader.longest,
        # a bar over all tools together: the more there are, the more of them lie near by chance
        "calibration": {
            "bar": settings.bar - log(len(trainee.spec["tools"])),
            "untrained": settings.untrained,
        },
        **trainee.spec,
    }


def save_pocket(trainee: PocketTrainee, snapshot: Snapshot, folder: Path) -> None:
    """Encoder, rows and the encoder's tokenizer."""
    model, reader, board = trainee.model, trainee.reader, trainee.board
    pocket.save(model, reader, folder)
    again, words = pocket.load(folder, reader.longest)
    texts = [tool["description"] for tool in snapshot.tools[:PROMPTS]]
    asked = [reader.ids(text) for text in texts]
    if asked != [words.ids(text) for text in texts]:
        raise _refusal("its encoder's words changed")
    before, after = (choices(one.cpu().eval(), asked, reader.pad_id, board) for one in (model, again))
    require_close(before, after, RELOAD[torch.float32], "on the way to disk")


@torch.no_grad()
def choices(model: Pocket, asked: Sequence[Sequence[int]], pad: int, board: Board) -> list[Tensor]:
    """fp32 [tools and clauses] a text."""
    found = model.logits(model.read(*together(asked, pad)), board.to(model.device))
    return list(torch.cat(found, dim=1))


def merged_as_trained(trainee: LanguageTrainee, asked: Sequence[Sequence[int]]) -> Any:
    """The model with its adapters merged, which is done and compared without the rounding of bf16."""
    dtype: torch.dtype = getattr(trainee.model.config, "dtype", None) or torch.float32
    cast(trainee.model.eval(), torch.float32)
    trained = last_logits(trainee.model, asked)
    model = merged(trainee)
    require_close(trained, last_logits(model, asked), MERGE, "with its adapters merged")
    cast(model, dtype)
    return model


def language_spec(trainee: LanguageTrainee, recipe: Recipe, snapshot: Snapshot) -> dict[str, Any]:
    """With what it has learned of rules, clause by clause: of those that samples were about."""
    chat = trainee.chat
    tools = tool_facts(snapshot, lambda name: chat.unit_ids(tool_units(name, recipe.format)))
    taught = {(one["domain"], one["rule"]) for one in snapshot.samples if one["branch"] == "rule"}
    clauses = spec_of(snapshot, recipe)["clauses"]
    return {
        "reasoning": recipe.reasoning,
        "markers": asdict(chat.markers),
        "max_prompt_tokens": chat.max_prompt_tokens,
        "tools": [
            fact | {"description": tool["description"]}
            for fact, tool in zip(tools, snapshot.tools, strict=True)
        ],
        "clauses": [one for one in clauses if (one["domain"], one["rule"]) in taught],
    }


def save_language(
    model: Any,
    trainee: LanguageTrainee,
    recipe: Recipe,
    snapshot: Snapshot,
    asked: Sequence[Sequence[int]],
    folder: Path,
) -> None:
    """A causal language model, its tokenizer, and what its traces are likely to repeat."""
    chat = trainee.chat
    model.save_pretrained(folder)
    chat.tokenizer.save_pretrained(folder)
    for name in PROCESSOR:
        if found := on_this_machine(trainee.source, name):
            shutil.copyfile(found, folder / name)
    forget_code(folder)
    read_back(model, chat, folder, snapshot.family_strings(recipe.format), asked)
    drafts = draft_texts(chat, snapshot, recipe.format) if recipe.reasoning else []
    (folder / DRAFTS).write_text(json.dumps({"texts": drafts}) + "\n", encoding="utf-8")


def cast(model: nn.Module, dtype: torch.dtype) -> None:
    """Weights only: `model.to` would also round what rotary positions are computed from."""
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)


def merged(trainee: LanguageTrainee) -> Any:
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


def trace_spec(
    trainee: Trainee[Any], recipe: Recipe, snapshot: Snapshot, facts: dict[str, Any]
) -> dict[str, Any]:
    """What trace.json says of any model; how to talk to one, and what its tokens mean, hangs on its kind."""
    stage = {"memo": facts["memo"], "retrieval": facts["retrieval"], **facts.get("training", {})}
    return {
        "schema": 1,
        "format": recipe.format,
        "memo": facts["memo"],
        "retrieval": facts["retrieval"],
        "base": recipe.base,
        "licence": trainee.licence,
        "max_new_tokens": recipe.max_new_tokens,
        "snapshot_hash": snapshot.hash,
        "catalog_hash": snapshot.catalog_hash,
        "recipe_hash": recipe.hash(),
        "seed": recipe.seed,
        "stages": [*trainee.stages, *([stage] if facts.get("training") else [])],
    }


def draft_texts(chat: Chat, snapshot: Snapshot, fmt: str) -> list[list[int]]:
    """Token ids of what traces are likely to repeat: the accepted traces, each once, and the rules. The engine guesses
    from them; a model writes what it writes without them too."""
    index = NameIndex((tool["name"] for tool in snapshot.tools), fmt)
    traces = dict.fromkeys(sample["trace"] for sample in snapshot.samples if sample.get("trace"))
    closed = [[*chat.parts_ids(text_parts(trace, index)), *chat.close_ids] for trace in traces]
    return [*closed, *(chat.parts_ids(text_parts(rule["text"], index)) for rule in snapshot.rules)]


# Is the folder on disk the model that was trained? A lost tensor, tie, row or token, and any other logits, raise
# TraceError and keep the folder from being published.

PROMPTS = 20  # compared before and after
POSITIONS = 8  # the last ones of each prompt: an empty thinking part, the start of a list, a tool
# how far logits may move, as a share of the largest one (or of 1). Rounding grows with the depth of a base; a lost
# adapter or row moves them by more than a hundredth.
MERGE = 1e-4
RELOAD = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def prompts(chat: Chat, snapshot: Snapshot, fmt: str) -> list[list[int]]:
    """The first tools' descriptions as requests, each answered with its tool."""
    lead = [*chat.empty_ids, *chat.list_open_ids]
    return [
        [*chat.query_ids(tool["description"]), *lead, *chat.unit_ids(tool_units(tool["name"], fmt))]
        for tool in snapshot.tools[:PROMPTS]
    ]


@torch.no_grad()
def last_logits(model: Any, asked: Sequence[Sequence[int]]) -> list[Tensor]:
    """fp32 [POSITIONS, vocabulary] a prompt."""
    where = next(model.parameters()).device
    return [
        model(input_ids=torch.tensor([ids], device=where)).logits[0, -POSITIONS:].float() for ids in asked
    ]


def require_close(before: Sequence[Tensor], after: Sequence[Tensor], share: float, when: str) -> None:
    """No logit moves further than this share of the largest of them (or of 1)."""
    moved = max(((a - b).abs().max().item() for a, b in zip(before, after, strict=True)), default=0.0)
    largest = max(1.0, *(logits.abs().max().item() for logits in before))
    if not moved <= share * largest:  # NaN is refused too
        raise _refusal(f"its logits moved by {moved:.2g} {when}")


def read_back(
    model: Any, chat: Chat, folder: Path, strings: Sequence[str], asked: Sequence[Sequence[int]]
) -> None:
    """Compare the merged model, in the number format it is written in, with what the folder holds."""
    dtype = next(model.parameters()).dtype
    again, lost = load_whole(str(folder), dtype, local_files_only=True)
    again = again.to(model.device).eval()
    _require_same_weights(model, again, lost)
    _require_tokens(chat, folder, strings, again)
    before, after = (last_logits(one, asked) for one in (model, again))
    require_close(before, after, RELOAD.get(dtype, 2e-2), "on the way to disk")


def _require_same_weights(model: Any, again: Any, lost: Sequence[str]) -> None:
    """Every tensor comes from the file, number for number; ties are as they were, and the configuration says so."""
    if lost:
        raise _refusal(f"{len(lost)} tensors are not in the file, such as {lost[0]}")
    said = bool(getattr(again.config.get_text_config(), "tie_word_embeddings", False))
    if not is_tied(model) == is_tied(again) == said:
        raise _refusal(f"input and output table are tied: {is_tied(model)} before, {is_tied(again)} after")
    read = dict(again.named_parameters())
    other = [
        name
        for name, value in model.named_parameters()
        if name not in read or not torch.equal(value.float(), read[name].float())
    ]
    if other:
        raise _refusal(f"{len(other)} tensors are not as they were, such as {other[0]}")


def _require_tokens(chat: Chat, folder: Path, strings: Sequence[str], again: Any) -> None:
    """Every tool token is one id, the same as in training, inside the tables, and visible when decoded."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
    ids = chat.unit_ids(list(strings))
    if tokenizer.encode("".join(strings), add_special_tokens=False) != ids:
        raise _refusal("tool tokens are split, or have other ids, when they are read")
    if tokenizer.batch_decode([[number] for number in ids], skip_special_tokens=True) != list(strings):
        raise _refusal("tool tokens vanish when they are decoded")
    if max(ids) >= again.get_input_embeddings().weight.shape[0]:
        raise _refusal("a tool token has no row")


def _refusal(what: str) -> TraceError:
    hint = "The run's checkpoints are intact; report this base model."
    return TraceError(f"the exported model is not the trained one: {what}.", code="round_trip", hint=hint)
