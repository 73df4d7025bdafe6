"""What a run will read, weigh and take: the arithmetic before it starts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.small_snapshot import write_snapshot
from training.core import estimate as sums
from training.core.decisions import memorized, retrieved
from training.core.estimate import base_of
from training.core.memorization import stage1_records
from training.core.recipe import POCKET, Pocket, Recipe, Stage, load
from training.core.records import load_snapshot, stage2_records

COUNTS = {"tools": 100, "rrb": 200, "rule": 100}
LENGTHS = sums.Lengths(description=120.0, query=80.0, trace=560.0)
RECIPES = Path(__file__).parents[2] / "training" / "recipes"
PAPER = load(RECIPES / "paper.yaml")
BASE = "org/model-1B"


def cell(**fields: object) -> Recipe:
    return replace(Recipe(), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", [POCKET, "some/base"])
@pytest.mark.parametrize("fmt", ["a", "b", "c"])
@pytest.mark.parametrize("retrieval", ["n", "r", "r+R"])
def test_records_are_counted_as_the_trainer_makes_them(
    tmp_path: Path, fmt: str, retrieval: str, base: str
) -> None:
    folder = write_snapshot(tmp_path / "s")
    counts = {"tools": 5, "rrb": 5, "rule": 5}
    recipe = cell(format=fmt, retrieval=retrieval, base=base)
    snapshot = load_snapshot(folder)
    first, second = (one.records for one in sums.amounts(recipe, counts, LENGTHS))
    kinds = (memorized, retrieved) if base == POCKET else (stage1_records, stage2_records)
    assert [first, second] == [len(made(snapshot, recipe)) for made in kinds]


def test_an_estimate_of_the_demo_is_what_its_training_took() -> None:
    """Snapshot c78b667011ea, seed 0: 128 steps, 206,788 tokens, 22,699,783 numbers, 1.8 GB, 129 s of two idle cores."""
    recipe = replace(load(RECIPES / "pocket.yaml"), format="a", memo="none", retrieval="r+R")
    counts, lengths = {"tools": 215, "rrb": 189, "rule": 312}, sums.Lengths(142.3, 134.0, 540.0)
    (stage,), size = sums.amounts(recipe, counts, lengths), sums.size_of(recipe, 215)
    assert size is not None and size.parameters == pytest.approx(22_699_783, rel=0.02)
    assert (stage.records, stage.steps) == (2 * 501, 128)
    assert stage.tokens * stage.epochs == pytest.approx(206_788, rel=0.12)  # what a trace restates is shorter
    assert sums.peak_memory(recipe, size, [stage], gpu=False) == pytest.approx(1.759 * 2**30, rel=0.3)
    rate = sums.usual_rate(recipe, size, gpu=False, threads=2)
    assert sums.stage_seconds(recipe, stage, rate) == pytest.approx(129, rel=0.1)


def test_every_cell_lists_the_stages_that_train() -> None:
    names = {
        (memo, way): [
            one.stage for one in sums.amounts(cell(memo=memo, retrieval=way, base=BASE), COUNTS, LENGTHS)
        ]
        for memo in ("m", "none")
        for way in ("none", "n", "n>r")
    }
    assert names["none", "none"] == [] and names["m", "none"] == ["stage1"]
    assert names["m", "n"] == ["stage1", "plain"] and names["none", "n>r"] == ["plain", "stage2"]


def test_a_stages_steps_are_those_the_trainer_takes() -> None:
    whole, half = (
        cell(retrieval="none", stage1=Stage(batch_size=8, epochs=2, max_steps=most)) for most in (0, 50)
    )
    (free,), (capped,) = (sums.amounts(recipe, COUNTS, LENGTHS) for recipe in (whole, half))
    assert (free.records, free.steps, free.epochs) == (400, 100, 2.0)
    assert (capped.records, capped.steps, capped.epochs) == (400, 50, 1.0)


def test_a_time_limit_bounds_a_stage_and_epochs_lengthen_it() -> None:
    amount = sums.Amount("stage1", 100, 1000, 13, 2.0)
    assert sums.stage_seconds(cell(), amount, 100.0) == sums.START + 20.0
    limited = cell(stage1=Stage(max_seconds=5.0))
    assert sums.stage_seconds(limited, amount, 100.0) == sums.START + 5.0


def test_pocket_is_weighed_with_its_encoder_whose_words_do_not_train() -> None:
    size = sums.size_of(cell(format="a"), 100)
    assert size is not None and (size.base.hidden, size.base.layers) == (384, 6)
    assert size.parameters - 100 * 384 == pytest.approx(22.7e6, rel=0.02)
    assert size.parameters - size.trained == pytest.approx(11.7e6, rel=0.01)


def test_pocket_is_weighed_by_the_configuration_of_its_encoders_folder(tmp_path: Path) -> None:
    config = {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 500}
    recipe = cell(format="a", pocket=Pocket(encoder=str(tmp_path)))
    size = sums.size_of(recipe, 100)
    assert size is not None and size.base.hidden == 384  # there is none yet
    (tmp_path / "config.json").write_text(json.dumps(config))
    size = sums.size_of(recipe, 100)
    assert size is not None and (size.base.hidden, size.base.layers) == (64, 3)
    assert size.base.body == 12 * 3 * 64**2
    assert size.trained == size.base.body + 100 * 64
    assert size.parameters == size.trained + 500 * 64
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": None}))
    size = sums.size_of(recipe, 100)
    assert size is not None and size.base.hidden == 384


def test_a_frozen_base_trains_its_adapters_and_tables() -> None:
    full = sums.size_of(replace(PAPER, format="c"), 100)
    rows = sums.size_of(replace(PAPER, format="c", embeddings="new_rows"), 100)
    assert full is not None and rows is not None
    assert 100e6 < rows.trained < 300e6 < full.trained
    fast = replace(PAPER, activation_checkpointing=False)
    assert peak(replace(PAPER, embeddings="new_rows")) < peak(PAPER) / 2
    assert peak(fast) > peak(PAPER)
    slow, quick = (sums.usual_rate(recipe, full, gpu=True, threads=2) for recipe in (PAPER, fast))
    assert slow < quick


def peak(recipe: Recipe, tools: int = 100, lengths: sums.Lengths = LENGTHS) -> float:
    size = sums.size_of(recipe, tools)
    assert size is not None
    stages = sums.amounts(recipe, COUNTS | {"tools": tools}, lengths)
    return sums.peak_memory(recipe, size, stages, gpu=True)


def test_the_papers_recipe_fits_one_gpu_of_141_gb_at_its_longest_records() -> None:
    """By hand: 7.46e9 numbers of the base in bf16; 16 bytes for each that trains: the adapters of 42 layers, the tables
    and two rows a tool; 16 records of 2,048 tokens."""
    long = replace(LENGTHS, trace=9000.0)
    trained = 64 * 42 * 23 * 2560 + 3.49e9 + 8323 * 2 * 2560
    weights = 2 * (7.46e9 + 8323 * 2 * 2560) + 16 * trained
    activations = 16 * 2048 * 2560 * (6 * 42 + 80 + 40)
    found = peak(PAPER, 8323, long)
    assert found == pytest.approx(sums.CONTEXT + weights + activations, rel=1e-3)
    assert 100e9 < found < 0.8 * 141e9
    assert peak(replace(PAPER, activation_checkpointing=False), 8323, long) > 2 * 141e9
    assert peak(replace(PAPER, embeddings="new_rows"), 8323, long) < 60e9


def test_merging_in_32_bits_counts_where_it_needs_most() -> None:
    rows = replace(PAPER, embeddings="new_rows")
    size = sums.size_of(rows, 100)
    assert size is not None
    assert peak(rows) == pytest.approx(sums.CONTEXT + 4 * size.parameters + 8 * size.trained)


def test_a_micro_batch_saves_memory() -> None:
    small = replace(PAPER, stage1=Stage(micro_batch=1), stage2=Stage(batch_size=16, micro_batch=1))
    assert peak(small) < peak(PAPER)


def test_runs_of_a_kind_differ_in_nothing_that_decides_speed_or_memory() -> None:
    alike = (replace(PAPER, seed=7, format="a"), replace(PAPER, stage1=replace(PAPER.stage1, lr=1e-3)))
    assert {sums.kind(recipe) for recipe in alike} == {sums.kind(PAPER)}
    for other in (
        replace(PAPER, base="other/base"),
        replace(PAPER, embeddings="new_rows"),
        replace(PAPER, stage2=replace(PAPER.stage2, micro_batch=1)),
    ):
        assert sums.kind(other) != sums.kind(PAPER)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("google/gemma-4-E4B-it", 7.46),
        ("Qwen/Qwen3-0.6B", 0.6),
        ("meta-llama/Llama-3.1-8B", 8),
        ("x/smollm-135M", 0.135),
    ],
)
def test_a_base_is_sized_by_its_name(name: str, billions: float) -> None:
    found = base_of(name)
    assert found is not None and found.body + found.tables == pytest.approx(billions * 1e9)


def test_a_name_without_a_size_says_nothing() -> None:
    assert base_of("org/mystery-model") is None and base_of("org/v2-base") is None


def test_a_base_is_sized_by_its_configuration(tmp_path: Path) -> None:
    config = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 1000}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config}))
    found = base_of(str(tmp_path))
    assert found is not None and (found.tables, found.body) == (64_000, 12 * 2 * 64**2)
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_size_per_layer_input": 8}))
    found = base_of(str(tmp_path))
    assert found is not None and found.tables == 1000 * (64 + 2 * 8)


@pytest.mark.parametrize(
    ("retrieval", "counts", "refused"),
    [
        ("n", {"rule": 5, "rrb": 0}, True),
        ("r", {"rule": 0, "rrb": 0, "imported": 0}, True),
        ("r+R", {"rule": 5, "rrb": 0}, False),
        ("none", {"rule": 0}, False),
        ("r", {"imported": 1}, False),
        ("r", {}, False),
    ],
)
def test_a_cell_without_samples_is_refused(retrieval: str, counts: dict[str, int], refused: bool) -> None:
    assert bool(sums.refusal(cell(retrieval=retrieval), counts)) is refused
