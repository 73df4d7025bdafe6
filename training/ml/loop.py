"""The training loop: one function that runs a stage and survives being killed.

In: a model, encoded examples, a stage's settings, a run directory. Out: trained weights in place. Checkpoints hold
weights, AdamW moments and the data position; randomness is a function of (seed, step), so a resumed run ends with
the same weights as one that was never killed.
"""

import json
import math
import resource
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.checkpoint import checkpoint as recompute

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_json
from training.core.recipe import Recipe, Stage
from training.core.rundir import RunDir
from training.ml.data import IGNORE, Batch, Example, collate, drop_tokens, epoch_batches
from training.ml.model import Trainee, device

CHUNK = 1024  # supervised positions whose logits exist at the same time
METRICS_SECONDS = 1.0
MEASURE_SECONDS = 3.0  # how long steps are timed before a run with max_seconds is planned
SLACK = 0.05  # a plan moves when the rest of it would end this share too late or too early

Progress = Callable[[int, int, str], None]


class Stopped(Exception):
    """The STOP file was found; a checkpoint of this moment is on disk."""


@dataclass
class Plan:
    """Which share of the cosine is behind us at a step; its end may move, the share never jumps."""

    total: int
    at_step: int = 0
    at_progress: float = 0.0

    def progress(self, step: int) -> float:
        left = max(1, self.total - self.at_step)
        return min(1.0, self.at_progress + (1 - self.at_progress) * (step - self.at_step) / left)

    def moved(self, step: int, total: int) -> "Plan":
        return Plan(max(total, step), step, self.progress(step))


@dataclass
class State:
    """Where a run stands; with the tensors beside it, all that a resume needs."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    averaged: int = 0
    plan: Plan = field(default_factory=lambda: Plan(1))


@dataclass
class Trainer:
    """The moving parts of one stage."""

    trainee: Trainee
    examples: list[Example]
    stage: Stage
    recipe: Recipe
    run: RunDir
    name: str
    state: State
    optimizer: torch.optim.AdamW
    weights: dict[str, nn.Parameter]
    average: dict[str, torch.Tensor]
    fingerprint: str
    longest: int  # steps of all epochs; max_seconds may only shorten it


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
            _save(trainer)
            raise Stopped(f"stopped on request at step {state.step} of {state.plan.total}")
        if now - saved >= recipe.checkpoint_seconds and not last:
            _save(trainer)
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
    _resume(trainer)
    return trainer


def _autocast(recipe: Recipe) -> AbstractContextManager[Any]:
    """bf16 where the processor multiplies it natively; emulated bf16 would be slower than fp32."""
    where = device().type
    native = where == "cuda" or bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return torch.autocast(where, torch.bfloat16) if recipe.bf16 and native else nullcontext()


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
    with _autocast(recipe):
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


def supervised_loss(trainee: Trainee, batch: Batch, recipe: Recipe, smoothing: float) -> torch.Tensor:
    """Mean cross-entropy; only supervised positions pass through the head, in chunks."""
    where = device()
    ids, labels = batch.ids.to(where), batch.labels.to(where)
    hidden = hidden_states(trainee, ids, recipe.pocket.dropout)
    keep = labels != IGNORE
    hidden, targets = hidden[keep], labels[keep]

    def chunk_loss(states: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        logits = head_logits(trainee.model, states).float()
        return functional.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing)

    total = hidden.new_zeros((), dtype=torch.float32)
    for start in range(0, len(targets), CHUNK):
        part = hidden[start : start + CHUNK], targets[start : start + CHUNK]
        # one chunk keeps its logits; several would hold them all until the backward pass
        total = total + (
            chunk_loss(*part) if len(targets) <= CHUNK else recompute(chunk_loss, *part, use_reentrant=False)
        )
    return total / len(targets)


def hidden_states(trainee: Trainee, ids: torch.Tensor, dropout: float) -> torch.Tensor:
    """The last hidden states. Padding is on the right, so causal attention needs no mask."""
    model: Any = trainee.model
    if not trainee.pocket:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        return base.base_model(input_ids=ids, use_cache=False).last_hidden_state
    embedded = functional.dropout(model.get_input_embeddings()(ids), dropout, model.training)
    hidden = model.model(inputs_embeds=embedded, use_cache=False).last_hidden_state
    return functional.dropout(hidden, dropout, model.training)


def head_logits(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """The output head, with Gemma's soft cap where the configuration has one."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    logits = base.get_output_embeddings()(hidden)
    cap = getattr(base.config.get_text_config(), "final_logit_softcapping", None)
    return torch.tanh(logits / cap) * cap if cap else logits


def check_head(trainee: Trainee, examples: list[Example]) -> None:
    """Our short way through the head must equal the model's own forward pass."""
    model: Any = trainee.model
    model.eval()
    ids = torch.tensor([min(examples, key=lambda e: len(e.ids)).ids], device=device())
    with torch.no_grad():
        ours = head_logits(model, hidden_states(trainee, ids, 0.0)).float()
        theirs = model(input_ids=ids, use_cache=False).logits.float()
    if not torch.allclose(ours, theirs, atol=1e-2, rtol=1e-2):
        raise TraceError(
            "this base scales its logits in a way the loss head does not know.",
            code="unknown_head",
            hint="Use another base model.",
        )


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


def _save(trainer: Trainer) -> None:
    def write(folder: Path) -> None:
        save_file(
            {k: v.detach().contiguous() for k, v in trainer.weights.items()}, folder / "model.safetensors"
        )
        moments = {
            f"{key}.{name}": trainer.optimizer.state[value][name].contiguous()
            for key, value in trainer.weights.items()
            for name in ("exp_avg", "exp_avg_sq", "step")
            if value in trainer.optimizer.state
        }
        save_file(moments, folder / "optimizer.safetensors")
        if trainer.average:
            save_file(trainer.average, folder / "average.safetensors")
        state = {**asdict(trainer.state), "stage": trainer.name, "fingerprint": trainer.fingerprint}
        (folder / "state.json").write_text(json.dumps(state))

    trainer.run.save_checkpoint(trainer.state.step, write)


def _resume(trainer: Trainer) -> None:
    folder = trainer.run.latest_checkpoint()
    if folder is None:
        return
    facts = read_json(folder / "state.json")
    if facts.pop("fingerprint") != trainer.fingerprint or facts.pop("stage") != trainer.name:
        raise TraceError(
            "its checkpoint belongs to other data or another recipe.",
            code="other_run",
            where=str(folder),
            hint="Use a new run directory.",
        )
    trainer.state = State(**{**facts, "plan": Plan(**facts["plan"])})
    where = device()
    stored = load_file(folder / "model.safetensors")
    with torch.no_grad():
        for key, value in trainer.weights.items():
            value.copy_(stored[key])
    moments = load_file(folder / "optimizer.safetensors")
    for key, value in trainer.weights.items():
        if f"{key}.step" in moments:
            names = ("exp_avg", "exp_avg_sq", "step")
            trainer.optimizer.state[value] = {name: moments[f"{key}.{name}"].to(where) for name in names}
    if (folder / "average.safetensors").is_file():
        trainer.average = {k: v.to(where) for k, v in load_file(folder / "average.safetensors").items()}
    trainer.run.log(f"{trainer.name}: resumed from {folder.name}")
