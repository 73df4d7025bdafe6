"""The training loop: one function that runs a stage and survives being killed.

In: a model, encoded examples, a stage's settings, a run directory. Out: trained weights in place. Checkpoints hold
weights, the optimizer's moments and the data position; randomness is a function of (seed, step), so a resumed run ends
with the same weights as one that was never killed. Only max_seconds reads the clock: it may stop a stage early, with
the schedule as it was. The step it stops at is kept as a checkpoint before anything is exported: a kill after that ends
with the same weights, a kill before it stops by the clock again.
"""

import ctypes
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from typing import Any

import torch
from peft import PeftModel
from torch import nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.core.recipe import Recipe, Stage
from training.core.rundir import RunDir
from training.ml.bases.model import Trainee, device
from training.ml.checkpoints import State, Trainer, resume, save
from training.ml.data import Example, epoch_batches, replayed
from training.ml.optimizer import Optimizer, early_stop, known_before, learning_rate, peak
from training.ml.step import check_head, train_step
from training.ml.team import Team

# Attention in float32 while the rest of a CPU training runs in bf16.
#
# torch's fused CPU attention takes twice as long on bf16 as on float32 (forward and backward, 64 to 512 positions), and
# it is exact there. Elsewhere, and without autocast, the library's own `sdpa` is used.


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
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    if device().type != "cpu" or base.config._attn_implementation != "sdpa":
        yield
        return
    base.set_attn_implementation(NAME)
    try:
        yield
    finally:
        base.set_attn_implementation("sdpa")


# Memory of a training process: how much it took, and keeping the allocator from giving back what it needs again.


# glibc's mallopt: blocks up to this size come from the heap, and the heap's end is not given back below the next
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
KEPT = 2**30  # bytes; a training step frees and takes tens of MB again and again


def reuse_freed_memory() -> None:
    """Let large tensors reuse freed memory: else each step has the kernel clear fresh pages (a tenth of the time).

    Does nothing where the C library is not glibc.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT)
        mallopt(M_TRIM_THRESHOLD, KEPT)


def peak_memory_mb() -> float:
    """The most memory held so far: the accelerator's, or this process's."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, KiB on Linux
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


# Optional: every row of metrics also to TensorBoard or MLflow, chosen by TRACE_REPORT_TO.
#
# Nothing of it is imported unless the variable is set; metrics.jsonl stays the record.


VARIABLE = "TRACE_REPORT_TO"
Reporter = Callable[[dict[str, Any]], None]


@contextmanager
def reporter(run: RunDir, stage: str) -> Iterator[Reporter]:
    """A callable that passes a row on. Raises TraceError for an unknown name or a package that is not installed."""
    wanted = os.environ.get(VARIABLE, "") if run.writer else ""
    if wanted not in WAYS:
        raise TraceError(
            f"'{wanted}' is not a place metrics can be sent to.",
            code="bad_setting",
            where=VARIABLE,
            hint="Set it to tensorboard, to mlflow, or to nothing.",
        )
    with WAYS[wanted](run, stage) as tell:
        yield tell


@contextmanager
def _nowhere(run: RunDir, stage: str) -> Iterator[Reporter]:
    yield lambda row: None


@contextmanager
def _tensorboard(run: RunDir, stage: str) -> Iterator[Reporter]:
    """Event files under RUN/tensorboard: `tensorboard --logdir RUN`."""
    _require("tensorboard")
    writer = import_module("torch.utils.tensorboard").SummaryWriter(str(run.root / "tensorboard"))

    def tell(row: dict[str, Any]) -> None:
        for name, value in figures(row).items():
            writer.add_scalar(f"{stage}/{name}", value, row["step"])

    try:
        yield tell
    finally:
        writer.close()


