"""Two ways to train the E4B-shaped model, and what is measured of each.

In: the model as a trainee of the product. Out: `ours`, the product's own gradient step on batches cut to a token
budget, and `theirs`, the shape of a Trainer's step: padded batches with a mask, all logits, the library's loss.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch

from tests.bench import e4b
from training.ml.bases.named import autocast, device
from training.ml.data import epoch_batches
from training.ml.language import LanguageTrainee, Written
from training.ml.rows import SplitEmbedding, SplitHead
from training.ml.step import gradients
from training.ml.team import Team

BATCH = 16
BUDGET, TOY_BUDGET = 8192, 1024  # tokens of one forward pass, padding included


@dataclass
class Side:
    """One way to train, and what was measured of it."""

    name: str
    run: Callable[[list[Written]], tuple[int, int]]  # tokens through the body, positions through the head
    seconds: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    computed: int = 0
    heads: int = 0
    peak: float = 0.0  # GB
    recomputed: bool = False
    products: int = (
        3  # of a position with the frozen head: forward, backward, and ours makes its blocks once more
    )
    note: str = ""

    def turn(self, records: list[Written], times: list[float]) -> None:
        synchronize()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        self.computed, self.heads = self.run(records)
        synchronize()
        times.append(time.perf_counter() - started)
        if torch.cuda.is_available():
            self.peak = max(self.peak, torch.cuda.max_memory_allocated() / 1e9)


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Bench:
    """The model and its two ways to train; both keep an optimizer of their own."""

    def __init__(self, trainee: LanguageTrainee, toy: bool) -> None:
        self.trainee, self.recipe, self.budget = trainee, e4b.recipe(toy), TOY_BUDGET if toy else BUDGET
        self.model: Any = trainee.model.train()
        self.base: Any = self.model.get_base_model()
        kinds = (SplitEmbedding, SplitHead)
        self.split = {n: m for n, m in self.base.named_modules() if isinstance(m, kinds)}
        self.weights = {n: w for n, w in self.model.named_parameters() if w.requires_grad}
        self.ours_optimizer = self._optimizer(list(self.weights.values()))
        self.lora = [w for n, w in self.weights.items() if not n.endswith(".rows")]
        self.theirs_optimizer = self._optimizer(self.lora)
        self.micro = BATCH

    def _optimizer(self, weights: list[Any]) -> torch.optim.AdamW:
        return torch.optim.AdamW(weights, lr=1e-4, fused=True)

    def _use_tables(self, whole: bool) -> None:
        for name, module in self.split.items():
            self.base.set_submodule(name, module.table if whole else module)

    def ours(self, records: list[Written], recompute: bool = False) -> tuple[int, int]:
        self._use_tables(whole=False)
        if recompute:
            self.base.activation_checkpointing_enable()
        trainer: Any = SimpleNamespace(
            trainee=self.trainee, weights=self.weights, team=Team(), recipe=self.recipe, computed=0, real=0
        )
        for numbers in epoch_batches([len(e.ids) for e in records], BATCH, 0, 0):
            chosen = [records[number] for number in numbers]
            batch = self.trainee.collate(chosen)
            rows = max(1, self.budget // batch.ids.shape[1])
            trainer.stage = replace(self.recipe.stage2, micro_batch=min(rows, BATCH))
            self.ours_optimizer.zero_grad(set_to_none=True)
            gradients(trainer, batch)
            torch.nn.utils.clip_grad_norm_(list(self.weights.values()), 1.0)
            self.ours_optimizer.step()
        if recompute:
            self.base.activation_checkpointing_disable()
        return trainer.computed, sum(sum(e.mask[1:]) for e in records)

    def theirs(self, records: list[Written], grouped: bool = False) -> tuple[int, int]:
        self._use_tables(whole=True)
        computed = 0
        order = (
            epoch_batches([len(e.ids) for e in records], BATCH, 0, 0) if grouped else _in_order(len(records))
        )
        for numbers in order:
            self.theirs_optimizer.zero_grad(set_to_none=True)
            for at in range(0, len(numbers), self.micro):
                computed += self._their_part([records[number] for number in numbers[at : at + self.micro]])
            torch.nn.utils.clip_grad_norm_(self.lora, 1.0)
            self.theirs_optimizer.step()
        return computed, computed

    def _their_part(self, records: list[Written]) -> int:
        width = max(len(e.ids) for e in records)
        ids = torch.tensor([e.ids + [0] * (width - len(e.ids)) for e in records], device=device())
        seen = torch.tensor([[1] * len(e.ids) + [0] * (width - len(e.ids)) for e in records], device=device())
        kept = torch.tensor([e.mask + [0] * (width - len(e.mask)) for e in records], device=device())
        labels = torch.where(kept.bool(), ids, -100)
        with autocast(self.recipe):
            loss = self.model(input_ids=ids, attention_mask=seen, labels=labels, use_cache=False).loss
        (loss * (len(records) / BATCH)).backward()
        return ids.numel()

    def fit(self, side: str, records: list[Written], limit: float) -> str:
        """Try the widest batch; halve the batch or the budget until it fits. Says what did not."""
        widest = sorted(records, key=lambda e: len(e.ids))[-BATCH:]
        failed = []
        while True:
            size = self.micro if side == "theirs" else self.budget
            try:
                torch.cuda.reset_peak_memory_stats()
                getattr(self, side)(widest)
                if side == "theirs" or torch.cuda.max_memory_allocated() / 1e9 <= limit:
                    break
                failed.append(f"{size} over {limit:.0f} GB")
            except torch.OutOfMemoryError:
                failed.append(f"{size} out of memory")
            if size == 1:
                raise SystemExit(f"{side}: not even one sequence fits")
            torch.cuda.empty_cache()
            if side == "theirs":
                self.micro //= 2
            else:
                self.budget //= 2
        unit = "sequences" if side == "theirs" else "tokens a pass"
        return f"{', '.join(failed) or 'all fits'}; runs with {size} {unit}"

    def kernels(self, records: list[Written]) -> list[str]:
        """Which attention kernels a forward and backward pass of ours calls, with how often."""
        kinds = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=kinds, record_shapes=True) as seen:
            self.ours(records[:BATCH])
        found: dict[str, int] = {}
        for event in seen.key_averages(group_by_input_shape=True):
            if "_scaled_dot_product" in event.key and "backward" not in event.key:
                wide = event.input_shapes[0][-1] if event.input_shapes and event.input_shapes[0] else "?"
                name = f"{event.key.split('::')[-1].strip('_')} head {wide}"
                found[name] = found.get(name, 0) + event.count
        return [f"{name} x{count}" for name, count in sorted(found.items())]


def _in_order(count: int) -> list[list[int]]:
    return [list(range(start, min(start + BATCH, count))) for start in range(0, count, BATCH)]
