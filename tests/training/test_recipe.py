"""The recipe is checked field by field and carries the paper's numbers."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from trace_site.lib.errors import TraceError
from training.core.recipe import POCKET, REMOVED, Recipe, from_dict, load, stored

RECIPES = Path(__file__).parents[2] / "training" / "recipes"


def test_paper_recipe_carries_the_papers_numbers() -> None:
    recipe = load(RECIPES / "paper.yaml")
    assert (recipe.stage1.lr, recipe.stage1.batch_size) == (5e-5, 8)
    assert (recipe.stage2.lr, recipe.stage2.batch_size) == (1e-4, 16)
    assert recipe.stage1.min_lr_ratio == recipe.stage2.min_lr_ratio == 0.1
    assert (recipe.lora.rank, recipe.lora.alpha) == (64, 128)
    assert (recipe.embeddings, recipe.bf16, recipe.empty_thinking_share) == ("full", True, 0.0)


@pytest.mark.parametrize("name", sorted(path.name for path in RECIPES.glob("*.yaml")))
def test_every_shipped_recipe_loads_and_survives_its_own_yaml(name: str, tmp_path: Path) -> None:
    recipe = load(RECIPES / name)
    (tmp_path / "again.yaml").write_text(recipe.to_yaml())
    assert load(tmp_path / "again.yaml") == recipe


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"fromat": "a"}, "fromat"),
        ({"format": "d"}, "format"),
        ({"retrieval": "x"}, "retrieval"),
        ({"stage1": {"lr": -1}}, "stage1.lr"),
        ({"stage2": {"lr": "fast"}}, "stage2.lr"),
        ({"stage2": {"betas": 3}}, "stage2.betas"),
        ({"stage2": {"betas": [0.9]}}, "stage2.betas"),
        ({"stage1": {"batch_size": 2.5}}, "stage1.batch_size"),
        ({"bf16": "yes"}, "bf16"),
        ({"pocket": {"hidden": 30}}, "pocket.hidden"),
        ({"pocket": {"bar": 30}}, "pocket.bar"),
        ({"pocket": {"encoder": ""}}, "pocket.encoder"),
        ({"stage2": {"rows_lr": 1}}, "stage2.rows_lr"),
        ({"stage1": {"encoder_lr": -1e-5}}, "stage1.encoder_lr"),
        ({"replay": 9}, "replay"),
        ({"empty_thinking_share": 2}, "empty_thinking_share"),
        ({"lora": []}, "lora"),
        ([], "(whole file)"),
    ],
)
def test_a_bad_field_is_named(data: object, named: str) -> None:
    with pytest.raises(TraceError) as caught:
        from_dict(data)
    assert f"'{named}'" in str(caught.value)


def test_yaml_numbers_without_a_dot_are_read_as_numbers() -> None:
    assert from_dict({"stage2": {"lr": "1e-4"}}).stage2.lr == 1e-4


def test_broken_yaml_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("a: [")
    with pytest.raises(TraceError, match=r"r\.yaml"):
        load(path)


def test_replay_is_on_for_the_pocket_model_and_off_in_the_paper() -> None:
    assert load(RECIPES / "pocket.yaml").replay > 0
    assert load(RECIPES / "paper.yaml").replay == Recipe().replay == 0.0


def test_the_shipped_pocket_recipes_move_every_part_of_the_model() -> None:
    shipped = [recipe for path in RECIPES.glob("*.yaml") if (recipe := load(path)).base == POCKET]
    assert shipped and all(recipe.stage2.rows_lr and recipe.stage2.encoder_lr for recipe in shipped)


def test_a_stored_recipe_of_an_earlier_version_is_read_without_what_is_gone() -> None:
    gone: dict[str, Any] = {part: dict.fromkeys(names, 1) for part, names in REMOVED.items()}
    data = asdict(Recipe(seed=3)) | gone.pop("") | {"pocket": gone["pocket"] | {"bar": 1}}
    data |= {"stage1": gone["stage1"] | {"epochs": 3}, "stage2": gone["stage2"] | {"lr": 2e-4}}
    recipe = stored(data)
    assert (recipe.seed, recipe.pocket.bar, recipe.stage1.epochs, recipe.stage2.lr) == (3, 1, 3, 2e-4)
    assert stored(asdict(recipe)) == recipe and stored({"seed": 0}) == Recipe()


@pytest.mark.parametrize(("part", "name"), [(part, name) for part in REMOVED for name in REMOVED[part]])
def test_a_new_recipe_with_a_field_that_is_gone_is_refused(part: str, name: str) -> None:
    where = f"{part}.{name}" if part else name
    with pytest.raises(TraceError, match=f"'{where}': is unknown"):
        from_dict({part: {name: 1}} if part else {name: 1})


def test_a_stored_recipe_with_a_field_that_never_was_is_refused() -> None:
    with pytest.raises(TraceError, match="pocket.colour"):
        stored({"pocket": {"colour": "red"}})
