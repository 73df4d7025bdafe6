"""The training loop: one function that runs a stage and survives being killed.

In: a model, encoded examples, a stage's settings, a run directory. Out: trained weights in place. Checkpoints hold
weights, AdamW moments and the data position; randomness is a function of (seed, step), so a resumed run ends with
the same weights as one that was never killed.
"""

import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
from torch import nn

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash
from training.core.recipe import Recipe, Stage
from training.core.rundir import RunDir
from training.ml.checkpoints import Plan, State, Trainer, resume, save
from training.ml.data import Example, collate, drop_tokens, epoch_batches
from training.ml.loss import autocast, check_head, supervised_loss
from training.ml.model import Trainee, device

METRICS_SECONDS = 1.0
MEASURE_SECONDS = 3.0  # how long steps are timed before a run with max_seconds is planned
SLACK = 0.05  # a plan moves when the rest of it would end this share too late or too early

Progress = Callable[[int, int, str], None]


class Stopped(Exception):
    """The STOP file was found; a checkpoint of this moment is on disk."""


def fit(
    trainee: Trainee,
    examples: list[Example],
    stage: Stage,
    recipe: Recipe,
    run: RunDir,
    name: str,
    report: Progress,
) -> State:
    """Train to the end of the plan, resuming from the newest intact checkpoint. Raises Stopped on a STOP file."""
    torch.set_num_threads(recipe.threads)
    trainer = _prepare(trainee, examples, stage, recipe, run, name)
    check_head(trainee, examples)
    state, started = trainer.state, time.monotonic() - trainer.state.seconds
    saved = logged = time.monotonic()
    lengths = [len(example.ids) for example in examples]
    per_epoch = math.ceil(len(examples) / stage.batch_size)
    batches: list[list[int]] = []
    opening = _Speed(state)
    trainee.model.train()
    while state.step < state.plan.total:
        epoch, position = divmod(state.step, per_epoch)
        if not batches or position == 0:
            batches = epoch_batches(lengths, stage.batch_size, recipe.seed, epoch)
        _step(trainer, [examples[number] for number in batches[position]])
        now = time.monotonic()
        state.seconds = now - started
        _replan(trainer, opening)
        last = state.step >= state.plan.total
        if last or now - logged >= METRICS_SECONDS or state.step == 1:
            _log(trainer, opening, state.step / per_epoch, report)
            logged = now
        if run.stop_requested() and not last:
            save(trainer)
            raise Stopped(f"stopped on request at step {state.step} of {state.plan.total}")
        if now - saved >= recipe.checkpoint_seconds and not last:
            save(trainer)
            saved = time.monotonic()
    _use_average(trainer)
    trainee.model.eval()
    return state


class _Speed:
    """Tokens and steps since this process began, for the rate and the plan."""

    def __init__(self, state: State) -> None:
        self.step, self.tokens, self.seconds = state.step, state.tokens, state.seconds
        self.due = MEASURE_SECONDS
        self.seen = (0, 0.0)


