"""What a run would read, need and take, and what each figure rests on: measured here where it can be.

Speeds and memory come from the newest runs of the same base on the worker's hardware, lengths from some rows of the
snapshot's files; what nobody measured is a rule of thumb of core/estimate.py and says so.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef

from catalog.models import TokenUnit
from synthesis.models import Snapshot
from trace_site import worker as trace_site_worker
from trace_site.artefacts import store
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.provenance import hardware_facts
from training.core import estimate as sums
from training.core import recipe as recipes
from training.core.estimate import Amount, Base, Lengths, Memory, Size, base_of, base_of_config
from training.core.recipe import POCKET, STAGES, Recipe, shown
from training.models import Run, RunMetric, TrainedStage
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
    """Of a frozen snapshot's rows; where its files are out of reach usual lengths and the counts of the database."""
    try:
        return _lengths(snapshot.hash, snapshot.store_key)
    except (OSError, ValueError, KeyError):
        counts = {name: snapshot.counts.get(name, 0) for name in ("tools", "rrb", "rule", "imported")}
        rows = [{"branch": name, "query": "x" * 90, "trace": "x" * 600, "answer": ["x"]} for name in counts]
        families = {"flat": counts["tools"], "part": 2 * counts["tools"], "wrap": 2}
        tools = [{"description": "x" * 160}]
        return sums.lengths_of(tools, rows, counts=counts, families=families, look_alikes=13)


@lru_cache(maxsize=64)
def _lengths(snapshot_hash: str, store_key: str) -> Lengths:
    place = store()
    folder = f"{place.root}/{store_key}"
    read = place.filesystem.cat_file
    manifest = json.loads(read(f"{folder}/manifest.json"))
    ledger = read(f"{folder}/tokens.jsonl")
    near = _rows(place, f"{folder}/neighbours.jsonl", 1)
    return sums.lengths_of(
        _rows(place, f"{folder}/tools.jsonl"),
        _rows(place, f"{folder}/samples.jsonl"),
        counts={"tools": manifest["files"]["tools.jsonl"]["rows"], **manifest["counts"]},
        families={name: ledger.count(f'"family": "{name}"'.encode()) for name in TokenUnit.Family.values},
        look_alikes=sum(len(row["neighbours"]) for row in near) / max(1, len(near)),
    )


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


NEAR = 1.25  # two models of at most this ratio in size train alike
TIGHT = 0.9  # of the memory there is
RECENT = 5  # runs of a base that speeds are taken from
LONG_ENOUGH = 5.0  # seconds a stage must have trained to say anything


@dataclass(frozen=True, slots=True)
class Figure:
    """A number (None: unknown) and what it rests on."""

    value: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class StageFigure(Amount):
    """One stage before it trains. `reused_from`: the run that made the very same one."""

    seconds: float | None = None
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


@dataclass(frozen=True, slots=True)
class Measured:
    """One trained stage of an earlier run. Tokens are real ones, padding not counted."""

    run: int
    base: str
    recipe: Recipe
    tokens: float
    seconds: float
    memory_mb: float


def measured(bases: Iterable[str], machine: Mapping[str, Any]) -> list[Measured]:
    """The stages of the newest ended runs of these bases on the same hardware; a query a base and one more."""
    runs: dict[int, tuple[str, Recipe]] = {}
    trained = Exists(RunMetric.objects.filter(run=OuterRef("pk")))
    for base in sorted(bases):
        ended = Run.objects.filter(trained, base=base, job__state=Job.State.DONE)
        rows = ended.order_by("-pk").values_list("pk", "recipe", "hardware")[: 2 * RECENT]
        same = ("cpu", "gpu", "threads")  # speeds carry over
        alike = [row for row in rows if all(row[2].get(name) == machine.get(name) for name in same)]
        for pk, recipe, _ in alike[:RECENT]:
            with suppress(TraceError):  # a recipe of an earlier version says nothing about this one
                runs[pk] = (base, recipes.stored(recipe))
    points = RunMetric.objects.filter(run__in=runs).order_by("run_id", "stage", "-step")
    found = []
    for run, data in points.distinct("run_id", "stage").values_list("run_id", "data"):
        tokens, seconds = data.get("tokens") or 0, data.get("seconds") or 0.0
        if seconds >= LONG_ENOUGH and tokens:
            found.append(Measured(run, *runs[run], tokens, seconds, data.get("memory_mb") or 0))
    return found


def estimate(recipe: Recipe, snapshot: Snapshot) -> Estimate:
    """Starts and changes nothing. Four queries and one bounded read of the snapshot's files."""
    keys = {step.key: step.stage for step in run_steps(recipe, snapshot)}
    known = TrainedStage.objects.filter(key__in=keys, removed_at=None).values_list("key", "run_id")
    return Estimator([recipe.base]).of(recipe, snapshot, {keys[key]: run for key, run in known})


