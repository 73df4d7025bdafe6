"""The recipe is checked field by field and carries the paper's numbers."""

from pathlib import Path

import pytest

from trace_site.lib.errors import TraceError
from training.core.recipe import from_dict, load

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
        ({"stage1": {"batch_size": 2.5}}, "stage1.batch_size"),
        ({"bf16": "yes"}, "bf16"),
        ({"pocket": {"hidden": 30, "heads": 4}}, "pocket.hidden"),
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
