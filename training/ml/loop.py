"""The training loop: one function that runs a stage and survives being killed.

In: a model, encoded examples, a stage's settings, a run directory. Out: trained weights in place. Checkpoints hold
weights, the optimizer's moments and the data position; randomness is a function of (seed, step), so a resumed run ends
with the same weights as one that was never killed. Only max_seconds reads the clock: it may stop a stage early, with
the schedule as it was. The step it stops at is kept as a checkpoint before anything is exported: a kill after that ends
with the same weights, a kill before it stops by the clock again.
"""

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.core.recipe import Recipe, Stage
from training.core.rundir import RunDir
from training.ml.bases.encoders import Progress
from training.ml.bases.named import device, without_adapters
from training.ml.checkpoints import State, Trainer, resume, save, settle
from training.ml.data import epoch_batches, replayed
from training.ml.optimizer import adamw, early_stop, learning_rate
from training.ml.step import train_step
from training.ml.team import Team
from training.ml.trainee import Example, Trainee

# Attention in float32 while the rest of a CPU training runs in bf16: torch's fused CPU attention takes twice as long on
# bf16 as on float32 (forward and backward, 64 to 512 positions), and is exact there. Elsewhere, and without autocast,
# the library's own `sdpa` is used.
NAME = "sdpa_float32"


