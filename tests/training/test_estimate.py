"""What a run will read, weigh and take: the arithmetic before it starts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.small_snapshot import write_snapshot
from trace_site.lib.files import read_jsonl
from training.core import estimate as sums
from training.core.decisions import memorized, retrieved
from training.core.estimate import E4B, base_of, base_of_config
from training.core.memorization import stage1_records
from training.core.recipe import POCKET, Pocket, Recipe, Stage, load
from training.core.records import load_snapshot, stage2_records

LENGTHS = sums.Lengths(
    tools=100,
    description=120.0,
    look_alikes=13,
    families={"flat": 100, "part": 130, "wrap": 2},
    samples={"rrb": 200, "rule": 100},
    query={"rrb": 80.0, "rule": 90.0},
    trace={"rrb": 600.0, "rule": 500.0},
)
RECIPES = Path(__file__).parents[2] / "training" / "recipes"
PAPER = load(RECIPES / "paper.yaml")
BASE = "org/model-1B"


DEMO = sums.Lengths(
    tools=215,
    description=142.3,
    look_alikes=13,
    families={"flat": 215, "clause": 130},
    samples={"rrb": 189, "rule": 312},
    query={"rrb": 134.0, "rule": 134.0},
    trace={"rrb": 600.0, "rule": 500.0},
)


def cell(**fields: object) -> Recipe:
    return replace(Recipe(), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("base", [POCKET, "some/base"])
@pytest.mark.parametrize("fmt", ["a", "b", "c"])
@pytest.mark.parametrize("retrieval", ["n", "r", "r+R"])
def test_records_are_counted_as_the_trainer_makes_them(
    tmp_path: Path, fmt: str, retrieval: str, base: str
) -> None:
    folder = write_snapshot(tmp_path / "s")
    rows = {name: [row for _, row in read_jsonl(folder / f"{name}.jsonl")] for name in ("tools", "samples")}
    counts = {"tools": len(rows["tools"]), "rrb": 5, "rule": 5}
    families = {"flat": 6, "part": 8, "wrap": 2}
    lengths = sums.lengths_of(rows["tools"], rows["samples"], counts=counts, families=families, look_alikes=4)
    recipe = cell(format=fmt, retrieval=retrieval, base=base)
    snapshot = load_snapshot(folder)
    first, second = (one.records for one in sums.amounts(recipe, lengths))
    kinds = (memorized, retrieved) if base == POCKET else (stage1_records, stage2_records)
    assert [first, second] == [len(made(snapshot, recipe)) for made in kinds]


def test_an_estimate_of_the_demo_is_what_its_training_took() -> None:
    """Snapshot c78b667011ea, seed 0: 128 steps, 206,788 tokens, 22,699,783 numbers, 1.8 GB, 129 s of two idle cores."""
    recipe = replace(load(RECIPES / "pocket.yaml"), format="a", memo="none", retrieval="r+R")
    (stage,), size = sums.amounts(recipe, DEMO), sums.size_of(recipe, DEMO)
    assert size is not None and size.parameters == pytest.approx(22_699_783, rel=0.001)
    assert (stage.records, stage.steps) == (2 * 501, 128)
    assert stage.tokens * stage.epochs == pytest.approx(206_788, rel=0.12)  # what a trace restates is shorter
    assert peak(recipe, size, [stage], gpu=False) == pytest.approx(1.759 * 2**30, rel=0.3)
    rate = 2 * sums.CPU_FLOPS / sums.flops_a_token(recipe, size)
    assert sums.stage_seconds(stage, rate) + sums.START == pytest.approx(129, rel=0.1)


def test_every_cell_lists_the_stages_that_train() -> None:
    names = {
        (memo, way): [one.stage for one in sums.amounts(cell(memo=memo, retrieval=way, base=BASE), LENGTHS)]
        for memo in ("m", "none")
        for way in ("none", "n", "n>r")
    }
    assert names["none", "none"] == [] and names["m", "none"] == ["stage1"]
    assert names["m", "n"] == ["stage1", "plain"] and names["none", "n>r"] == ["plain", "stage2"]


def test_a_stages_steps_are_those_the_trainer_takes() -> None:
    (free,) = sums.amounts(cell(retrieval="none", stage1=Stage(batch_size=8, epochs=2)), LENGTHS)
    (capped,) = sums.amounts(
        cell(retrieval="none", stage1=Stage(batch_size=8, epochs=2, max_steps=50)), LENGTHS
    )
    assert (free.records, free.steps, free.epochs) == (400, 100, 2.0)
    assert (capped.records, capped.steps, capped.epochs) == (400, 50, 1.0)
    assert sums.stage_seconds(capped, 100.0) == sums.stage_seconds(free, 100.0) / 2


def test_a_time_limit_bounds_a_stage_and_epochs_lengthen_it() -> None:
    amount = sums.Amount("stage1", 100, 1000, 13, 2.0)
    assert sums.stage_seconds(amount, 100.0) == 20.0
    assert sums.stage_seconds(replace(amount, max_seconds=5.0), 100.0) == 5.0


def test_pocket_is_weighed_with_its_encoder_whose_words_do_not_train() -> None:
    size = sums.size_of(cell(format="a"), LENGTHS)
    assert size is not None and (size.hidden, size.layers) == (384, 6)
    assert size.parameters - 100 * 384 == pytest.approx(22.7e6, rel=0.02)
    assert size.parameters - size.trained == pytest.approx(11.7e6, rel=0.01)


def test_pocket_is_weighed_by_the_configuration_of_its_encoders_folder(tmp_path: Path) -> None:
    config = {"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 100, "vocab_size": 500}
    recipe = cell(format="a", pocket=Pocket(encoder=str(tmp_path)))
    size = sums.size_of(recipe, LENGTHS)
    assert size is not None and size.hidden == 384  # there is none yet
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 128}))
    size = sums.size_of(recipe, LENGTHS)
    assert size is not None and (size.hidden, size.layers) == (64, 3)
    assert size.active == 3 * (4 * 64**2 + 2 * 64 * 100) + 128 * 64
    assert size.trained == size.active + 100 * 64
    assert size.parameters == size.trained + 500 * 64
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": None}))
    size = sums.size_of(recipe, LENGTHS)
    assert size is not None and size.hidden == 384


def test_a_frozen_base_trains_its_adapters_and_tables() -> None:
    full = sums.size_of(replace(PAPER, format="c"), LENGTHS)
    rows = sums.size_of(replace(PAPER, format="c", embeddings="new_rows"), LENGTHS)
    assert full is not None and rows is not None
    assert 100e6 < rows.trained < 300e6 < full.trained
    stages = sums.amounts(PAPER, LENGTHS)
    heavy = peak(PAPER, full, stages)
    assert peak(replace(PAPER, embeddings="new_rows"), rows, stages) < heavy / 2
    assert peak(replace(PAPER, activation_checkpointing=False), full, stages) > heavy
    assert sums.flops_a_token(PAPER, full) > sums.flops_a_token(
        replace(PAPER, activation_checkpointing=False), full
    )


def peak(recipe: Recipe, size: sums.Size, stages: list[sums.Amount], gpu: bool = True) -> float:
    return sums.memory_of(recipe, size, stages, gpu=gpu).peak


def test_the_papers_recipe_fits_one_gpu_of_141_gb_at_its_longest_records() -> None:
    """By hand: 7.46e9 numbers of the base and 13,313 of each tool row over both tables; the adapters of 42 layers."""
    long = {"rrb": 9000.0, "rule": 9000.0}
    lengths = replace(LENGTHS, tools=8323, families={"flat": 0, "part": 9342, "wrap": 2}, trace=long)
    size, stages = sums.size_of(PAPER, lengths), sums.amounts(PAPER, lengths)
    assert size is not None
    found = sums.memory_of(PAPER, size, stages, gpu=True)
    assert (found.sequences, found.length) == (16, 2048)
    assert found.frozen == pytest.approx(2 * (7.46e9 + 9344 * 13_313), rel=1e-3)  # bf16
    trained = 64 * 42 * 23 * 2560 + 3.49e9 + 9344 * 13_313
    assert found.trained == pytest.approx(16 * trained, rel=1e-3)  # fp32: number, gradient, two moments
    assert found.activations == pytest.approx(16 * 2048 * 2560 * (6 * 42 + 80 + 40), rel=1e-3)
    assert 100e9 < found.peak < 0.8 * 141e9
    kept = replace(PAPER, activation_checkpointing=False)
    assert peak(kept, size, stages) > 2 * 141e9
    rows = replace(PAPER, embeddings="new_rows")
    few = sums.size_of(rows, lengths)
    assert few is not None and peak(rows, few, stages) < 60e9


def test_merging_in_32_bits_counts_where_it_needs_most() -> None:
    rows = replace(PAPER, embeddings="new_rows")
    size, stages = sums.size_of(rows, LENGTHS), sums.amounts(rows, LENGTHS)
    assert size is not None
    found = sums.memory_of(rows, size, stages, gpu=True)
    assert found.merging > found.frozen + found.trained + found.activations
    assert found.peak == pytest.approx(sums.CONTEXT + 4 * size.parameters + 8 * size.trained)
    assert found.sequences


def test_a_micro_batch_saves_memory() -> None:
    size = sums.size_of(PAPER, LENGTHS)
    assert size is not None
    small = replace(PAPER, stage1=Stage(micro_batch=1), stage2=Stage(batch_size=16, micro_batch=1))
    stages = sums.amounts(PAPER, LENGTHS)
    assert peak(small, size, stages) < peak(PAPER, size, stages)


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
    assert found is not None and found.parameters == pytest.approx(billions * 1e9)


def test_a_name_without_a_size_says_nothing() -> None:
    assert base_of("org/mystery-model") is None and base_of("org/v2-base") is None


def test_a_base_is_sized_by_its_configuration() -> None:
    config = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 1000, "intermediate_size": 128}
    found = base_of_config({"text_config": {**config, "num_attention_heads": 4, "num_key_value_heads": 2}})
    assert found is not None and found.tables == 64_000
    assert found.body == 2 * (2 * 64**2 * 1.5 + 3 * 64 * 128)
    assert base_of_config({"hidden_size": "?"}) is None
    assert E4B.tables / E4B.vocab > 2560  # with the per-layer tables


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
