"""What the loop knows of the model that it trains.

In: a model and how its kind reads a snapshot. Out: a `Trainee`: examples of each stage, and of a batch of them the mean
loss. Two kinds there are: language models write (language.py), the pocket model decides (deciding.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from training.core.recipe import Recipe, Stage
from training.core.records import Snapshot

WIDTH_MULTIPLE = 2  # fewer distinct shapes: each new one costs the CPU kernels a compilation and memory


@dataclass(frozen=True, slots=True)
class Example:
    """One text that is read."""

    ids: list[int]


E = TypeVar("E", bound=Example)
Dataset = tuple[list[E], list[E], dict[str, Any]]  # examples, those replayed beside them, what a card tells


@dataclass(frozen=True, slots=True)
class Batch(Generic[E]):
    """Examples of similar length. `weight`: what the loss is a mean over."""

    examples: Sequence[E]
    ids: Tensor  # [examples, length], padded on the right
    weight: int

    @property
    def tokens(self) -> int:
        """Without padding."""
        return sum(len(example.ids) for example in self.examples)


@dataclass(kw_only=True)
class Trainee(ABC, Generic[E]):
    """A model with rows for the tokens of a catalog, ready to train."""

    model: nn.Module
    licence: str = "not stated"  # the base's, as far as it says
    stages: list[dict[str, Any]] = field(default_factory=list)  # facts of the stages already trained
    grown: int = 0  # tokens that the ledger gained since that export

    def to(self, where: torch.device) -> None:
        """Moves all that the loss is made of."""
        self.model.to(where)

    @abstractmethod
    def memory(self, snapshot: Snapshot, recipe: Recipe) -> Dataset[E]:
        """Of Stage 1."""

    @abstractmethod
    def retrieval(self, snapshot: Snapshot, recipe: Recipe) -> Dataset[E]:
        """Of a pass of Stage 2."""

    @abstractmethod
    def collate(self, examples: Sequence[E]) -> Batch[E]: ...

    @abstractmethod
    def loss(self, batch: Batch[E]) -> Tensor:
        """The mean over `batch.weight`."""

    def check(self, examples: Sequence[E]) -> None:
        """Raises TraceError where the model does not compute what the loss takes it for."""

    def peak(self, name: str, stage: Stage) -> float:
        """The peak learning rate of a parameter; 0: it stays as it is."""
        return stage.lr

    def hold(self, weights: Mapping[str, nn.Parameter], batch: Batch[E]) -> None:
        """Take gradients away from what the batch must not move."""

    @property
    def attending(self) -> Any:
        """The part whose attention layers train."""
        return self.model


def padded(rows: Sequence[Sequence[int]], pad: int, multiple: int = WIDTH_MULTIPLE) -> Tensor:
    """[rows, the longest one's length or a little more], padded on the right."""
    width = -(-max(map(len, rows), default=1) // multiple) * multiple
    filled = [[*row, *[pad] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long).view(len(rows), width)
