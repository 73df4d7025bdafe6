"""The loss: hidden states to cross-entropy, with only the supervised positions passing through the output head.

In: a trainee and a batch. Out: a scalar. A 262k-row head over every prompt token would cost most of the memory.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as functional
from torch.utils.checkpoint import checkpoint as recompute

from trace_site.lib.errors import TraceError
from training.core.recipe import Recipe
from training.ml.data import IGNORE, Batch, Example
from training.ml.model import Trainee, device

CHUNK = 1024  # supervised positions whose logits exist at the same time


def autocast(recipe: Recipe) -> AbstractContextManager[Any]:
    """bf16 where the processor multiplies it natively; emulated bf16 would be slower than fp32."""
    where = device().type
    native = where == "cuda" or bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return torch.autocast(where, torch.bfloat16) if recipe.bf16 and native else nullcontext()


def supervised_loss(trainee: Trainee, batch: Batch, recipe: Recipe, smoothing: float) -> torch.Tensor:
    """Mean cross-entropy; only supervised positions pass through the head, in chunks."""
    where = device()
    ids, labels = batch.ids.to(where), batch.labels.to(where)
    hidden = hidden_states(trainee, ids, recipe.pocket.dropout)
    keep = labels != IGNORE
    hidden, targets = hidden[keep], labels[keep]

    def chunk_loss(states: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        logits = head_logits(trainee.model, states).float()
        return functional.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing)

    total = hidden.new_zeros((), dtype=torch.float32)
    for start in range(0, len(targets), CHUNK):
        part = hidden[start : start + CHUNK], targets[start : start + CHUNK]
        # one chunk keeps its logits; several would hold them all until the backward pass
        total = total + (
            chunk_loss(*part) if len(targets) <= CHUNK else recompute(chunk_loss, *part, use_reentrant=False)
        )
    return total / len(targets)


def hidden_states(trainee: Trainee, ids: torch.Tensor, dropout: float) -> torch.Tensor:
    """The last hidden states. Padding is on the right, so causal attention needs no mask."""
    model: Any = trainee.model
    if not trainee.pocket:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        return base.base_model(input_ids=ids, use_cache=False).last_hidden_state
    embedded = functional.dropout(model.get_input_embeddings()(ids), dropout, model.training)
    more = {}
    if hasattr(model.model, "get_per_layer_inputs"):  # Gemma's second table is indexed by the ids themselves
        more["per_layer_inputs"] = model.model.get_per_layer_inputs(ids, embedded)
    hidden = model.model(inputs_embeds=embedded, use_cache=False, **more).last_hidden_state
    return functional.dropout(hidden, dropout, model.training)


def head_logits(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """The output head, with Gemma's soft cap where the configuration has one."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    logits = base.get_output_embeddings()(hidden)
    cap = getattr(base.config.get_text_config(), "final_logit_softcapping", None)
    return torch.tanh(logits / cap) * cap if cap else logits


def check_head(trainee: Trainee, examples: list[Example]) -> None:
    """Our short way through the head must equal the model's own forward pass."""
    model: Any = trainee.model
    model.eval()
    ids = torch.tensor([min(examples, key=lambda e: len(e.ids)).ids], device=device())
    with torch.no_grad():
        ours = head_logits(model, hidden_states(trainee, ids, 0.0)).float()
        theirs = model(input_ids=ids, use_cache=False).logits.float()
    if not torch.allclose(ours, theirs, atol=1e-2, rtol=1e-2):
        raise TraceError(
            "this base scales its logits in a way the loss head does not know.",
            code="unknown_head",
            hint="Use another base model.",
        )
