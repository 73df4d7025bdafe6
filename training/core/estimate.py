"""What a run will read, weigh and take, before it starts: arithmetic only, and every constant a rule of thumb.

In: a recipe, how many rows a snapshot has and how long they usually are. Out: records and tokens of each stage,
parameters, bytes of memory, tokens a second. What was measured comes from the caller, by the `kind` of a run.
"""

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Annotated

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.core.recipe import PLAIN, POCKET, STAGES, Recipe
from training.core.stages import passes

CHARS_A_TOKEN = 4.4
IN_TRACES = 1.3  # more, for a tool's name in a trace is one to four tokens
MARKERS = 2  # tokens around a text that pocket reads
TURN = 45  # tokens around a record of others: instruction, markers, names of tools
REASON = 70  # tokens of the short reason in an `mr` record
REREAD = 0.7  # of a description: pocket reads it whole and as short as people ask
STATE_BYTES = 16  # a trained number in fp32: weight, gradient, two moments of AdamW
# bytes a token, layer and width that backward needs in 16 bit: of pocket (Korthikanti et al., 2022), and of a base with
# LoRA on every linear layer (counted in E4B-shaped layers: each adapter keeps its input, each norm keeps 32 bits)
ACTIVATION = {True: 34, False: 80}
RECOMPUTED = 6  # what is kept of it when backward makes the rest again: a layer's input
GRADIENT = 40  # within the layer that backward is in
PROCESS = 0.8e9  # bytes of a process that has torch loaded
CONTEXT = 2e9  # the same on an accelerator, with the blocks of logits
LONG = 3.0  # the longest batch over the mean record
START = 8.0  # seconds: load, tokenizer, export, read back
CPU_FLOPS = 60e9  # a thread: 90 steps of the demo's pocket model on two cores, 128,000 tokens in 147 processor seconds
GPU_FLOPS = 250e12  # bf16 on a current data-centre card, LoRA


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of usual texts, in characters."""

    description: float = 160.0
    query: float = 90.0
    trace: float = 600.0


@dataclass(frozen=True, slots=True)
class Amount:
    """One stage: its records and real tokens of one epoch, its optimiser steps, and the epochs those amount to.
    `reused_from`: the run that made the very same one, so that nothing trains."""

    stage: str
    records: int
    tokens: Annotated[int, "real tokens of one epoch"]
    steps: int
    epochs: float
    seconds: float | None = None
    reused_from: Annotated[int | None, "the run that trained it already"] = None


def amounts(recipe: Recipe, counts: Mapping[str, int], lengths: Lengths) -> list[Amount]:
    """What each stage of the cell reads, in training order. counts: {"tools", "rrb", "rule", "imported"}"""
    read = [("stage1", *_memorized(recipe, counts, lengths))] if recipe.memo != "none" else []
    for retrieval in passes(recipe):
        name = "plain" if retrieval in PLAIN else "stage2"
        read.append((name, *_retrieved(recipe, retrieval, counts, lengths)))
    found = []
    for name, records, tokens in read:
        stage, count = getattr(recipe, name), round(records)
        steps = stage.steps(count) if count else 0
        epochs = steps / ceil(count / stage.batch_size) if count else 0.0
        found.append(Amount(name, count, round(tokens), steps, epochs))
    return found


def _memorized(recipe: Recipe, counts: Mapping[str, int], lengths: Lengths) -> tuple[float, float]:
    tools, text = counts.get("tools", 0), lengths.description / CHARS_A_TOKEN
    if recipe.base == POCKET:
        records = tools * (2 if recipe.format == "a" else 4)
        return records, records * (text + MARKERS)
    records = tools * (3 if recipe.format == "a" else 5)
    return records, records * (text + TURN + (REASON if recipe.memo == "mr" else 0))


def _retrieved(
    recipe: Recipe, retrieval: str, counts: Mapping[str, int], lengths: Lengths
) -> tuple[float, float]:
    branches = ("rrb", "imported", "rule") if retrieval.endswith("R") else ("rrb", "imported")
    samples, traced = sum(counts.get(branch, 0) for branch in branches), retrieval not in PLAIN
    request, text = lengths.query / CHARS_A_TOKEN, lengths.description / CHARS_A_TOKEN
    if recipe.base == POCKET:  # reads of every trace the request in other words
        records = samples * (1 + traced)
        return records, records * (request + MARKERS + recipe.replay * (REREAD * text + MARKERS))
    plain, again = request + TURN, recipe.empty_thinking_share * traced
    trace = traced * lengths.trace / (CHARS_A_TOKEN * IN_TRACES)
    return samples * (1 + again), samples * (min(plain + trace, recipe.max_seq_len) + again * plain)


@dataclass(frozen=True, slots=True)
class Base:
    """A language model or an encoder: width, depth, the numbers of its layers and of its token tables."""

    hidden: int
    layers: int
    body: float
    tables: float


def shaped(hidden: int, layers: int, vocab: int, per_layer: int = 0) -> Base:
    """In the usual proportions; `per_layer`: width of a token table for each layer."""
    return Base(hidden, layers, 12.0 * layers * hidden**2, float(vocab * (hidden + layers * per_layer)))


E4B = Base(2560, 42, 3.97e9, 3.49e9)  # from its configuration
MINI_LM = shaped(384, 6, 30_522)  # all-MiniLM-L6-v2
SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*([bBmM])(?![A-Za-z])")


def base_of(name: str) -> Base | None:
    """From a folder's config.json, else from the name: `Qwen/Qwen3-0.6B` has about 0.6e9 numbers."""
    try:
        config = read_json(Path(name) / "config.json")
        text = config.get("text_config") or config
        hidden, layers, vocab = (int(text[key]) for key in ("hidden_size", "num_hidden_layers", "vocab_size"))
        return shaped(hidden, layers, vocab, int(text.get("hidden_size_per_layer_input") or 0))
    except (TraceError, AttributeError, KeyError, TypeError, ValueError):
        pass  # no folder of a model
    if re.search(r"(?i)gemma-?[34]n?-e4b", name):
        return E4B
    found = SIZE.findall(name.partition("@")[0].rsplit("/", 1)[-1].replace("-", " ").replace("_", " "))
    if not found:
        return None
    number, unit = found[-1]
    parameters = float(number) * (1e9 if unit in "bB" else 1e6)
    layers = max(4, round(32 * (parameters / 8e9) ** (1 / 3)))
    tables = min(0.5 * parameters, 150_000.0 * 128 * layers)
    return Base(128 * layers, layers, parameters - tables, tables)


