"""Training a language model: records as exchanges, and the loss over what the model writes of them.

In: a causal language model and its chat. Out: a `Trainee` whose loss is the mean cross-entropy of the supervised
positions, which alone pass through the output head: a 262k-row head over every prompt token would cost most of the
memory. What remains goes through it in blocks, see head.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trace_site.lib.errors import TraceError
from training.core.memorization import stage1_records
from training.core.recipe import Recipe
from training.core.records import Record, Snapshot, stage2_records
from training.ml.bases.chat import Chat
from training.ml.bases.named import device, without_adapters
from training.ml.head import Head, output_head, summed_loss
from training.ml.trainee import Batch, Dataset, Example, Trainee, padded

IGNORE = -100
LOUD = 40.0  # the largest logit in the check of the head, so that no scale or soft cap is too weak to be seen
CLOSE = 2e-2  # of the largest value; bf16 rounds by less, an unknown scale or cap changes more


@dataclass(frozen=True, slots=True)
class Written(Example):
    """An exchange as tokens; `mask` is 1 on what the model writes."""

    mask: list[int]

    @property
    def targets(self) -> list[int]:
        """The token to predict AT each position, IGNORE where there is no loss."""
        pairs = zip(self.ids[1:], self.mask[1:], strict=True)
        return [*(number if told else IGNORE for number, told in pairs), IGNORE]


@dataclass(kw_only=True)
class LanguageTrainee(Trainee[Written]):
    """A causal language model, and the way it is talked to. `source`: the base's name or folder, or the export gone on
    from."""

    chat: Chat
    source: str = ""

    def memory(self, snapshot: Snapshot, recipe: Recipe) -> Dataset[Written]:
        return self._encoded(stage1_records(snapshot, recipe), recipe, "Records with reasoning")

    def retrieval(self, snapshot: Snapshot, recipe: Recipe) -> Dataset[Written]:
        return self._encoded(stage2_records(snapshot, recipe), recipe, "Records with a trace")

    def _encoded(self, records: Sequence[Record], recipe: Recipe, reasoned: str) -> Dataset[Written]:
        examples, too_long = encode(records, self.chat, recipe.max_seq_len)
        facts = {
            "Records": len(examples),
            "Left out for length": too_long,
            "Prompts cut": self.chat.cut,
            reasoned: sum(bool(record.thinking) for record in records),
        }
        return examples, [], facts

    def collate(self, examples: Sequence[Written]) -> Batch[Written]:
        ids = padded([example.ids for example in examples], self.chat.pad_id)
        return Batch(examples, ids, sum(sum(example.mask[1:]) for example in examples))

    def loss(self, batch: Batch[Written]) -> Tensor:
        """Over the supervised positions; 0, with zero gradients, when there is none."""
        where = device()
        labels = padded([example.targets for example in batch.examples], IGNORE).to(where)
        hidden = hidden_states(self.model, batch.ids.to(where))
        keep = labels != IGNORE
        total = summed_loss(output_head(self.model), hidden[keep], labels[keep])
        return total / max(1, batch.weight)

    def check(self, examples: Sequence[Written]) -> None:
        check_head(self.model, min(examples, key=lambda example: len(example.ids)).ids)


def encode(records: Iterable[Record], chat: Chat, max_seq_len: int) -> tuple[list[Written], int]:
    """Examples, and how many records were left out for their length."""
    found = [Written(*chat.render(record)) for record in records]
    kept = [example for example in found if len(example.ids) <= max_seq_len]
    return kept, len(found) - len(kept)


def hidden_states(model: Any, ids: Tensor) -> Tensor:
    """The last hidden states. Padding is on the right, so causal attention needs no mask."""
    return without_adapters(model).base_model(input_ids=ids, use_cache=False).last_hidden_state  # type: ignore[no-any-return]


@torch.no_grad()
def check_head(model: Any, shortest: Sequence[int]) -> None:
    """Our short way through the head must equal the model's own forward pass, or TraceError says so."""
    model.eval()
    ids = torch.tensor([list(shortest)], device=device())
    with torch.autocast(device().type, torch.bfloat16, enabled=model.config.dtype is torch.bfloat16):
        head, hidden = output_head(model), hidden_states(model, ids)
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