def _in_float32(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    if not torch.is_autocast_enabled("cpu"):
        return sdpa_attention_forward(module, query, key, value, *args, **options)
    with torch.autocast("cpu", enabled=False):
        out, none = sdpa_attention_forward(
            module, query.float(), key.float(), value.float(), *args, **options
        )
    return out.to(value.dtype), none


AttentionInterface.register(NAME, _in_float32)
AttentionMaskInterface.register(NAME, sdpa_mask)


@contextmanager
def float32_attention(model: Any) -> Iterator[None]:
    """Use it on the CPU for as long as the context lasts; only where `sdpa` would have been used."""
    base = without_adapters(model)
    if device().type != "cpu" or base.config._attn_implementation != "sdpa":
        yield
        return
    base.set_attn_implementation(NAME)
    try:
        yield
    finally:
        base.set_attn_implementation("sdpa")


def peak_memory_mb() -> float:
    """The most memory held so far: the accelerator's, or this process's."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, KiB on Linux
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


METRICS_SECONDS = 1.0


class Stopped(Exception):
    """The STOP file was found; a checkpoint of this moment is on disk, or the message says which one is."""


class HelperDone(Exception):
    """Training has ended in a process that is not the first of its team: the first one exports."""


def fit(
    trainee: Trainee[Any],
    examples: Sequence[Example],
    stage: Stage,
    recipe: Recipe,
    run: RunDir,
    name: str,
    report: Progress,
    replay: Sequence[Example] = (),
) -> State:
    """Train to the last step or the time limit, from the newest intact checkpoint on. Raises Stopped on a STOP file.

    `replay`: examples of which `recipe.replay` go beside each example of a batch.
    """
    torch.set_num_threads(recipe.threads)
    trainer = prepare(trainee, examples, stage, recipe, run, name, replay)
    resume(trainer)
    state, team = trainer.state, trainer.team
    team.require_same(trainer.fingerprint, state.step)
    trainee.check(examples)
    trainee.model.train()
    meter, started, seconds = Meter(trainer, report), time.monotonic(), state.seconds
    saved = started
    with float32_attention(trainee.attending):
        for batch in batches(trainer, replay):
            norm = train_step(trainer, batch)
            now = time.monotonic()
            state.seconds = seconds + now - started
            stop = False
            if state.step % team.rhythm == 0:
                spent = 0 < stage.max_seconds <= state.seconds
                stop, state.spent = team.agree(run.stop_requested(), spent)
            last = state.spent or state.step >= trainer.steps
            meter.read(norm, now, last)
            if state.spent or (not last and (stop or now - saved >= recipe.checkpoint_seconds)):
                kept = save(trainer)
                saved = time.monotonic()
            if stop and not last:
                note = "" if kept else "; the disk is full, so it goes on from an older checkpoint"
                raise Stopped(f"stopped on request at step {state.step} of {trainer.steps}{note}")
    trainee.model.eval()
    team.leave()
    if early := early_stop(stage, state.step, len(examples)):
        run.log(f"{name}: stopped at {early['Stopped at']}; it is not a finished run")
    if not run.writer:
        raise HelperDone
    return state


def batches(trainer: Trainer, replay: Sequence[Example]) -> Iterator[list[Example]]:
    """The batch of each step that is left, with what is replayed beside it."""
    state, stage, recipe, examples = trainer.state, trainer.stage, trainer.recipe, trainer.examples
    lengths = [len(example.ids) for example in examples]
    beside = round(recipe.replay * stage.batch_size)
    order: list[list[int]] = []
    while state.step < trainer.steps and not state.spent:
        epoch, position = divmod(state.step, trainer.per_epoch)
        if not order or position == 0:
            order = epoch_batches(lengths, stage.batch_size, recipe.seed, epoch)
        again = replayed(len(replay), beside, recipe.seed, state.step)
        yield [*(examples[number] for number in order[position]), *(replay[number] for number in again)]


class Meter:
    """About every second a row of metrics; every step and token is in one."""

    def __init__(self, trainer: Trainer, report: Progress) -> None:
        self.trainer, self.report = trainer, report
        self.wrote, self.tokens = time.monotonic(), trainer.state.tokens

    def read(self, norm: torch.Tensor, now: float, last: bool) -> None:
        trainer, state, passed = self.trainer, self.trainer.state, now - self.wrote
        if not (last or passed >= METRICS_SECONDS or state.step == 1):
            return
        settle(trainer)
        if trainer.run.writer:
            rate = (state.tokens - self.tokens) / max(passed, 1e-6)
            row = {
                "stage": trainer.name,
                "step": state.step,
                "steps": trainer.steps,
                "tokens": state.tokens,
                "loss": round(state.loss, 4),
                "lr": learning_rate(trainer.stage, (state.step - 1) / trainer.steps),
                "grad_norm": round(norm.item(), 4),
                "tokens_per_second": round(rate, 1),
                "computed_ratio": round(trainer.computed / max(trainer.real, 1), 4),
                "memory_mb": round(peak_memory_mb()),
                "seconds": round(state.seconds, 2),
                "epoch": round(state.step / trainer.per_epoch, 3),
            }
            trainer.run.add_metrics(row)
            told = f"loss {state.loss:.3f}, {rate:,.0f} tokens/s"
            self.report(state.step, trainer.steps, told)
        self.wrote, self.tokens = now, state.tokens


def prepare(
    trainee: Trainee[Any],
    examples: Sequence[Example],
    stage: Stage,
    recipe: Recipe,
    run: RunDir,
    name: str,
    replay: Sequence[Example],
) -> Trainer:
    """The weights that train and what moves them, at step 0."""
    if not examples:
        raise TraceError(f"there is nothing to train {name} on.", code="no_records")
    team = Team()
    trainee.to(device())
    if recipe.activation_checkpointing:
        without_adapters(trainee.attending).activation_checkpointing_enable()
    weights = {}
    for key, value in trainee.model.named_parameters():
        value.requires_grad_(value.requires_grad and trainee.peak(key, stage) > 0)
        if value.requires_grad:
            weights[key] = value
    ids = [astuple(example) for example in (*examples, *replay)]
    fingerprint = content_hash([asdict(stage), recipe.seed, recipe.replay, name, ids])
    optimizer, steps = adamw(trainee, weights, stage), stage.steps(len(examples))
    parts = (run, name, State(), optimizer, weights, fingerprint, steps, team)
    return Trainer(trainee, examples, stage, recipe, *parts)
