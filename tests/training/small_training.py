"""Tiny named bases ready to train, and a few steps of it without the loop around them."""

from pathlib import Path
from typing import Any

import torch

from tests.training.small_bases import write_base
from tests.training.small_snapshot import sample, write_snapshot
from training.core.recipe import Lora, Recipe
from training.core.records import Snapshot, load_snapshot, stage2_records
from training.ml.bases.model import Trainee, build
from training.ml.data import Batch, Example, collate, encode
from training.ml.step import supervised_loss


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


class Small:
    """One base of a shape with its recipe, snapshot, trainee and rendered samples."""

    def __init__(self, folder: Path, shape: str, base: dict[str, Any] | None = None, **fields: Any) -> None:
        torch.set_num_threads(1)
        self.base = write_base(folder / "base", shape, **(base or {}))
        self.recipe = recipe_for(self.base, **fields)
        # of many lengths, so that a batch is padded and the sliding windows are left behind
        samples = [sample(n, query=f"please show case {n}{' of the pay slip' * n}") for n in range(10)]
        self.snapshot: Snapshot = load_snapshot(write_snapshot(folder / "snapshot", samples))
        self.trainee: Trainee = build(self.recipe, self.snapshot)
        records = stage2_records(self.snapshot, self.recipe)
        self.examples: list[Example] = encode(records, self.trainee.chat, self.recipe.max_seq_len)[0]

    @property
    def model(self) -> Any:
        return self.trainee.model

    def batch(self, examples: list[Example] | None = None) -> Batch:
        return collate(examples or self.examples, self.trainee.chat.pad_id)

    def loss(self, batch: Batch | None = None) -> torch.Tensor:
        return supervised_loss(self.trainee, batch or self.batch(), self.recipe)

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
