"""The one estimate of a run: what it would read, need and take, and what each figure rests on.

Time and memory are those of earlier runs of the same kind on the machine that trains; where there were none, a rule of
thumb of core/estimate.py, which says so. Form, API, queue, grids, policies and what-if ask here.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from django.conf import settings
from django.db.models import Avg, Exists, OuterRef
from django.db.models.functions import Length

from catalog.models import Tool
from synthesis.generate.estimates import Figure
from synthesis.models import Sample, Snapshot
from trace_site import worker as trace_site_worker
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.provenance import hardware_facts
from training.core import estimate as sums
from training.core import recipe as recipes
from training.core.estimate import Amount, Lengths, Size
from training.core.recipe import POCKET, STAGES, Recipe, shown
from training.core.stages import Step
from training.models import Run, RunMetric, TrainedStage
from training.runs.services import run_steps

TIGHT = 0.9  # of the memory there is
RECENT = 20  # runs of a base that are looked at
NEWEST = 500  # samples whose lengths count as usual
LONG_ENOUGH = 5.0  # seconds a stage must have trained to say anything


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
    stages: list[Amount]
    parameters: Figure
    tokens: Figure
    seconds: Figure
    memory: Annotated[Figure, "bytes at the peak"]
    machine: Machine
    warnings: list[str] = field(default_factory=list)
    refusal: Annotated[str, "why it cannot train; empty when it can"] = ""
    assumes: Annotated[str, "what the memory counts with, in words; empty: the size is unknown"] = ""


@dataclass(slots=True)
class Measured:
    """Runs of one kind. Tokens are real ones, padding not counted."""

    runs: set[int] = field(default_factory=set)
    tokens: float = 0.0
    seconds: float = 0.0
    memory_mb: float = 0.0

    @property
    def basis(self) -> str:
        return f"{len(self.runs)} run{'s' if len(self.runs) > 1 else ''} of this kind on this machine"


def measured(bases: Iterable[str], machine: Mapping[str, Any]) -> dict[Hashable, Measured]:
    """{kind: what the newest ended runs of these bases on the same hardware took}; a query a base and one more."""
    kinds: dict[int, Hashable] = {}
    trained = Exists(RunMetric.objects.filter(run=OuterRef("pk")))
    for base in sorted(bases):
        ended = Run.objects.filter(trained, base=base, job__state=Job.State.DONE).order_by("-pk")
        for pk, recipe, hardware in ended.values_list("pk", "recipe", "hardware")[:RECENT]:
            if all(hardware.get(name) == machine.get(name) for name in ("cpu", "gpu", "threads")):
                with suppress(TraceError):  # a recipe of an earlier version says nothing about this one
                    kinds[pk] = sums.kind(recipes.stored(recipe))
    points = RunMetric.objects.filter(run__in=kinds).order_by("run_id", "stage", "-step")
    found: defaultdict[Hashable, Measured] = defaultdict(Measured)
    for run, data in points.distinct("run_id", "stage").values_list("run_id", "data"):
        tokens, seconds = data.get("tokens") or 0, data.get("seconds") or 0.0
        if seconds >= LONG_ENOUGH and tokens:
            one = found[kinds[run]]
            one.runs.add(run)
            one.tokens += tokens
            one.seconds += seconds
            one.memory_mb = max(one.memory_mb, data.get("memory_mb") or 0)
    return dict(found)


def usual_lengths() -> Lengths:
    """Of the tools and the newest samples; two queries."""
    tools = Tool.objects.filter(status=Tool.Status.ACTIVE).aggregate(description=Avg(Length("description")))
    newest = Sample.objects.filter(machine=Sample.Machine.READY).order_by("-pk")[:NEWEST]
    samples = newest.aggregate(query=Avg(Length("query")), trace=Avg(Length("trace")))
    return Lengths(**{name: mean for name, mean in (tools | samples).items() if mean})


def estimate(recipe: Recipe, snapshot: Snapshot) -> Estimate:
    """Starts and changes nothing; a constant number of queries."""
    return Estimator([recipe.base]).of(recipe, snapshot.counts, made_stages(run_steps(recipe, snapshot)))


def made_stages(steps: Iterable[Step]) -> dict[str, int]:
    """{stage: the run that trained it} of those whose files are kept; one query."""
    keys = {step.key: step.stage for step in steps}
    known = TrainedStage.objects.filter(key__in=keys, removed_at=None).values_list("key", "run_id")
    return {keys[key]: run for key, run in known}


class Estimator:
    """Estimates of several runs with the same history: queries do not grow with their number."""

    def __init__(self, bases: Iterable[str]) -> None:
        self.machine = machine()
        self.history = measured(set(bases), self.machine.hardware)
        self.lengths = usual_lengths()

    def of(self, recipe: Recipe, counts: Mapping[str, int], made: Mapping[str, int]) -> Estimate:
        """counts: of a snapshot. `made`: {stage: run} of the stages that are there already."""
        size = sums.size_of(recipe, counts.get("tools", 0))
        known = self.history.get(sums.kind(recipe))
        rate, basis = self._speed(recipe, size, known)
        stages = []
        for one in sums.amounts(recipe, counts, self.lengths):
            seconds = 0.0 if one.stage in made else rate and sums.stage_seconds(recipe, one, rate)
            stages.append(replace(one, seconds=seconds, reused_from=made.get(one.stage)))
        todo = [one for one in stages if one.stage not in made]
        memory = self._memory(recipe, size, known, stages)
        if size is None:
            sized = "its name says no size, and it is no folder on this machine"
        elif recipe.base == POCKET:
            sized = "counted from the recipe and the catalog"
        else:
            sized = f"{size.trained / 1e6:,.0f} M of them train; from the base's configuration or name"
        total = None if rate is None else round(sum(one.seconds or 0.0 for one in todo))
        read = sum(round(one.tokens * one.epochs) for one in todo)
        return Estimate(
            stages,
            Figure(round(size.parameters) if size else None, sized),
            Figure(read, "from the usual lengths of texts here; what is reused is not counted"),
            Figure(total, basis),
            memory,
            self.machine,
            list(self._warnings(recipe, memory, todo, rate)),
            sums.refusal(recipe, counts),
            self._assumed(recipe, size) if size else "",
        )

    def _speed(self, recipe: Recipe, size: Size | None, known: Measured | None) -> tuple[float | None, str]:
        """(tokens a second, what that rests on)"""
        if known is not None:
            rate = known.tokens / known.seconds
            return rate, f"from {known.basis}: {rate:,.0f} tokens/s"
        if size is None:
            return None, "nothing says how large this base is"
        threads = int(self.machine.hardware.get("threads") or settings.ML_THREADS)
        rate = sums.usual_rate(recipe, size, gpu=self.machine.gpu, threads=threads)
        return rate, f"a rule of thumb, never measured here: {rate:,.0f} tokens/s"

    def _memory(
        self, recipe: Recipe, size: Size | None, known: Measured | None, stages: Iterable[Amount]
    ) -> Figure:
        if known is not None and known.memory_mb:
            return Figure(known.memory_mb * 2**20, f"the peak of {known.basis}")
        if size is None:
            return Figure(None, "nothing says how large this base is")
        peak = sums.peak_memory(recipe, size, stages, gpu=self.machine.gpu)
        return Figure(peak, "a rule of thumb, never measured here; may be off by half")

    def _assumed(self, recipe: Recipe, size: Size) -> str:
        """What the figures count with, in words."""
        gpu, room = self.machine.gpu, self.machine.memory_gb
        said = [
            f"{'One GPU' if gpu else 'No GPU; memory'} of {room} GB." if room else "Memory of unknown size."
        ]
        trains = "all but the word rows of the encoder"
        if recipe.base != POCKET:
            kind = "bf16" if gpu else "fp32"
            said.append(f"{_many(size.parameters)} numbers of the base stay frozen in {kind}.")
            tables = "whole token tables" if recipe.embeddings == "full" else "tool rows of the token tables"
            trains = f"LoRA of rank {recipe.lora.rank} and the {tables}"
        said.append(
            f"{_many(size.trained)} train in fp32, each with its gradient and two moments of AdamW: {trains}."
        )
        kind = "bf16" if gpu and recipe.bf16 else "fp32"
        again = ", recomputed in the backward pass" if recipe.activation_checkpointing else ""
        return " ".join([*said, f"Activations are in {kind}{again}."])

    def _warnings(
        self, recipe: Recipe, memory: Figure, todo: Iterable[Amount], rate: float | None
    ) -> Iterator[str]:
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
            limit = getattr(recipe, amount.stage).max_seconds
            needed = amount.tokens * amount.epochs / rate if rate else 0.0
            if limit and needed > limit:
                yield (
                    f"{STAGES[amount.stage]} needs about {needed:,.0f} s; its time limit of {shown(limit)} s stops it "
                    f"at about {100 * limit / needed:.0f} % of its steps, with its schedule unfinished. Set fewer "
                    "epochs or steps instead."
                )


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
