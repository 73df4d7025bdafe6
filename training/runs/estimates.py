"""What a run would read, need and take, and what each figure rests on: measured here where it can be.

Speeds and memory come from the newest runs of the same base on the worker's hardware, lengths from some rows of the
snapshot's files; what nobody measured is a rule of thumb of core/estimate.py and says so.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from synthesis.models import Snapshot
from trace_site import worker as trace_site_worker
from trace_site.artefacts import store
from trace_site.lib.provenance import hardware_facts
from training.core import estimate as sums
from training.core.bases import Base, base_of, base_of_config
from training.core.estimate import Amount, Lengths, Memory, Size
from training.core.recipe import POCKET, STAGES, Recipe, shown
from training.models import Run, TrainedStage
from training.runs.selectors import Measured, measured
from training.runs.services import run_steps

# How long a snapshot's rows are, read from a bounded part of its files; and how large a named base is.


BLOCKS, BLOCK_BYTES = 12, 48_000  # how much of a file is read: enough for a mean, little enough for a page


@lru_cache(maxsize=64)
def base_facts(name: str) -> Base | None:
    """Of a local folder from its config.json, else from the name."""
    path = Path(name) / "config.json"
    if name != POCKET and name.startswith(("/", ".")) and path.is_file():
        try:
            return base_of_config(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError):
            return None
    return base_of(name)


def lengths_of(snapshot: Snapshot) -> Lengths:
    """Of a frozen snapshot's rows; usual lengths where its files are out of reach."""
    try:
        return _lengths(snapshot.hash, snapshot.store_key)
    except (OSError, ValueError, KeyError):
        return _from_counts(snapshot)


@lru_cache(maxsize=64)
def _lengths(snapshot_hash: str, store_key: str) -> Lengths:
    place = store()
    folder = f"{place.root}/{store_key}"
    read = place.filesystem.cat_file
    manifest = json.loads(read(f"{folder}/manifest.json"))
    ledger = read(f"{folder}/tokens.jsonl")
    families = {name: ledger.count(f'"family": "{name}"'.encode()) for name in ("flat", "part", "wrap")}
    near = _rows(place, f"{folder}/neighbours.jsonl", 1)
    return sums.lengths_of(
        _rows(place, f"{folder}/tools.jsonl"),
        _rows(place, f"{folder}/samples.jsonl"),
        counts={"tools": manifest["files"]["tools.jsonl"]["rows"], **manifest["counts"]},
        families=families,
        look_alikes=sum(len(row["neighbours"]) for row in near) / max(1, len(near)),
    )


def _from_counts(snapshot: Snapshot) -> Lengths:
    """When the files cannot be read: usual lengths, and the counts that the database keeps."""
    counts = {name: snapshot.counts.get(name, 0) for name in ("tools", "rrb", "rule", "imported")}
    rows = [{"branch": name, "query": "x" * 90, "trace": "x" * 600, "answer": ["x"]} for name in counts]
    tools = [{"description": "x" * 160}]
    families = {"flat": counts["tools"], "part": 2 * counts["tools"], "wrap": 2}
    return sums.lengths_of(tools, rows, counts=counts, families=families, look_alikes=13)


def _rows(place: Any, path: str, blocks: int = BLOCKS) -> list[dict[str, Any]]:
    """Whole rows of some blocks spread evenly over a file of JSON lines; all of them when it is small."""
    size = place.filesystem.size(path)
    with place.filesystem.open(path, "rb") as handle:
        if size <= blocks * BLOCK_BYTES:
            return [json.loads(line) for line in handle.read().splitlines() if line.strip()]
        rows = []
        for number in range(blocks):
            start = number * (size - BLOCK_BYTES) // max(1, blocks - 1)
            handle.seek(start)
            lines = handle.read(BLOCK_BYTES).split(b"\n")
            rows += [json.loads(line) for line in lines[1 if start else 0 : -1]]
    return rows


NEAR, FAR = 1.25, 4.0  # two models of at most this ratio in size train alike; speeds scale up to that one
TIGHT = 0.9  # of the memory there is


@dataclass(frozen=True, slots=True)
class Figure:
    """A number (None: unknown) and what it rests on."""

    value: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class StageFigure:
    """One stage before it trains. `reused_from`: the run that made the very same one."""

    stage: str
    records: int
    tokens: int
    epochs: float
    steps: int
    seconds: float | None
    reused_from: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the run will train, as far as is known."""

    hardware: dict[str, Any]
    basis: str
    alive: bool

    @property
    def gpu(self) -> bool:
        return bool(self.hardware.get("gpu"))

    @property
    def memory_gb(self) -> int:
        return int(self.hardware.get("gpu_memory_gb" if self.gpu else "memory_gb") or 0)


@dataclass(frozen=True, slots=True)
class Estimate:
    stages: list[StageFigure]
    parameters: Figure
    tokens: Figure
    seconds: Figure
    memory: Figure
    machine: Machine
    warnings: list[str] = field(default_factory=list)
    refusal: str = ""
    assumes: str = ""


def estimate(recipe: Recipe, snapshot: Snapshot) -> Estimate:
    """Starts and changes nothing. Four queries and one bounded read of the snapshot's files."""
    return Estimator([recipe.base]).of(recipe, snapshot)