@contextmanager
def _mlflow(run: RunDir, stage: str) -> Iterator[Reporter]:
    """One MLflow run a stage, at the server of MLFLOW_TRACKING_URI; it keeps its id in RUN/mlflow.txt for a resume."""
    mlflow = _require("mlflow")
    kept = run.root / "mlflow.txt"
    known = kept.read_text().strip() if kept.exists() else None
    with mlflow.start_run(
        run_id=known or None, run_name=None if known else f"{run.root.name} {stage}"
    ) as active:
        kept.write_text(active.info.run_id)
        yield lambda row: mlflow.log_metrics(figures(row), step=row["step"])


WAYS: dict[str, Callable[[RunDir, str], Any]] = {"": _nowhere, "tensorboard": _tensorboard, "mlflow": _mlflow}


def figures(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a row that make a curve."""
    return {
        name: float(value)
        for name, value in row.items()
        if name != "step" and isinstance(value, (int, float))
    }


def _require(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise TraceError(
            f"{VARIABLE} is {package}, which is not installed.",
            code="not_installed",
            where=VARIABLE,
            hint="Install the report extra: pip install -e '.[report]' -c constraints/constraints.txt.",
        ) from error


METRICS_SECONDS = 1.0

Progress = Callable[[int, int, str], None]


class Stopped(Exception):
    """The STOP file was found; a checkpoint of this moment is on disk, or the message says which one is."""


class HelperDone(Exception):
    """Training has ended in a process that is not the first of its team: the first one exports."""


def fit(
    trainee: Trainee,
    examples: list[Example],
    stage: Stage,
    recipe: Recipe,
    run: RunDir,
    name: str,
    report: Progress,
    replay: Sequence[Example] = (),
) -> State:
    """Train to the last step or the time limit, from the newest intact checkpoint on. Raises Stopped on a STOP file.

    `replay`: examples of which `recipe.replay` go beside each example of a batch, with a trace where it has one.
    """
    torch.set_num_threads(recipe.threads)
    reuse_freed_memory()
    trainer = _prepare(trainee, examples, stage, recipe, run, name, replay)
    before = {
        key: value.detach().clone()
        for key, value in known_before(trainee, trainer.weights).items()
        if stage.keep
    }
    resume(trainer)
    trainer.team.require_same(trainer.fingerprint, trainer.state.step)
    check_head(trainee, examples)
    trainee.model.train()
    with reporter(run, name) as tell, float32_attention(trainee.model):
        _train(trainer, _Meter(trainer, report, tell))
    share = kept_share(trainee, examples, stage) if before else 0.0
    with torch.no_grad():
        for key, value in before.items():
            trainer.weights[key].lerp_(value, share)
    trainee.model.eval()
    trainer.team.leave()
    if early := early_stop(stage, trainer.state.step, len(examples)):
        run.log(f"{name}: stopped at {early['Stopped at']}; it is not a finished run")
    if not run.writer:
        raise HelperDone
    return trainer.state


def kept_share(trainee: Trainee, examples: Sequence[Example], stage: Stage) -> float:
    """What of the encoder and the tool rows before a stage is in them afterwards: `stage.keep` where no example names a
    tool, less the more of the tool tokens are named. What is kept is kept for tools that nothing is taught of."""
    pocket: Any = trainee.model
    first, count = pocket.config.tools
    named = {
        token
        for example in examples
        for token, told in zip(example.ids, example.mask, strict=True)
        if told and token >= first
    }
    return stage.keep * (1 - len(named) / count)


def _train(trainer: Trainer, meter: "_Meter") -> None:
    state, stage, recipe, team = trainer.state, trainer.stage, trainer.recipe, trainer.team
    started = saved = time.monotonic()
    before = state.seconds
    lengths = [len(example.ids) for example in trainer.examples]
    per_epoch = math.ceil(len(lengths) / stage.batch_size)
    most = round(recipe.replay * stage.batch_size)
    pools = [[one for one in trainer.replay if one.thinks == thinks] for thinks in (False, True)]
    batches: list[list[int]] = []
    while state.step < trainer.steps and not state.spent:
        epoch, position = divmod(state.step, per_epoch)
        if not batches or position == 0:
            batches = epoch_batches(lengths, stage.batch_size, recipe.seed, epoch)
        own = [trainer.examples[number] for number in batches[position]]
        again = [
            pool[number]
            for pool, thinks in zip(pools, (False, True), strict=True)
            for number in replayed(len(pool), most, recipe.seed, state.step)[
                : round(recipe.replay * sum(example.thinks == thinks for example in own))
            ]
        ]
        norm = train_step(trainer, [*own, *again])
        now = time.monotonic()
        state.seconds = before + now - started
        stop = False
        if state.step % team.rhythm == 0:
            spent = 0 < stage.max_seconds <= state.seconds
            stop, state.spent = team.agree(trainer.run.stop_requested(), spent)
        last = state.spent or state.step >= trainer.steps
        meter.row(norm, state.step / per_epoch, last)
        if state.spent or (not last and (stop or now - saved >= recipe.checkpoint_seconds)):
            kept = _save(trainer)
            saved = time.monotonic()
        if stop and not last:
            note = "" if kept else "; the disk is full, so it goes on from an older checkpoint"
            raise Stopped(f"stopped on request at step {state.step} of {trainer.steps}{note}")


def _save(trainer: Trainer) -> bool:
    """Save in the first process of the team only."""
    _settle(trainer)
    return save(trainer) if trainer.run.writer else True


def _settle(trainer: Trainer) -> None:
    """Bring the smoothed loss up to date: reading losses one by one would hold an accelerator up at every step."""
    state = trainer.state
    if not trainer.losses:
        return
    first = state.step - len(trainer.losses)
    for number, value in enumerate(torch.stack(trainer.losses).tolist(), first):
        if not math.isfinite(value):
            raise TraceError(
                f"the loss is {value} at step {number}.",
                code="diverged",
                hint="Lower the learning rate, or train without bf16.",
            )
        state.loss = value if number == 0 else 0.9 * state.loss + 0.1 * value
    trainer.losses.clear()


def _prepare(
    trainee: Trainee,
    examples: list[Example],
    stage: Stage,
    recipe: Recipe,
    run: RunDir,
    name: str,
    replay: Sequence[Example],
) -> Trainer:
    if not examples:
        raise TraceError(f"there is nothing to train {name} on.", code="no_records")
    team = Team()
    model: nn.Module = trainee.model.to(device())
    if recipe.activation_checkpointing:
        _recompute_activations(model)
    weights = {
        key: value
        for key, value in model.named_parameters()
        if value.requires_grad and peak(trainee, key, stage)
    }
    for key, value in model.named_parameters():
        value.requires_grad_(key in weights)
    steps = stage.steps(len(examples))
    ids = [example.ids for example in (*examples, *replay)]
    fingerprint = content_hash([asdict(stage), recipe.seed, recipe.replay, name, ids])
    state, optimizer = State(), Optimizer(trainee, weights, stage)
    return Trainer(
        trainee,
        examples,
        stage,
        recipe,
        run,
        name,
        state,
        optimizer,
        weights,
        fingerprint,
        steps,
        team,
        replay,
    )


def _recompute_activations(model: nn.Module) -> None:
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    base.activation_checkpointing_enable()


class _Meter:
    """Writes a row of metrics about every second; every step and token is in one."""

    def __init__(self, trainer: Trainer, report: Progress, tell: Reporter) -> None:
        self.trainer, self.report, self.tell = trainer, report, tell
        self.wrote = time.monotonic()
        self.tokens = trainer.state.tokens

    def row(self, norm: torch.Tensor, epoch: float, last: bool) -> None:
        trainer, state, now = self.trainer, self.trainer.state, time.monotonic()
        passed = now - self.wrote
        if not (last or passed >= METRICS_SECONDS or state.step == 1):
            return
        _settle(trainer)
        if not trainer.run.writer:
            self.wrote = now
            return
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
            "epoch": round(epoch, 3),
        }
        trainer.run.add_metrics(row)
        self.tell(row)
        self.report(state.step, trainer.steps, f"{trainer.name}: loss {state.loss:.3f}, {rate:,.0f} tokens/s")
        self.wrote, self.tokens = now, state.tokens
