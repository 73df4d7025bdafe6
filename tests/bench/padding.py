"""Computed over real tokens of a snapshot's records, batched as training does and at random; run by hand.

usage: python -m tests.bench.padding SNAPSHOT_FOLDER [RECIPE...]
Requests are read in the words of the recipe's encoder and written with the pocket's pieces; for a named base 32,000 of
these stand in for its vocabulary, for both.
"""

import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trace_site.lib.files import content_hash
from training.core.memorization import stage1_records
from training.core.recipe import POCKET, Recipe, load
from training.core.records import Snapshot, load_snapshot, stage2_records
from training.core.stages import passes
from training.ml.bases.chat import Chat
from training.ml.bases.encoders import load_encoder
from training.ml.bases.named import add_tokens
from training.ml.bases.pocket import writer_tokenizer
from training.ml.data import WIDTH_MULTIPLE, encode, epoch_batches

RECIPES = Path(__file__).parents[2] / "training" / "recipes"
NAMES = ("pocket", "paper")
STAND_IN_WORDS = 32_000
CELLS = [(fmt, memo, retrieval) for fmt in ("a", "c") for memo in ("m", "mr") for retrieval in ("n>r", "r+R")]


def main(folder: Path, names: Sequence[str]) -> None:
    snapshot = load_snapshot(folder)
    print(f"snapshot {snapshot.hash}: {len(snapshot.tools):,} tools, {len(snapshot.samples):,} samples")
    print(
        "recipe | cell | records | real tokens | computed / real, batch 8 | batch 16 | at random 8 | 16 | lengths"
    )
    for name in names:
        recipe = load(RECIPES / f"{name}.yaml")
        words = recipe.pocket.vocab if recipe.base == POCKET else STAND_IN_WORDS
        recipe = replace(recipe, pocket=replace(recipe.pocket, vocab=words))
        for fmt, memo, retrieval in CELLS:
            cell = recipe.with_cell(format=fmt, memo=memo, retrieval=retrieval)
            report(f"{name} | {fmt}, {memo}, {retrieval}", lengths_of(snapshot, cell))


def lengths_of(snapshot: Snapshot, recipe: Recipe) -> list[list[int]]:
    """The lengths of each stage's records."""
    _, words = load_encoder(recipe)
    tokenizer = writer_tokenizer(words, recipe.pocket.vocab)
    add_tokens(tokenizer, snapshot.family_strings(recipe.format))
    own = words if recipe.base == POCKET else None
    chat = Chat(tokenizer, "pocket", recipe.max_prompt_tokens, encoder_words=own)
    stages = [stage1_records(snapshot, recipe)]
    stages += [stage2_records(snapshot, recipe.with_cell(retrieval=step)) for step in passes(recipe)]
    return [[len(e.ids) for e in encode(records, chat, recipe.max_seq_len)[0]] for records in stages]


def report(title: str, stages: list[list[int]]) -> None:
    real = sum(map(sum, stages))
    ours = [sum(computed(at, epoch_batches(at, size, 0, 0)) for at in stages) / real for size in (8, 16)]
    loose = [sum(computed(at, at_random(at, size), 1) for at in stages) / real for size in (8, 16)]
    figures = " | ".join(f"{ratio:.3f}" for ratio in (*ours, *loose))
    records = "+".join(f"{len(lengths):,}" for lengths in stages)
    print(f"{title} | {records} | {real:,} | {figures} | {content_hash(stages)[:12]}", flush=True)


def computed(lengths: list[int], batches: list[list[int]], multiple: int = WIDTH_MULTIPLE) -> int:
    return sum(len(batch) * -(-max(lengths[n] for n in batch) // multiple) * multiple for batch in batches)


def at_random(lengths: list[int], size: int) -> list[list[int]]:
    order = list(range(len(lengths)))
    random.Random(0).shuffle(order)
    return [order[at : at + size] for at in range(0, len(order), size)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or NAMES)
