"""What a stage carries from step to step, and how it survives a kill and a full disk.

Weights and the optimizer's moments go to safetensors, counters to JSON: nothing in a checkpoint can run code.
Randomness and the order of the data are functions of (seed, step), so the step is all there is to keep of them.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from training.core.recipe import Recipe, Stage
from training.core.rundir import RunDir
from training.ml.bases.named import device
from training.ml.optimizer import early_stop
from training.ml.team import Team
from training.ml.trainee import Example, Trainee


@dataclass
class State:
    """Where a run stands; with the tensors beside it, all that a resume needs."""

    step: int = 0
    tokens: int = 0  # without padding
    seconds: float = 0.0
    loss: float = 0.0  # smoothed over about ten steps
    spent: bool = False  # max_seconds have passed: the stage ends at this step

    def facts(self, stage: Stage, records: int) -> dict[str, Any]:
        """As a model's card tells them."""
        return {
            "Steps": self.step,
            **early_stop(stage, self.step, records),
            "Tokens": self.tokens,
            "Seconds": round(self.seconds),
            "Last loss": round(self.loss, 4),
        }


@dataclass
class Trainer:
    """The moving parts of one stage."""

    trainee: Trainee[Any]
    examples: Sequence[Example]
    stage: Stage
    recipe: Recipe
    run: RunDir
    name: str
    state: State
    optimizer: torch.optim.AdamW
    weights: dict[str, nn.Parameter]
    fingerprint: str
    steps: int  # of the whole stage
    team: Team
    # of the steps since state.loss was brought up to date
    losses: list[torch.Tensor] = field(default_factory=list)
    real: int = 0  # tokens this process went through since it began, and with padding:
    computed: int = 0

    @property
    def per_epoch(self) -> int:
        """Steps."""
        return math.ceil(len(self.examples) / self.stage.batch_size)


def settle(trainer: Trainer) -> None:
    """Bring the smoothed loss up to date: reading losses one by one would hold an accelerator up at every step."""
    state = trainer.state
    if not trainer.losses:
        return
    first = state.step - len(trainer.losses)
    for number, value in enumerate(torch.stack(trainer.losses).tolist(), first):
        if not math.isfinite(value):
            hint = "Lower the learning rate, or train without bf16."
            raise TraceError(f"the loss is {value} at step {number}.", code="diverged", hint=hint)
        state.loss = value if number == 0 else 0.9 * state.loss + 0.1 * value
    trainer.losses.clear()


def save(trainer: Trainer) -> bool:
    """Write a checkpoint, in the first process of a team only. On a full disk: False when an older one is intact, so
    that training may go on."""
    settle(trainer)
    if not trainer.run.writer:
        return True
    try:
        trainer.run.save_checkpoint(
            trainer.state.step, lambda folder: _write(trainer, folder), checkpoint_bytes(trainer)
        )
        return True
    except TraceError as error:
        older = trainer.run.latest_checkpoint()
        if error.code != "disk_full" or older is None:
            raise
        trainer.run.log(
            f"{trainer.name}: {error.message} Training goes on; a kill would go back to {older.name}."
        )
        return False


def checkpoint_bytes(trainer: Trainer) -> int:
    """About how much a checkpoint takes: weights and two moments."""
    return 3 * sum(value.nbytes for value in trainer.weights.values()) + 2**16


def _write(trainer: Trainer, folder: Path) -> None:
    save_file({k: v.detach().contiguous() for k, v in trainer.weights.items()}, folder / "model.safetensors")
    moments = {
        f"{key}.{name}": moment.contiguous()
        for key, value in trainer.weights.items()
        for name, moment in trainer.optimizer.state[value].items()
    }
    save_file(moments, folder / "optimizer.safetensors")
    state = {**asdict(trainer.state), "stage": trainer.name, "fingerprint": trainer.fingerprint}
    (folder / "state.json").write_text(json.dumps(state))


def resume(trainer: Trainer) -> None:
    """Go on from the newest intact checkpoint. Raises TraceError when it belongs to other data or settings."""
    folder = trainer.run.latest_checkpoint()
    if folder is None:
        return
    facts = read_json(folder / "state.json")
    if facts.pop("fingerprint") != trainer.fingerprint or facts.pop("stage") != trainer.name:
        problem = "its checkpoint belongs to other data, another recipe or an earlier version."
        raise TraceError(problem, code="other_run", where=str(folder), hint="Use a new run directory.")
    trainer.state = State(**facts)
    stored = load_file(folder / "model.safetensors")
    with torch.no_grad():
        for key, value in trainer.weights.items():
            value.copy_(stored[key])
    found: dict[str, dict[str, torch.Tensor]] = {}
    for name, moment in load_file(folder / "optimizer.safetensors").items():
        key, _, kind = name.rpartition(".")
        found.setdefault(key, {})[kind] = moment.to(device())
    for key, moments in found.items():
        trainer.optimizer.state[trainer.weights[key]] = moments
    trainer.run.log(f"{trainer.name}: resumed from {folder.name}")
