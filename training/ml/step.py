"""One optimisation step: a batch in, weights moved.

The batch may be cut twice: into the parts of several processes and into micro batches of similar length that fit into
memory. Each part's
loss is weighted by its share of the batch's supervised tokens, so the cut changes neither loss nor gradient.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from trace_site.lib.errors import TraceError
from training.core.recipe import Recipe
from training.ml.bases.model import Trainee
from training.ml.bases.named import autocast, device, without_adapters
from training.ml.checkpoints import Trainer
from training.ml.data import IGNORE, WIDTH_MULTIPLE, Batch, Example, collate
from training.ml.head import Head, output_head, summed_loss
from training.ml.optimizer import learning_rate

# The loss: hidden states to cross-entropy, with only the supervised positions passing through the output head.
#
# In: a trainee and a batch. Out: a scalar. A 262k-row head over every prompt token would cost most of the memory; what
# remains goes through it in blocks, see ml/head.py.

LOUD = 40.0  # the largest logit in the check of the head, so that no scale or soft cap is too weak to be seen
CLOSE = 2e-2  # of the largest value; bf16 rounds by less, an unknown scale or cap changes more


def supervised_loss(trainee: Trainee, batch: Batch, recipe: Recipe) -> Tensor:
    """Mean cross-entropy over the supervised positions; 0, with zero gradients, when there is none.

    In a pocket model it counts `tool_weight` times which tool token it is, once that it is one: were that weighed too,
    tool tokens would be likelier everywhere than they are. The mean stays one over positions.
    """
    where = device()
    ids, labels = batch.ids.to(where), batch.labels.to(where)
    hidden = hidden_states(trainee, ids)
    keep = labels != IGNORE
    targets, hidden, head = labels[keep], hidden[keep], output_head(trainee.model)
    total = summed_loss(head, hidden, targets)
    if trainee.pocket and recipe.pocket.tool_weight != 1:
        first = trainee.first_tool
        tools = targets >= first
        more = summed_loss(head.below(first), hidden[tools], targets[tools] - first)
        total = total + (recipe.pocket.tool_weight - 1) * more
    return total / max(1, len(targets))


def hidden_states(trainee: Trainee, ids: Tensor) -> Tensor:
    """The last hidden states. Padding is on the right, so causal attention needs no mask."""
    model: Any = trainee.model
    base = without_adapters(model)
    return base.base_model(input_ids=ids, use_cache=False).last_hidden_state


@torch.no_grad()
def check_head(trainee: Trainee, examples: list[Example]) -> None:
    """Our short way through the head must equal the model's own forward pass, or TraceError says so."""
    model: Any = trainee.model
    model.eval()
    ids = torch.tensor([min(examples, key=lambda e: len(e.ids)).ids], device=device())
    with torch.autocast(device().type, torch.bfloat16, enabled=model.config.dtype is torch.bfloat16):
        head, hidden = output_head(model), hidden_states(trainee, ids)
        loud = LOUD / Head(head.parts).logits(hidden).abs().max().clamp(min=1e-9)
        given, theirs = _own_logits(model, ids, loud)
        ours = head.logits(given * loud)
    if not (_close(hidden, given) and _close(ours, theirs)):
        problem = "this base scales its logits in a way the loss head does not know."
        raise TraceError(problem, code="unknown_head", hint="Use another base model.")


def _own_logits(model: Any, ids: Tensor, loud: Tensor) -> tuple[Tensor, Tensor]:
    """What the model's forward pass gives to its head, and the logits it makes of that times `loud`."""
    base = without_adapters(model)
    given: list[Tensor] = []

    def louder(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        given.append(inputs[0])
        return (inputs[0] * loud,)

    hook = base.get_output_embeddings().register_forward_pre_hook(louder)
    try:
        logits = model(input_ids=ids, use_cache=False).logits
    finally:
        hook.remove()
    return given[0], logits


def _close(ours: Tensor, theirs: Tensor) -> bool:
    if ours.shape != theirs.shape:
        return False
    return bool((ours.float() - theirs.float()).abs().max() <= CLOSE * theirs.float().abs().max())


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
