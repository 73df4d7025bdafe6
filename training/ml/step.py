"""One optimisation step: a batch in, weights moved.

The batch may be cut twice: into the parts of several processes and into micro batches of similar length that fit into
memory. Each part's loss is weighted by its share of the batch, so the cut changes neither loss nor gradient.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from training.ml.bases.named import autocast
from training.ml.checkpoints import Trainer
from training.ml.optimizer import learning_rate
from training.ml.trainee import Batch, Example

LONGER = 2.5  # a batch is cut where a sequence is so many times as long as the part's first


def train_step(trainer: Trainer, examples: Sequence[Example]) -> torch.Tensor:
    """Forward, backward, clip, update; the norm of the gradient before clipping. The loss joins trainer.losses."""
    state, stage, trainee = trainer.state, trainer.stage, trainer.trainee
    torch.manual_seed(trainer.recipe.seed * 1_000_003 + state.step)
    batch = trainee.collate(sorted(examples, key=lambda example: len(example.ids)))
    trainer.optimizer.zero_grad()
    loss = gradients(trainer, batch)
    trainee.hold(trainer.weights, batch)
    norm = nn.utils.clip_grad_norm_(list(trainer.weights.values()), stage.max_grad_norm)
    rate = learning_rate(stage, state.step / trainer.steps)
    for group in trainer.optimizer.param_groups:
        group["lr"] = rate * group["share"]
    trainer.optimizer.step()
    state.step += 1
    state.tokens += batch.tokens
    trainer.losses.append(loss)
    return norm


def gradients(trainer: Trainer, batch: Batch[Any]) -> torch.Tensor:
    """Add the gradient of the batch's mean loss to the weights; returns that loss, detached."""
    trainee, total = trainer.trainee, torch.zeros((), device=next(iter(trainer.weights.values())).device)
    for examples in parts(batch.examples, trainer.team.part(len(batch.examples)), trainer.stage.micro_batch):
        part = trainee.collate(examples)
        trainer.computed += part.ids.numel()
        trainer.real += part.tokens
        if not part.weight:
            continue
        share = part.weight / batch.weight
        with autocast(trainer.recipe):
            loss = trainee.loss(part)
        weighted = loss * share if share != 1 else loss
        weighted.backward()
        total += weighted.detach()
    trainer.team.sum_gradients(list(trainer.weights.values()), total)
    return total


def parts(examples: Sequence[Example], mine: slice, micro: int) -> Iterator[Sequence[Example]]:
    """Those of this process in micro batches (0 = no limit), each of similar lengths: descriptions beside traces would
    be mostly padding."""
    own, start = examples[mine], 0
    lengths = [len(example.ids) for example in own]
    for end in range(1, len(own) + 1):
        full = micro and end - start == micro
        if end == len(own) or full or lengths[end] > LONGER * lengths[start]:
            yield own[start:end]
            start = end
