"""Exports: the pocket model and named bases read back equal, with ties, tables and token ids kept."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from evaluation.ml.manifest import verify  # noqa: E402
from tests.training.small_bases import write_gemma, write_untied  # noqa: E402
from tests.training.small_encoder import quick_recipe  # noqa: E402
from tests.training.small_snapshot import NAMES, RULE, silent, write_snapshot  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from trace_site.lib.files import read_json  # noqa: E402
from training.core.recipe import Lora, Recipe, Stage  # noqa: E402
from training.core.rundir import is_intact  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402

pytestmark = pytest.mark.ml
QUICK = quick_recipe()
SHORT = Stage(lr=1e-2, encoder_lr=1e-3, rows_lr=1e-3, batch_size=4, epochs=1)


def named(base: Path, fmt: str, embeddings: str) -> Recipe:
    return Recipe(
        base=str(base),
        format=fmt,
        retrieval="r",
        embeddings=embeddings,
        threads=1,
        max_seq_len=256,
        max_prompt_tokens=128,
        lora=Lora(rank=4, alpha=8),
        stage1=SHORT,
        stage2=SHORT,
    )


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_pocket_goes_through_both_stages(tmp_path: Path, fmt: str) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    recipe = QUICK.with_cell(format=fmt, memo="m", retrieval="r+R", stage1=SHORT, stage2=SHORT)
    train_stage("stage1", recipe, snapshot, tmp_path / "one", silent)
    train_stage("stage2", recipe, snapshot, tmp_path / "two", silent, init=tmp_path / "one" / "export")
    for run, retrieval in (("one", "none"), ("two", "r+R")):
        spec = read_json(tmp_path / run / "export" / "trace.json")
        assert is_intact(tmp_path / run / "export")
        assert (spec["memo"], spec["retrieval"], len(spec["stages"])) == ("m", retrieval, 1 + (run == "two"))
        assert [tool["name"] for tool in spec["tools"]] == sorted(NAMES)
        assert [len(tool["ids"]) for tool in spec["tools"]] == [1 if fmt == "a" else 2] * len(NAMES)
        assert [one["token"] for one in spec["clauses"]] == [
            one["token"] for one in RULE["statements"] if run == "two"
        ]


@pytest.mark.parametrize("embeddings", ["full", "new_rows"])
def test_gemma_keeps_its_tie_and_trains_both_tables(tmp_path: Path, embeddings: str) -> None:
    base, snapshot = write_gemma(tmp_path / "base"), write_snapshot(tmp_path / "snapshot")
    recipe = named(base, "c", embeddings)
    train_stage("stage1", recipe.with_cell(memo="none"), snapshot, tmp_path / "untrained", silent)
    train_stage("stage1", recipe, snapshot, tmp_path / "one", silent)
    train_stage("stage2", recipe, snapshot, tmp_path / "two", silent, init=tmp_path / "one" / "export")
    before, after = (
        AutoModelForCausalLM.from_pretrained(tmp_path / run / "export") for run in ("untrained", "two")
    )
    rows = after.get_input_embeddings().weight.shape[0]
    assert after.config.vocab_size == after.config.vocab_size_per_layer_input == rows
    assert after.config.tie_word_embeddings
    assert after.get_output_embeddings().weight is after.get_input_embeddings().weight
    spec = read_json(tmp_path / "two" / "export" / "trace.json")
    tools = sorted({number for tool in spec["tools"] for number in tool["ids"]})
    for table in ("model.embed_tokens.weight", "model.embed_tokens_per_layer.weight"):
        old, new = before.state_dict()[table], after.state_dict()[table]
        assert (old[tools] != new[tools]).any(dim=1).all(), table
        assert torch.equal(old[:300], new[:300]) == (embeddings == "new_rows"), table


@pytest.mark.parametrize("embeddings", ["full", "new_rows"])
def test_a_base_with_a_head_of_its_own_stays_untied(tmp_path: Path, embeddings: str) -> None:
    base, snapshot = write_untied(tmp_path / "base"), write_snapshot(tmp_path / "snapshot")
    train_stage(
        "stage2", named(base, "a", embeddings).with_cell(memo="none"), snapshot, tmp_path / "run", silent
    )
    assert "lm_head.weight" in load_file(tmp_path / "run" / "export" / "model.safetensors")


@pytest.mark.parametrize("retrieval", ["r", "r+R"])
def test_a_language_model_tells_the_clauses_of_the_rules_that_its_samples_were_about(
    tmp_path: Path, retrieval: str
) -> None:
    base = write_untied(tmp_path / "base")
    unused = {**RULE, "code": "UNUSED", "statements": [{**RULE["statements"][0], "token": "<<hr/UNUSED#1>>"}]}
    snapshot = write_snapshot(tmp_path / "snapshot", rules=[RULE, unused])
    recipe = named(base, "a", "new_rows").with_cell(memo="none", retrieval=retrieval)
    train_stage("stage2", recipe, snapshot, tmp_path / "run", silent)
    spec = read_json(tmp_path / "run" / "export" / "trace.json")
    learned = [one["token"] for one in RULE["statements"]] if retrieval == "r+R" else []
    assert [one["token"] for one in spec["clauses"]] == learned
    assert all(tool["description"] for tool in spec["tools"])


def test_a_base_that_names_code_of_its_own_is_trained_and_served_without(tmp_path: Path) -> None:
    base, snapshot = write_untied(tmp_path / "base"), write_snapshot(tmp_path / "snapshot")
    for name, code in (("config.json", "a.B"), ("tokenizer_config.json", ["a.B", None])):
        told = json.loads((base / name).read_text())
        (base / name).write_text(json.dumps({**told, "auto_map": {"AutoConfig": code}}))
    train_stage(
        "stage2", named(base, "a", "new_rows").with_cell(memo="none"), snapshot, tmp_path / "run", silent
    )
    assert verify(tmp_path / "run" / "export")


def test_stage2_refuses_a_stage1_model_of_another_format(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot")
    train_stage("stage1", QUICK.with_cell(format="a", memo="none"), snapshot, tmp_path / "one", silent)
    with pytest.raises(TraceError, match="format a"):
        recipe = QUICK.with_cell(format="c", memo="m", retrieval="r")
        train_stage("stage2", recipe, snapshot, tmp_path / "two", silent, init=tmp_path / "one" / "export")


def test_a_base_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    recipe = named(tmp_path / "nothing", "a", "full").with_cell(memo="none")
    with pytest.raises(TraceError, match="neither a folder here nor"):
        train_stage("stage2", recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
