"""The model card: facts only, all of them, in a form the page of a model can draw."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.training.small_bases import write_base  # noqa: E402
from tests.training.small_encoder import quick_recipe, small_pocket, write_encoder  # noqa: E402
from tests.training.small_snapshot import sample, silent, write_snapshot  # noqa: E402
from tests.training.small_training import recipe_for  # noqa: E402
from training.core.recipe import Lora, Stage  # noqa: E402
from training.core.records import load_snapshot  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402
from training.registry.selectors import card_parts  # noqa: E402

pytestmark = pytest.mark.ml
SHORT = Stage(lr=1e-2, batch_size=5, epochs=1)


def sections(card: Path) -> dict[str, Any]:
    """{heading: its table as a mapping, or its paragraphs}."""
    found: dict[str, Any] = {}
    heading = ""
    for kind, content in card_parts(card.read_text()):
        if kind == "heading":
            heading = content
        elif kind == "table":
            found[heading] = dict(content)
        else:
            found.setdefault(heading, []).append(content)
    return found


def test_a_card_says_what_a_model_was_made_from_and_how_it_was_checked(tmp_path: Path) -> None:
    rows = [sample(n, writer="offline" if n < 4 else "llm:writer-large") for n in range(10)]
    folder = write_snapshot(tmp_path / "snapshot", rows)
    base = write_base(tmp_path / "base", "gemma4")
    (base / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    recipe = recipe_for(base, memo="m", stage1=SHORT, stage2=SHORT, token_init="opaque", seed=7)
    train_stage("stage1", recipe, folder, tmp_path / "one", silent)
    train_stage("stage2", recipe, folder, tmp_path / "two", silent, init=tmp_path / "one" / "export")
    card = sections(tmp_path / "two" / "export" / "README.md")
    model, data = card["Model"], card["Data"]
    assert model["Base"] == str(base)
    assert model["Licence of the base"] == "apache-2.0"  # kept through Stage 1
    assert model["Cell (format, memo, retrieval)"] == "c, m, r"
    assert model["Architecture"] == "Gemma4ForCausalLM"
    assert model["Seed"] == "7"
    assert data["Snapshot"] == load_snapshot(folder).hash
    assert (data["Tools"], data["Samples"], data["Samples of branch rule"]) == ("5", "10", "5")
    assert data["Samples by the offline writer"] == "4 of 10 (40 %)"
    assert [card[f"Training, part {n}"]["memo"] for n in (1, 2)] == ["m", "m"]
    assert [card[f"Training, part {n}"]["retrieval"] for n in (1, 2)] == ["none", "r"]
    assert all({"Records", "Tokens", "Seconds"} <= card[f"Training, part {n}"].keys() for n in (1, 2))
    made = card["Made with"]
    assert made["Arithmetic"] == "fp32" and "commit" in made["Code"] and "torch " in made["Libraries"]
    assert "threads: 1" in made["Hardware"] or " x " in made["Hardware"]
    assert card["Recipe, where it is not the default"]["token_init"] == "opaque"
    assert not any("pocket figures" in line for line in card["Limits"])


def test_a_card_lists_every_field_that_is_not_the_default_and_no_other(tmp_path: Path) -> None:
    base = write_base(tmp_path / "base", "llama")
    recipe = recipe_for(base, stage2=SHORT, lora=Lora(rank=4, alpha=128))
    train_stage("stage2", recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    changed = sections(tmp_path / "run" / "export" / "README.md")["Recipe, where it is not the default"]
    assert changed == {
        "memo": "none",
        "retrieval": "r",
        "base": str(base),
        "threads": "1",
        "bf16": "False",
        "max_seq_len": "256",
        "max_prompt_tokens": "128",
        "lora.rank": "4",
        "stage2.lr": "0.01",
        "stage2.batch_size": "5",
    }


def test_the_card_of_a_pocket_says_that_its_figures_are_not_the_papers(tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    (encoder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    pocket = small_pocket(encoder=str(encoder))
    recipe = quick_recipe(memo="none", retrieval="n", pocket=pocket, stage2=SHORT, max_prompt_tokens=99)
    train_stage("stage2", recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    card = sections(tmp_path / "run" / "export" / "README.md")
    assert card["Model"]["Licence of the base"] == "apache-2.0"
    assert card["Recipe, where it is not the default"]["pocket.encoder"] == str(encoder)
    (told,) = [line for line in card["Limits"] if "pocket figures are not the paper's" in line]
    assert f"sentence encoder {encoder}" in told and "from scratch" not in told
    assert "A request is cut after 99 tokens." in card["Limits"]


def test_the_card_of_a_pocket_says_where_its_encoder_cuts_a_request(tmp_path: Path) -> None:
    pocket = small_pocket(encoder=str(write_encoder(tmp_path / "encoder", max_position_embeddings=40)))
    recipe = quick_recipe(memo="none", retrieval="n", pocket=pocket, stage2=SHORT)
    train_stage("stage2", recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    card = sections(tmp_path / "run" / "export" / "README.md")
    assert any("cut after 40 tokens" in line for line in card["Limits"])


def test_a_name_with_bars_and_line_breaks_stays_one_row(tmp_path: Path) -> None:
    base = write_base(tmp_path / "a | b\n# c", "llama")
    recipe = recipe_for(base, stage2=SHORT)
    train_stage("stage2", recipe, write_snapshot(tmp_path / "snapshot"), tmp_path / "run", silent)
    card = sections(tmp_path / "run" / "export" / "README.md")
    assert card["Model"]["Base"].endswith("a / b # c")