@dataclass(frozen=True, slots=True)
class Size:
    """Of the model that trains: all numbers, and those that train."""

    base: Base
    parameters: float
    trained: float


def size_of(recipe: Recipe, tools: int) -> Size | None:
    """With the rows of new tokens, about one a tool; None when nothing says how large the named base is."""
    if recipe.base == POCKET:
        base = base_of(recipe.pocket.encoder) or MINI_LM
        trained = base.body + tools * base.hidden
        return Size(base, base.tables + trained, trained)
    if (found := base_of(recipe.base)) is None:
        return None
    # LoRA on seven linear layers, feed-forward 4 times the width; a row in each of two tables
    trained = recipe.lora.rank * found.layers * 23 * found.hidden + tools * 2 * found.hidden
    trained += found.tables if recipe.embeddings == "full" else 0
    return Size(found, found.body + found.tables + tools * 2 * found.hidden, trained)


def stage_seconds(recipe: Recipe, amount: Amount, rate: float) -> float:
    """At so many tokens a second; a time limit stops the stage early."""
    seconds, limit = amount.tokens * amount.epochs / rate, getattr(recipe, amount.stage).max_seconds
    return START + (min(seconds, limit) if limit else seconds)


def peak_memory(recipe: Recipe, size: Size, stages: Iterable[Amount], *, gpu: bool) -> float:
    """Bytes, of the stage that needs most; more where adapters are merged in 32 bits, after the optimizer is gone."""
    pocket = recipe.base == POCKET
    weights = size.parameters * (2 if gpu and not pocket else 4) + size.trained * STATE_BYTES
    merging = 0.0 if pocket else size.parameters * 4 + size.trained * 8
    whole = ACTIVATION[pocket]
    layers = size.base.layers
    kept = RECOMPUTED * layers + whole if recipe.activation_checkpointing else whole * layers
    tokens = 0.0  # of the widest forward pass
    for one in stages:
        stage = getattr(recipe, one.stage)
        length = min(recipe.max_seq_len, LONG * one.tokens / max(1, one.records))
        tokens = max(tokens, (stage.micro_batch or stage.batch_size) * length)
    activations = tokens * size.base.hidden * (kept + GRADIENT) * (1 if gpu and recipe.bf16 else 2)
    return (CONTEXT if gpu and not pocket else PROCESS) + max(weights + activations, merging)


def usual_rate(recipe: Recipe, size: Size, *, gpu: bool, threads: int) -> float:
    """Tokens a second, forward and backward: a frozen base needs no gradient of its weights."""
    products = (6 if recipe.base == POCKET else 4) + (2 if recipe.activation_checkpointing else 0)
    flops = size.base.body * products
    return (GPU_FLOPS if gpu and recipe.base != POCKET else CPU_FLOPS * threads) / flops


KIND = ("base", "lora", "embeddings", "bf16", "max_seq_len", "activation_checkpointing", "replay")


def kind(recipe: Recipe) -> Hashable:
    """What decides speed and memory: on one machine, runs of a kind are as fast and as large as one another."""
    batches = [(getattr(recipe, name).batch_size, getattr(recipe, name).micro_batch) for name in STAGES]
    return (*(getattr(recipe, name) for name in KIND), recipe.pocket.encoder, *batches)


def refusal(recipe: Recipe, counts: Mapping[str, int]) -> str:
    """Why the cell cannot train on a snapshot with these counts; empty when it can."""
    samples = {branch: counts.get(branch, 0) for branch in ("rrb", "rule", "imported")}
    wanted = sum(count for branch, count in samples.items() if recipe.retrieval == "r+R" or branch != "rule")
    if recipe.retrieval == "none" or wanted or not counts:
        return ""
    return (
        f"The snapshot has no sample that '{recipe.retrieval}' trains on. Build one with RRB or imported samples"
        f"{', or choose r+R' if samples['rule'] else ''}."
    )