class Estimator:
    """Estimates of several runs with the same history: queries do not grow with their number."""

    def __init__(self, bases: Iterable[str]) -> None:
        self.machine = machine()
        self.history = measured(set(bases), self.machine.hardware)

    def of(self, recipe: Recipe, snapshot: Snapshot, made: Mapping[str, int]) -> Estimate:
        """`made`: {stage: run} of the stages that are there already."""
        lengths = lengths_of(snapshot)
        size = sums.size_of(recipe, lengths, base_facts(recipe.base))
        amounts = sums.amounts(recipe, lengths)
        rate, basis = self.speed(recipe, lengths, size)
        stages = []
        for one in amounts:
            known = one.stage in made
            seconds = 0.0 if known else None if rate is None else sums.stage_seconds(one, rate)
            stages.append(StageFigure(**asdict(one), seconds=seconds, reused_from=made.get(one.stage)))
        read = sum(round(one.tokens * one.epochs) for one in stages if one.reused_from is None)
        parts = sums.memory_of(recipe, size, amounts, gpu=self.machine.gpu) if size else None
        memory = self._memory(recipe, parts)
        total = None if rate is None else sum(one.seconds or 0 for one in stages) + sums.START * len(stages)
        if size is None:
            sized = "its name says no size, and it is no folder on this machine"
        elif recipe.base == POCKET:
            sized = "counted from the recipe and the catalog"
        else:
            sized = f"{size.trained / 1e6:,.0f} M of them train; from the base's configuration or name"
        return Estimate(
            stages,
            Figure(round(size.parameters) if size else None, sized),
            Figure(read, "from the lengths of the snapshot's rows; what is reused is not counted"),
            Figure(total and round(total), basis),
            memory,
            self.machine,
            list(self._warnings(recipe, memory, [one for one in amounts if one.stage not in made], rate)),
            sums.refusal(recipe, snapshot.counts),
            self._assumed(recipe, size, parts, memory.value == parts.peak) if size and parts else "",
        )

    def speed(self, recipe: Recipe, lengths: Lengths, size: Size | None) -> tuple[float | None, str]:
        """(tokens a second, what that rests on)"""
        if size is None:
            return None, "nothing says how large this base is"
        need = sums.flops_a_token(recipe, size)
        sized: list[tuple[Measured, float]] = []
        for one in self.history:
            own = sums.size_of(one.recipe, lengths, base_facts(one.base))
            if one.base == recipe.base and own:
                sized.append((one, sums.flops_a_token(one.recipe, own)))
        alike = [(one, flops) for one, flops in sized if max(flops, need) <= NEAR * min(flops, need)]
        if found := alike or sized:
            work = sum(one.tokens * flops for one, flops in found)
            rate = work / sum(one.seconds for one, _ in found) / need
            other = "" if alike else " of another size, scaled"
            runs = _earlier_runs(one for one, _ in found)
            return rate, f"from {runs} on this hardware{other}: {rate:,.0f} tokens/s"
        threads = int(self.machine.hardware.get("threads") or settings.ML_THREADS)
        on_gpu = self.machine.gpu and recipe.base != POCKET
        rate = (sums.GPU_FLOPS if on_gpu else sums.CPU_FLOPS * threads) / need
        return rate, f"a rule of thumb, nothing like it ran here yet: {rate:,.0f} tokens/s"

    def _memory(self, recipe: Recipe, parts: Memory | None) -> Figure:
        alike = [one for one in self.history if one.base == recipe.base and _same_memory(one.recipe, recipe)]
        if alike:
            peak = max(one.memory_mb for one in alike) * 2**20
            return Figure(peak, f"the peak of {_earlier_runs(alike)} with these settings here")
        if parts is None:
            return Figure(None, "nothing says how large this base is")
        basis = "a rule of thumb from parameters, optimizer, batch and length; may be off by half"
        return Figure(parts.peak, basis)

    def _assumed(self, recipe: Recipe, size: Size, parts: Memory, counted: bool) -> str:
        """What the figures count with, in words; with the bytes of each part where they were counted."""

        def took(bytes_: float) -> str:
            return f" ({bytes_ / 2**30:,.1f} GB)" if counted else ""

        gpu, room, kind = self.machine.gpu, self.machine.memory_gb, "bf16" if self.machine.gpu else "fp32"
        said = [
            f"{'One GPU' if gpu else 'No GPU; memory'} of {room} GB." if room else "Memory of unknown size."
        ]
        trains = "all but the word rows of the encoder"
        if recipe.base != POCKET:
            frozen = (
                f"{_many(size.parameters)} numbers of the base stay frozen in {kind}{took(parts.frozen)}."
            )
            said.append(frozen)
            tables = "whole token tables" if recipe.embeddings == "full" else "tool rows of the token tables"
            trains = f"LoRA of rank {recipe.lora.rank} and the {tables}"
        said.append(
            f"{_many(size.trained)} train in fp32, each with its gradient and two moments of AdamW"
            f"{took(parts.trained)}: {trains}."
        )
        if parts.sequences:
            kind = "bf16" if gpu and recipe.bf16 else "fp32"
            again = ", recomputed in the backward pass" if recipe.activation_checkpointing else ""
            said.append(
                f"{parts.sequences} sequences of up to {parts.length:,} tokens at once, their activations in {kind}"
                f"{again}{took(parts.activations)}."
            )
        return " ".join(said)

    def _warnings(
        self, recipe: Recipe, memory: Figure, todo: Iterable[Amount], rate: float | None
    ) -> Iterable[str]:
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
        for amount in todo:
            limit, needed = amount.max_seconds, amount.tokens * amount.epochs / rate if rate else 0.0
            if limit and needed > limit:
                yield (
                    f"{STAGES[amount.stage]} needs about {needed:,.0f} s; its time limit of {shown(limit)} s stops it "
                    f"at about {100 * limit / needed:.0f} % of its steps, with its schedule unfinished. Set fewer "
                    "epochs or steps instead."
                )


def _earlier_runs(found: Iterable[Measured]) -> str:
    count = len({one.run for one in found})
    return f"{count} earlier run{'s' if count > 1 else ''}"


def machine() -> Machine:
    """The newest living worker's hardware, else that of the newest run, else this process's own."""
    if (worker := trace_site_worker.alive("gpu").first()) is not None:
        return Machine(worker.hardware, f"worker on {worker.host}", True)
    run = Run.objects.exclude(hardware={}).order_by("-pk").values_list("hardware", "pk").first()
    if run is not None:
        return Machine(run[0], f"where run {run[1]} trained", False)
    return Machine(hardware_facts(settings.ML_THREADS), "where this site runs", False)


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
