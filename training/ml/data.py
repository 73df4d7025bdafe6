"""The data path: record -> exchange -> (ids, mask) -> batches of similar length -> tensors.

In: records (core/records.py) and a chat (chat.py, which alone renders). Out: examples, the batches of each epoch, and
tensors padded on the right, so that causal attention needs no mask. Loss is only where the mask is 1.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import torch

from training.core.records import Record
from training.ml.bases.chat import Chat

IGNORE = -100
# Computed tokens over real ones, 8,323 public tools and 1,959 samples, batches of 8 and 16: at most 1.03 for a stage of
# two thousand records and more, 1.05 for one of five hundred; random batches 1.4 to 2.4; 32 and 4 gave up to 1.08.
BUCKET = 128  # batches sorted by length together, out of as many at random
WIDTH_MULTIPLE = 2  # fewer distinct shapes: each new one costs the CPU kernels a compilation and memory


@dataclass(frozen=True, slots=True)
class Example:
    ids: list[int]
    mask: list[int]
    thinks: bool = False  # whether a trace comes before the answer


@dataclass(frozen=True, slots=True)
class Batch:
    ids: torch.Tensor  # [sequences, length]
    labels: torch.Tensor  # the token to predict AT each position, IGNORE where there is no loss
    tokens: int  # without padding


def encode(records: Iterable[Record], chat: Chat, max_seq_len: int) -> tuple[list[Example], int]:
    """Examples, and how many records were left out for their length."""
    examples: list[Example] = []
    too_long = 0
    for record in records:
        ids, mask = chat.render(record)
        if len(ids) > max_seq_len:
            too_long += 1
        else:
            examples.append(Example(ids, mask, bool(record.thinking)))
    return examples, too_long


def epoch_batches(lengths: list[int], batch_size: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of one epoch as example numbers; a function of its arguments only, so a resume repeats it."""
    rng = random.Random(f"{seed}:{epoch}")
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches: list[list[int]] = []
    for start in range(0, len(order), batch_size * BUCKET):
        chunk = sorted(order[start : start + batch_size * BUCKET], key=lambda number: lengths[number])
        batches += [chunk[at : at + batch_size] for at in range(0, len(chunk), batch_size)]
    rng.shuffle(batches)
    return batches


def replayed(count: int, each: int, seed: int, step: int) -> list[int]:
    """Which of `count` examples are replayed at a step, `each` of them: all in a shuffled order, then all in another
    one. A function of its arguments only, so a resume repeats it."""
    found: list[int] = []
    for place in range(step * each, (step + 1) * each) if count else ():
        turn, at = divmod(place, count)
        found.append(_shuffled(count, f"{seed}:replay:{turn}")[at])
    return found


@lru_cache(maxsize=2)
def _shuffled(count: int, seed: str) -> list[int]:
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


def collate(examples: list[Example], pad_id: int) -> Batch:
    longest = max(len(example.ids) for example in examples)
    width = -(-longest // WIDTH_MULTIPLE) * WIDTH_MULTIPLE
    ids = torch.full((len(examples), width), pad_id)
    labels = torch.full((len(examples), width), IGNORE)
    for row, example in enumerate(examples):
        size = len(example.ids)
        ids[row, :size] = torch.tensor(example.ids)
        targets = [n if m else IGNORE for n, m in zip(example.ids[1:], example.mask[1:], strict=True)]
        labels[row, : size - 1] = torch.tensor(targets)
    return Batch(ids, labels, sum(len(example.ids) for example in examples))
