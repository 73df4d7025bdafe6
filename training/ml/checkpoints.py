"""What a stage carries from step to step, and how it survives a kill.

Weights and AdamW moments go to safetensors, counters and the plan to JSON: nothing in a checkpoint can run code.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.core.recipe import Recipe, Stage
from training.core.rundir import RunDir
from training.ml.data import Example
from training.ml.model import Trainee, device


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


def save(trainer: Trainer) -> None:
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


def resume(trainer: Trainer) -> None:
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
