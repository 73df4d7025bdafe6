"""The loss: hidden states to cross-entropy, with only the supervised positions passing through the output head.

In: a trainee and a batch. Out: a scalar. A 262k-row head over every prompt token would cost most of the memory; what
remains goes through it in blocks, see ml/head.py.
"""

from typing import Any

import torch
from torch import Tensor, nn

from trace_site.lib.errors import TraceError
from training.core.recipe import Recipe
from training.ml.data import IGNORE, Batch, Example
from training.ml.head import Head, output_head, summed_loss
from training.ml.model import Trainee, device

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
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
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
        raise TraceError(
            "this base scales its logits in a way the loss head does not know.",
            code="unknown_head",
            hint="Use another base model.",
        )


def _own_logits(model: Any, ids: Tensor, loud: Tensor) -> tuple[Tensor, Tensor]:
    """What the model's forward pass gives to its head, and the logits it makes of that times `loud`."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
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
