"""Batches: each epoch other ones, every example once, hardly any padding, and a function of four numbers."""

import random
from itertools import pairwise

import pytest

pytest.importorskip("torch")

from training.ml.data import epoch_batches  # noqa: E402
from training.ml.language import IGNORE, Written  # noqa: E402
from training.ml.trainee import padded  # noqa: E402

pytestmark = pytest.mark.ml
# Lengths of the records of 8,323 public tools and of 1,959 samples by the offline writer, every twentieth of them:
# Stage 1 and Stage 2 with the pocket recipe, format c, and Stage 2 without its records for fast decoding.
STAGE1 = [11, 17, 19, 22, 24, 26, 30, 34, 40, 45, 49, 53, 58, 64, 71, 80, 91, 104, 116, 132, 239]
STAGE2 = [14, 19, 22, 24, 26, 29, 31, 35, 39, 49, 90, 105, 111, 116, 121, 127, 134, 143, 153, 181, 316]
TRACED = [
    76,
    97,
    101,
    104,
    106,
    108,
    110,
    113,
    115,
    118,
    121,
    124,
    127,
    131,
    136,
    141,
    146,
    155,
    173,
    202,
    307,
]
CORPORA = {"stage1": (STAGE1, 41_615), "stage2": (STAGE2, 3_918), "traced": (TRACED, 1_959)}


def corpus(name: str) -> list[int]:
    """So many lengths with that distribution."""
    steps, count = CORPORA[name]
    draw = random.Random(name)
    bounds = list(pairwise(steps))
    return [draw.randint(*draw.choice(bounds)) for _ in range(count)]


def computed_over_real(lengths: list[int], batches: list[list[int]]) -> float:
    """As the loop computes: every sequence of a batch as wide as its tensor."""
    computed = 0
    for batch in batches:
        computed += padded([[1] * max(lengths[n] for n in batch)], 0).shape[1] * len(batch)
    return computed / sum(lengths)


@pytest.mark.parametrize("batch_size", [8, 16])
@pytest.mark.parametrize("name", sorted(CORPORA))
def test_padding_adds_at_most_a_twentieth_where_random_batches_add_forty_percent(
    name: str, batch_size: int
) -> None:
    lengths = corpus(name)
    ours = computed_over_real(lengths, epoch_batches(lengths, batch_size, seed=0, epoch=0))
    order = list(range(len(lengths)))
    random.Random(0).shuffle(order)
    at_random = [order[at : at + batch_size] for at in range(0, len(order), batch_size)]
    assert ours <= 1.05
    assert computed_over_real(lengths, at_random) >= (1.35 if name == "traced" else 1.8)


def test_an_epoch_holds_every_example_once_in_full_batches_but_one() -> None:
    lengths = corpus("traced")
    batches = epoch_batches(lengths, 16, seed=3, epoch=1)
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    assert sorted({len(batch) for batch in batches}) == [len(lengths) % 16, 16]


def test_the_plan_is_a_function_of_lengths_batch_size_seed_and_epoch() -> None:
    lengths = corpus("traced")
    plan = epoch_batches(lengths, 16, 3, 1)
    assert plan == epoch_batches(list(lengths), 16, 3, 1)
    others = [(lengths, 8, 3, 1), (lengths, 16, 4, 1), (lengths, 16, 3, 2), (lengths[1:], 16, 3, 1)]
    assert all(epoch_batches(*arguments) != plan for arguments in others)


def test_each_epoch_has_other_batches_not_only_another_order() -> None:
    lengths = corpus("stage2")
    first, second = ({frozenset(b) for b in epoch_batches(lengths, 16, 0, epoch)} for epoch in (0, 1))
    assert len(first & second) <= 0.02 * len(first)


def test_batches_of_one_length_do_not_come_one_after_another() -> None:
    lengths = corpus("stage1")
    sizes = [max(lengths[n] for n in batch) for batch in epoch_batches(lengths, 8, 0, 0)]
    rising = sum(a <= b for a, b in pairwise(sizes)) / len(sizes)
    assert 0.4 <= rising <= 0.6


@pytest.mark.parametrize("count", [0, 1, 7, 16, 17])
def test_a_few_examples_make_a_plan_too(count: int) -> None:
    batches = epoch_batches([5] * count, 16, 0, 0)
    assert sorted(number for batch in batches for number in batch) == list(range(count))


def test_targets_are_the_next_supervised_token_and_rows_are_padded_on_the_right() -> None:
    examples = [Written([5, 6, 7, 8], [0, 0, 1, 1]), Written([9, 4, 3], [0, 1, 1])]
    assert [one.targets for one in examples] == [[IGNORE, 7, 8, IGNORE], [4, 3, IGNORE]]
    assert padded([one.ids for one in examples], 1).tolist() == [[5, 6, 7, 8], [9, 4, 3, 1]]