class Estimator:
    """Estimates of several runs with the same history: queries do not grow with their number."""

    def __init__(self, bases: Iterable[str]) -> None:
        self.machine = machine()
        self.history = measured(set(bases), self.machine.hardware)

    def of(self, recipe: Recipe, snapshot: Snapshot, made: Mapping[str, int] | None = None) -> Estimate:
        """`made`: {stage: run} of the stages that are there already; asked of the database when it is not given."""
        lengths = lengths_of(snapshot)
        size = sums.size_of(recipe, lengths, base_facts(recipe.base))
        amounts = sums.amounts(recipe, lengths)
        made = _made(recipe, snapshot) if made is None else made
        rate, basis = self.speed(recipe, lengths, size)
        stages = [_stage(amount, rate, made.get(amount.stage)) for amount in amounts]
        read = sum(round(one.tokens * one.epochs) for one in stages if one.reused_from is None)
        parts = sums.memory_of(recipe, size, amounts, gpu=self.machine.gpu) if size else None
        memory = self._memory(recipe, parts)
        seconds = None if rate is None else sum(one.seconds or 0 for one in stages) + sums.START * len(stages)
        return Estimate(
            stages,
            Figure(round(size.parameters) if size else None, _sized(recipe, size)),
            Figure(read, "from the lengths of the snapshot's rows; what is reused is not counted"),
            Figure(seconds and round(seconds), basis),
            memory,
            self.machine,
            [*self._warnings(recipe, memory), *_cut_short(amounts, rate, made)],
            sums.refusal(recipe, snapshot.counts),
            self._assumed(recipe, size, parts, memory.value == parts.peak) if size and parts else "",
        )

    def speed(self, recipe: Recipe, lengths: Lengths, size: Size | None) -> tuple[float | None, str]:
        """(tokens a second, what that rests on)"""
        if size is None:
            return None, "nothing says how large this base is"
        need = sums.flops_a_token(recipe, size)
        known = [one for one in self.history if one.base == recipe.base]
        sizes = [(one, self._flops(one, lengths)) for one in known]
        alike = [
            (one, flops) for one, flops in sizes if flops and max(flops, need) <= NEAR * min(flops, need)
        ]
        if found := alike or [(one, flops) for one, flops in sizes if flops]:
            work = sum(one.tokens * flops for one, flops in found)
            rate = work / sum(one.seconds for one, _ in found) / need
            runs = len({one.run for one, _ in found})
            other = "" if alike else " of another size, scaled"
            plural = "s" if runs > 1 else ""
            return rate, f"from {runs} earlier run{plural} on this hardware{other}: {rate:,.0f} tokens/s"
        threads = int(self.machine.hardware.get("threads") or settings.ML_THREADS)
        rate = sums.thumb_flops(recipe, threads, self.machine.gpu) / need
        return rate, f"a rule of thumb, nothing like it ran here yet: {rate:,.0f} tokens/s"

    def _flops(self, one: Measured, lengths: Lengths) -> float:
        size = sums.size_of(one.recipe, lengths, base_facts(one.base))
        return sums.flops_a_token(one.recipe, size) if size else 0.0

    def _memory(self, recipe: Recipe, parts: Memory | None) -> Figure:
        alike = [one for one in self.history if one.base == recipe.base and _same_memory(one.recipe, recipe)]
        if alike:
            runs = len({one.run for one in alike})
            peak = max(one.memory_mb for one in alike) * 2**20
            return Figure(
                peak, f"the peak of {runs} earlier run{'s' if runs > 1 else ''} with these settings here"
            )
        if parts is None:
            return Figure(None, "nothing says how large this base is")
        basis = "a rule of thumb from parameters, optimizer, batch and length; may be off by half"
        return Figure(parts.peak, basis)

    def _assumed(self, recipe: Recipe, size: Size, parts: Memory, counted: bool) -> str:
        """What the figures count with, in words; with the bytes of each part where they were counted."""

        def took(bytes_: float) -> str:
            return f" ({bytes_ / 2**30:,.1f} GB)" if counted else ""

        gpu, room = self.machine.gpu, self.machine.memory_gb
        said = [
            f"{'One GPU' if gpu else 'No GPU; memory'} of {room} GB." if room else "Memory of unknown size."
        ]
        if recipe.base != POCKET:
            kind = "bf16" if gpu else "fp32"
            said.append(
                f"{_many(size.parameters)} numbers of the base stay frozen in {kind}{took(parts.frozen)}."
            )
        said.append(
            f"{_many(size.trained)} train in fp32, each with its gradient and two moments of AdamW"
            f"{took(parts.trained)}: {_what_trains(recipe)}."
        )
        if parts.sequences:
            kind = "bf16" if gpu and recipe.bf16 else "fp32"
            again = ", recomputed in the backward pass" if recipe.activation_checkpointing else ""
            said.append(
                f"{parts.sequences} sequences of up to {parts.length:,} tokens at once, their activations in {kind}"
                f"{again}{took(parts.activations)}."
            )
        return " ".join(said)

    def _warnings(self, recipe: Recipe, memory: Figure) -> Iterable[str]:
        room = self.machine.memory_gb
        if memory.value and room and memory.value > TIGHT * room * 2**30:
            whose = "the accelerator" if self.machine.gpu else "the machine"
            yield (
                f"It may run out of memory: about {memory.value / 2**30:.0f} GB of the {room} GB that {whose} has. "
                "Use a smaller micro batch, recompute activations, or new_rows embeddings."
            )
        if recipe.base != POCKET and not self.machine.gpu:
            yield "The worker has no accelerator; a named base trains very slowly on a processor."
        if not self.machine.alive:
            yield "No training worker is running: the run will wait in the queue until one starts."


