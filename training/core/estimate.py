"""What a run will read, weigh and take, before it starts: arithmetic only.

In: a recipe, the lengths of a snapshot's rows, the speed of a machine. Out: records and tokens of each stage,
parameters, bytes of memory, seconds. Every constant is a rule of thumb; measured speeds come from the caller.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from catalog.core.tokens import CLAUSES, FAMILIES
from trace_site.lib.files import read_json
from training.core.recipe import PLAIN, POCKET, Recipe
from training.core.stages import passes

UNITS = {"a": 1, "b": 2, "c": 4}  # token rows that name one tool
CHARS_A_TOKEN = 4.4
IN_TRACES = 1.3  # more, for a tool's name in a trace is one to four tokens
TURN = {
    True: 2,
    False: 40,
}  # tokens around a record of pocket, which reads a text, and of others: instruction, markers
SHORT = 60  # characters of a description as short as people ask
REASON = 70  # tokens of the short reason in an `mr` record
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
    """Means over a snapshot's rows, in characters; counts are exact.

    `samples`, `query` and `trace` by branch; `trace` is the mean over all samples of the branch, traced or not.
    """

    tools: int
    description: float
    look_alikes: float
    families: Mapping[str, int]
    samples: Mapping[str, int]
    query: Mapping[str, float]
    trace: Mapping[str, float]
    answer: float = 1.0

    def new_rows(self, fmt: str) -> int:
        return sum(self.families.get(family, 0) for family in FAMILIES[fmt])


@dataclass(frozen=True, slots=True)
class Amount:
    """One stage: its records and real tokens of one epoch, its optimiser steps, and the epochs those amount to."""

    stage: str
    records: int
    tokens: int
    steps: int
    epochs: float
    max_seconds: float = 0.0


def lengths_of(
    tools: Iterable[Mapping[str, Any]],
    samples: Iterable[Mapping[str, Any]],
    *,
    counts: Mapping[str, int],
    families: Mapping[str, int],
    look_alikes: float,
) -> Lengths:
    """From some rows of tools.jsonl and samples.jsonl; `counts`: {"tools", "rrb", "rule", "imported"} of all rows."""
    described = [len(row["description"]) for row in tools]
    rows = list(samples)
    branches = [branch for branch in ("rrb", "rule", "imported") if counts.get(branch)]
    of = {branch: [row for row in rows if row["branch"] == branch] or rows for branch in branches}
    return Lengths(
        tools=counts.get("tools", 0),
        description=_mean(described),
        look_alikes=look_alikes,
        families=families,
        samples={branch: counts[branch] for branch in branches},
        query={branch: _mean(len(row["query"]) for row in of[branch]) for branch in branches},
        trace={branch: _mean(len(row.get("trace") or "") for row in of[branch]) for branch in branches},
        answer=_mean(len(row["answer"]) for row in rows) or 1.0,
    )


def amounts(recipe: Recipe, lengths: Lengths) -> list[Amount]:
    """What each stage of the cell reads, in training order."""
    read = [("stage1", *_stage1(recipe, lengths))] if recipe.memo != "none" else []
    for retrieval in passes(recipe):
        read.append(("plain" if retrieval in PLAIN else "stage2", *_stage2(recipe, retrieval, lengths)))
    found = []
    for name, records, tokens in read:
        stage, count = getattr(recipe, name), round(records)
        steps = stage.steps(count) if count else 0
        epochs = steps / ceil(count / stage.batch_size) if count else 0.0
        found.append(Amount(name, count, round(tokens), steps, epochs, stage.max_seconds))
    return found


def _stage1(recipe: Recipe, lengths: Lengths) -> tuple[float, float]:
    units, turn, text = UNITS[recipe.format], TURN[recipe.base == POCKET], lengths.description / CHARS_A_TOKEN
    if recipe.base == POCKET:
        records = lengths.tools * (2 if recipe.format == "a" else 4)
        return records, records * (text + turn)
    choice = (1 + min(recipe.mcts_negatives, lengths.look_alikes)) * (units + 1)
    kinds = [text + units, text + units, text + units + choice]
    if recipe.format != "a":
        kinds += [text + 1, text + 2]
    reason = REASON if recipe.memo == "mr" else 0
    return lengths.tools * len(kinds), lengths.tools * sum(kind + turn + reason for kind in kinds)


def _stage2(recipe: Recipe, retrieval: str, lengths: Lengths) -> tuple[float, float]:
    pocket, described = recipe.base == POCKET, lengths.description
    answer = TURN[pocket] + (0 if pocket else lengths.answer * (UNITS[recipe.format] + 1) + 2)
    records = tokens = 0.0
    for branch, count in lengths.samples.items():
        if branch == "rule" and not retrieval.endswith("R"):
            continue
        plain = lengths.query[branch] / CHARS_A_TOKEN + answer
        traced = retrieval not in PLAIN and lengths.trace[branch] > 0
        trace = lengths.trace[branch] / (CHARS_A_TOKEN * IN_TRACES) if traced and not pocket else 0.0
        # pocket reads of every trace the request in other words
        again = (1.0 if pocket else recipe.empty_thinking_share) * traced
        records += count * (1 + again)
        tokens += count * (min(plain + trace, recipe.max_seq_len) + again * plain)
    reread = (described + min(described, SHORT)) / 2 / CHARS_A_TOKEN + answer
    return records, tokens + (records * recipe.replay * reread if pocket else 0)


# How large a named base is, from its configuration or, failing that, from its name; and an encoder.


@dataclass(frozen=True, slots=True)
class Base:
    """Numbers of a model: all, those every token passes through, those in its token tables."""

    parameters: float
    body: float
    tables: float
    hidden: int
    layers: int
    vocab: int


# from its configuration: body 3.97e9, tied table 0.67e9, per-layer table 2.82e9
E4B = Base(7.46e9, 3.97e9, 3.49e9, 2560, 42, 262_144)
SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*([bBmM])(?![A-Za-z])")


def base_of(name: str) -> Base | None:
    """`Qwen/Qwen3-0.6B` -> about 0.6e9 numbers in the usual proportions."""
    if re.search(r"(?i)gemma-?[34]n?-e4b", name):
        return E4B
    found = SIZE.findall(name.rsplit("/", 1)[-1].replace("-", " ").replace("_", " "))
    if not found:
        return None
    number, unit = found[-1]
    parameters = float(number) * (1e9 if unit in "bB" else 1e6)
    layers = max(4, round(32 * (parameters / 8e9) ** (1 / 3)))
    hidden, vocab = 128 * layers, 150_000
    tables = min(0.5 * parameters, float(vocab * hidden))
    return Base(parameters, parameters - tables, tables, hidden, layers, vocab)


def base_of_config(config: Mapping[str, Any], linears: int = 3) -> Base | None:
    """From config.json; a multimodal model's text part counts. `linears`: of a feed-forward part, 2 in an encoder."""
    try:
        text = config.get("text_config") or config
        hidden, layers, vocab = (int(text[key]) for key in ("hidden_size", "num_hidden_layers", "vocab_size"))
        wide = int(text.get("intermediate_size") or 4 * hidden)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    heads = int(text.get("num_attention_heads") or 1)
    groups = int(text.get("num_key_value_heads") or heads) / heads
    body = float(layers * (2 * hidden**2 * (1 + groups) + linears * hidden * wide))
    own = 0 if config.get("tie_word_embeddings", text.get("tie_word_embeddings", True)) else vocab * hidden
    per_layer = vocab * layers * int(text.get("hidden_size_per_layer_input") or 0)
    tables = float(vocab * hidden + own + per_layer)
    return Base(body + tables, body, tables, hidden, layers, vocab)


