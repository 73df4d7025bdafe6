"""One optimisation step: a batch in, weights moved.

The batch may be cut twice: into the parts of several processes and into micro batches of similar length that fit into
memory. Each part's
loss is weighted by its share of the batch's supervised tokens, so the cut changes neither loss nor gradient.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from training.ml.bases import autocast
from training.ml.checkpoints import Trainer
from training.ml.data import IGNORE, WIDTH_MULTIPLE, Batch, Example, collate
from training.ml.loss import supervised_loss
from training.ml.plan import learning_rate

LONGER = 2.5  # a batch is cut where a sequence is so many times as long as the part's first


def train_step(trainer: Trainer, examples: list[Example]) -> torch.Tensor:
    """Forward, backward, clip, update; the norm of the gradient before clipping. The loss joins trainer.losses."""
    state, stage = trainer.state, trainer.stage
    torch.manual_seed(trainer.recipe.seed * 1_000_003 + state.step)
    examples = sorted(examples, key=lambda example: len(example.ids))
    batch = collate(examples, trainer.trainee.chat.pad_id)
    trainer.optimizer.begin(state.step / trainer.steps)
    loss = gradients(trainer, batch, [len(example.ids) for example in examples])
    _leave_other_rows(trainer, batch)
    norm = nn.utils.clip_grad_norm_(list(trainer.weights.values()), stage.max_grad_norm)
    trainer.optimizer.step(learning_rate(stage, state.step / trainer.steps))
    state.step += 1
    state.tokens += batch.tokens
    trainer.losses.append(loss)
    return norm


def _leave_other_rows(trainer: Trainer, batch: Batch) -> None:
    """In the pocket model only the rows of the tools that a batch names move. AdamW would move every row a full step
    for the faintest gradient, and a catalog has thousands of tools that no sample names."""
    first = trainer.trainee.first_tool
    named = batch.labels[batch.labels >= first] - first
    for name, value in trainer.weights.items():
        if trainer.trainee.pocket and name.endswith(".rows") and value.grad is not None:
            own = torch.zeros(len(value), 1, dtype=value.dtype, device=value.device)
            own[named.to(value.device)] = 1.0
            value.grad *= own


def gradients(trainer: Trainer, batch: Batch, lengths: list[int]) -> torch.Tensor:
    """Add the gradient of the batch's mean loss to the weights; returns that loss, detached."""
    supervised = int((batch.labels != IGNORE).sum())
    total = torch.zeros((), device=next(iter(trainer.weights.values())).device)
    for part in parts(batch, lengths, trainer.team.part(len(lengths)), trainer.stage.micro_batch):
        share = int((part.labels != IGNORE).sum()) / supervised
        trainer.computed += part.ids.numel()
        trainer.real += part.tokens
        if not share:
            continue
        with autocast(trainer.recipe):
            loss = supervised_loss(trainer.trainee, part, trainer.recipe)
        weighted = loss * share if share != 1 else loss
        weighted.backward()
        total += weighted.detach()
    trainer.team.sum_gradients(list(trainer.weights.values()), total)
    return total


def parts(batch: Batch, lengths: list[int], mine: slice, micro: int) -> Iterator[Batch]:
    """The rows of this process in micro batches (0 = no limit), each of similar lengths and only as wide as its
    longest sequence: descriptions beside traces would be mostly padding."""
    ids, labels, lengths = batch.ids[mine], batch.labels[mine], lengths[mine]
    start = 0
    for end in range(1, len(lengths) + 1):
        full = micro and end - start == micro
        if end == len(lengths) or full or lengths[end] > LONGER * lengths[start]:
            rows = slice(start, end)
            width = -(-max(lengths[rows]) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE
            yield replace(
                batch, ids=ids[rows, :width], labels=labels[rows, :width], tokens=sum(lengths[rows])
            )
            start = end