def machine() -> Machine:
    """The newest living worker's hardware, else that of the newest run, else this process's own."""
    if (worker := trace_site_worker.alive("gpu").first()) is not None:
        return Machine(worker.hardware, f"worker on {worker.host}", True)
    run = Run.objects.exclude(hardware={}).order_by("-pk").values_list("hardware", "pk").first()
    if run is not None:
        return Machine(run[0], f"where run {run[1]} trained", False)
    return Machine(hardware_facts(settings.ML_THREADS), "where this site runs", False)


def _made(recipe: Recipe, snapshot: Snapshot) -> dict[str, int]:
    """{stage: the run that trained it} of the stages that need not train again."""
    keys = {step.key: step.stage for step in run_steps(recipe, snapshot)}
    known = TrainedStage.objects.filter(key__in=keys, removed_at=None).values_list("key", "run_id")
    return {keys[key]: run for key, run in known}


def _stage(amount: Amount, rate: float | None, made: int | None) -> StageFigure:
    seconds = 0.0 if made is not None else None if rate is None else sums.stage_seconds(amount, rate)
    return StageFigure(
        amount.stage, amount.records, amount.tokens, amount.epochs, amount.steps, seconds, made
    )


def _cut_short(amounts: Iterable[Amount], rate: float | None, made: Mapping[str, int]) -> Iterable[str]:
    """A line for each stage whose time limit is expected to stop it."""
    for amount in amounts:
        if rate is None or amount.stage in made or not amount.max_seconds:
            continue
        needed = sums.all_seconds(amount, rate)
        if needed > amount.max_seconds:
            yield (
                f"{STAGES[amount.stage]} needs about {needed:,.0f} s; its time limit of {shown(amount.max_seconds)} s"
                f" stops it at about {100 * amount.max_seconds / needed:.0f} % of its steps, with its schedule"
                " unfinished. Set fewer epochs or steps instead."
            )


def _sized(recipe: Recipe, size: Size | None) -> str:
    if size is None:
        return "its name says no size, and it is no folder on this machine"
    if recipe.base == POCKET:
        return "counted from the recipe and the catalog"
    return f"{size.trained / 1e6:,.0f} M of them train; from the base's configuration or name"


def _what_trains(recipe: Recipe) -> str:
    if recipe.base == POCKET:
        return "all but the word rows of the encoder"
    tables = "the whole token tables" if recipe.embeddings == "full" else "the tool rows of the token tables"
    return f"LoRA of rank {recipe.lora.rank} and {tables}"


def _many(count: float) -> str:
    return f"{count / 1e9:,.2f} billion" if count >= 1e9 else f"{count / 1e6:,.1f} million"


def _same_memory(one: Recipe, other: Recipe) -> bool:
    """What decides the peak, apart from the data."""
    same = ("pocket", "lora", "embeddings", "bf16", "max_seq_len", "format", "activation_checkpointing")
    batches = [
        [(stage.batch_size, stage.micro_batch) for stage in (r.stage1, r.plain, r.stage2)]
        for r in (one, other)
    ]
    return batches[0] == batches[1] and all(getattr(one, name) == getattr(other, name) for name in same)