MINI_LM = Base(22.56e6, 10.84e6, 11.72e6, 384, 6, 30_522)  # all-MiniLM-L6-v2


def encoder_of(name: str) -> Base:
    """From a folder's config.json; a name is taken for the default one."""
    path = Path(name) / "config.json"
    config = read_json(path) if path.is_file() else {}
    if (found := base_of_config(config, linears=2)) is None:
        return MINI_LM
    places = int(config.get("max_position_embeddings") or 512) * found.hidden
    return replace(found, parameters=found.parameters + places, body=found.body + places)


@dataclass(frozen=True, slots=True)
class Size:
    """Of the model that trains: all numbers, those that train, those a token passes through, width and depth."""

    parameters: float
    trained: float
    active: float
    hidden: int
    layers: int


def size_of(recipe: Recipe, lengths: Lengths, base: Base | None = None) -> Size | None:
    """None when nothing says how large the named base is."""
    rows = lengths.new_rows(recipe.format)
    if recipe.base == POCKET:
        encoder = encoder_of(recipe.pocket.encoder)
        trained = encoder.body + (rows + lengths.families.get(CLAUSES, 0)) * encoder.hidden
        return Size(encoder.tables + trained, trained, encoder.body, encoder.hidden, encoder.layers)
    base = base or base_of(recipe.base)
    if base is None:
        return None
    # seven linear layers, feed-forward 4 times the width
    adapters = recipe.lora.rank * base.layers * 23 * base.hidden
    row = base.tables / base.vocab  # numbers of one token over all tables
    tables = base.tables + rows * row if recipe.embeddings == "full" else rows * row
    head = base.vocab * base.hidden
    return Size(base.parameters + rows * row, adapters + tables, base.body + head, base.hidden, base.layers)