def _prepare(
    trainee: Trainee, examples: list[Example], stage: Stage, recipe: Recipe, run: RunDir, name: str
) -> Trainer:
    if not examples:
        raise TraceError(f"there is nothing to train {name} on.", code="no_records")
    trainee.model.to(device())
    weights = {key: value for key, value in trainee.model.named_parameters() if value.requires_grad}
    groups = [
        {"params": [v for v in weights.values() if v.ndim >= 2], "weight_decay": stage.weight_decay},
        {"params": [v for v in weights.values() if v.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=stage.lr, betas=stage.betas, fused=True
    )
    total = max(1, round(stage.epochs * math.ceil(len(examples) / stage.batch_size)))
    fingerprint = content_hash([asdict(stage), recipe.seed, name, [example.ids for example in examples]])
    trainer = Trainer(
        trainee,
        examples,
        stage,
        recipe,
        run,
        name,
        State(plan=Plan(total)),
        optimizer,
        weights,
        {},
        fingerprint,
        total,
    )
    resume(trainer)
    return trainer


def _step(trainer: Trainer, examples: list[Example]) -> None:
    state, stage, recipe = trainer.state, trainer.stage, trainer.recipe
    torch.manual_seed(recipe.seed * 1_000_003 + state.step)
    chat, (low, high) = trainer.trainee.chat, trainer.trainee.text_ids
    batch = collate(examples, chat.pad_id)
    if trainer.trainee.pocket:
        batch = drop_tokens(batch, recipe.pocket.token_dropout, low, high, chat.pad_id)
    rate = learning_rate(stage, state.plan.progress(state.step))
    for group in trainer.optimizer.param_groups:
        group["lr"] = rate
    with autocast(recipe):
        loss = supervised_loss(trainer.trainee, batch, recipe, stage.label_smoothing)
    if not torch.isfinite(loss):
        raise TraceError(
            f"the loss is {loss.item()} at step {state.step}.",
            code="diverged",
            hint="Lower the learning rate, or train without bf16.",
        )
    trainer.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(list(trainer.weights.values()), stage.max_grad_norm)
    trainer.optimizer.step()
    state.step += 1
    state.tokens += batch.tokens
    value = loss.item()
    state.loss = value if state.step == 1 else 0.9 * state.loss + 0.1 * value
    _add_to_average(trainer)


def learning_rate(stage: Stage, progress: float) -> float:
    """Linear warm-up, then a cosine from the peak to min_lr_ratio of it."""
    if progress < stage.warmup_ratio:
        return stage.lr * (progress + 1e-3) / (stage.warmup_ratio + 1e-3)
    done = (progress - stage.warmup_ratio) / (1 - stage.warmup_ratio)
    return stage.lr * (stage.min_lr_ratio + (1 - stage.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * done)))


def _replan(trainer: Trainer, opening: _Speed) -> None:
    """Fit the plan into max_seconds: measured early, corrected when the machine turns out slower or faster."""
    state, limit = trainer.state, trainer.stage.max_seconds
    steps, seconds = state.step - opening.step, state.seconds - opening.seconds
    if not limit or seconds < opening.due:
        return
    opening.due = max(2 * MEASURE_SECONDS, seconds + limit / 10)
    # the first steps of a process are its slowest: measure from the last planning on
    rate = (steps - opening.seen[0]) / max(seconds - opening.seen[1], 1e-6)
    opening.seen = (steps, seconds)
    affordable = state.step + int(max(0.0, limit - state.seconds) * rate)
    wanted = min(affordable, trainer.longest)
    if wanted > state.step and abs(wanted - state.plan.total) > SLACK * (state.plan.total - state.step):
        state.plan = state.plan.moved(state.step, wanted)
        trainer.run.log(f"{trainer.name}: planned {wanted} steps to end within {limit:g} s")
    elif wanted <= state.step:
        state.plan = state.plan.moved(state.step, state.step)


def _log(trainer: Trainer, opening: _Speed, epoch: float, report: Progress) -> None:
    state = trainer.state
    seconds = max(state.seconds - opening.seconds, 1e-6)
    rate = (state.tokens - opening.tokens) / seconds
    row = {
        "stage": trainer.name,
        "step": state.step,
        "steps": state.plan.total,
        "tokens": state.tokens,
        "loss": round(state.loss, 4),
        "lr": trainer.optimizer.param_groups[0]["lr"],
        "tokens_per_second": round(rate, 1),
        "memory_mb": round(peak_memory_mb()),
        "seconds": round(state.seconds, 2),
        "epoch": round(epoch, 3),
    }
    trainer.run.add_metrics(row)
    report(state.step, state.plan.total, f"{trainer.name}: loss {state.loss:.3f}, {rate:,.0f} tokens/s")


def peak_memory_mb() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, KiB on Linux
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _add_to_average(trainer: Trainer) -> None:
    """A running mean of the weights over the last share of the steps."""
    state, share = trainer.state, trainer.stage.average_share
    if not share or state.plan.progress(state.step) < 1 - share:
        return
    state.averaged += 1
    for key, value in trainer.weights.items():
        if key in trainer.average:
            trainer.average[key].lerp_(value.detach(), 1 / state.averaged)
        else:
            trainer.average[key] = value.detach().clone()


def _use_average(trainer: Trainer) -> None:
    with torch.no_grad():
        for key, value in trainer.average.items():
            trainer.weights[key].copy_(value)
