"""Tiny named bases ready to train, and a few steps of it without the loop around them."""

from pathlib import Path
from typing import Any

import torch

from tests.training.small_bases import write_base
from tests.training.small_snapshot import sample, write_snapshot
from trace_site.lib.files import read_json
from training.core.recipe import Lora, Recipe
from training.core.records import Snapshot, load_snapshot
from training.ml.bases.chat import Chat, load_chat
from training.ml.bases.model import build
from training.ml.language import IGNORE, Written
from training.ml.trainee import Batch, Trainee, padded


def recipe_for(base: Path, **fields: Any) -> Recipe:
    usual: dict[str, Any] = {
        "base": str(base),
        "format": "c",
        "memo": "none",
        "retrieval": "r",
        "threads": 1,
        "bf16": False,
        "max_seq_len": 256,
        "max_prompt_tokens": 128,
        "lora": Lora(rank=4, alpha=8),
    }
    return Recipe(**(usual | fields))


def exported_chat(export: Path) -> tuple[Chat, dict[str, Any]]:
    """Of a named base, with what its trace.json says."""
    spec = read_json(export / "trace.json")
    return load_chat(export, spec), spec


def labels_of(batch: Batch[Written]) -> torch.Tensor:
    """The token to predict at each position of a batch, IGNORE where there is no loss."""
    return padded([example.targets for example in batch.examples], IGNORE)


class Small:
    """One base of a shape with its recipe, snapshot, trainee and rendered samples."""

    def __init__(self, folder: Path, shape: str, base: dict[str, Any] | None = None, **fields: Any) -> None:
        torch.set_num_threads(1)
        self.base = write_base(folder / "base", shape, **(base or {}))
        self.recipe = recipe_for(self.base, **fields)
        # of many lengths, so that a batch is padded and the sliding windows are left behind
        samples = [sample(n, query=f"please show case {n}{' of the pay slip' * n}") for n in range(10)]
        self.snapshot: Snapshot = load_snapshot(write_snapshot(folder / "snapshot", samples))
        self.trainee: Trainee[Any] = build(self.recipe, self.snapshot)
        self.examples: list[Written] = self.trainee.retrieval(self.snapshot, self.recipe)[0]

    @property
    def model(self) -> Any:
        return self.trainee.model

    def batch(self, examples: list[Written] | None = None) -> Batch[Written]:
        return self.trainee.collate(examples or self.examples)

    def loss(self, batch: Batch[Written] | None = None) -> torch.Tensor:
        return self.trainee.loss(batch or self.batch())

    def gradients(self) -> dict[str, torch.Tensor]:
        self.model.zero_grad()
        self.loss().backward()
        named = self.model.named_parameters()
        return {name: value.grad.clone() for name, value in named if value.grad is not None}

    def train(self, steps: int = 4, lr: float = 1e-2) -> None:
        self.model.train()
        optimizer = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], lr=lr)
        for _ in range(steps):
            optimizer.zero_grad()
            self.loss().backward()
            optimizer.step()
        self.model.eval()