def flops_a_token(recipe: Recipe, size: Size) -> float:
    """Forward and backward of one token: a frozen base needs no gradient of its weights."""
    passes_ = 6 if recipe.base == POCKET else 4
    return size.active * (passes_ + (2 if recipe.activation_checkpointing else 0))


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes at the peak, and the widest forward pass they are for. `merging`: all that is held while adapters are
    merged in 32 bits, after the optimizer is gone."""

    frozen: float
    trained: float
    activations: float
    process: float
    merging: float
    sequences: int
    length: int

    @property
    def peak(self) -> float:
        return self.process + max(self.frozen + self.trained + self.activations, self.merging)


def memory_of(recipe: Recipe, size: Size, stages: Iterable[Amount], *, gpu: bool) -> Memory:
    """Of the stage that needs most."""
    pocket = recipe.base == POCKET
    frozen = (size.parameters - size.trained) * 4 if pocket else size.parameters * (2 if gpu else 4)
    merging = 0.0 if pocket else size.parameters * 4 + size.trained * 8
    process = CONTEXT if gpu and not pocket else PROCESS
    trained = size.trained * STATE_BYTES
    # bytes of a token and width, over all layers
    whole = ACTIVATION[pocket]
    kept = RECOMPUTED * size.layers + whole if recipe.activation_checkpointing else whole * size.layers
    each = (kept + GRADIENT) * (1 if gpu and recipe.bf16 else 2)
    found = [Memory(frozen, trained, 0.0, process, merging, 0, 0)]
    for amount in stages:
        stage = getattr(recipe, amount.stage)
        sequences = stage.micro_batch or stage.batch_size
        length = min(recipe.max_seq_len, LONG * amount.tokens / max(1, amount.records))
        activations = sequences * length * size.hidden * each
        found.append(Memory(frozen, trained, activations, process, merging, sequences, round(length)))
    return max(found, key=lambda one: (one.peak, one.activations))


def stage_seconds(amount: Amount, tokens_a_second: float) -> float:
    """Without the start; a time limit stops the stage early."""
    seconds = amount.tokens * amount.epochs / tokens_a_second
    return min(seconds, amount.max_seconds) if amount.max_seconds else seconds


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


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
