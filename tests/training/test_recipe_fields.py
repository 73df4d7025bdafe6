"""The form shows the fields of the dataclass: none forgotten, none invented, each with its source."""

import re

import pytest

from trace_site.lib.errors import TraceError
from training.core import recipe as recipes
from training.core.recipe import (
    CELL,
    FIELDS,
    GROUPS,
    SOURCES,
    Recipe,
    differing,
    flat,
    nested,
    shown,
)


def test_every_field_of_the_recipe_has_its_words_and_no_other_has() -> None:
    wanted = set(flat(Recipe())) - set(CELL)
    assert wanted == set(FIELDS)
    for field in FIELDS.values():
        assert field.group in GROUPS and field.source in SOURCES and field.label and field.help, field.name


def test_a_recipe_survives_being_shown_and_typed_again() -> None:
    recipe = Recipe(stage1=recipes.Stage(lr=3e-7, betas=(0.9, 0.95)), bf16=False, mcts_negatives=4)
    texts = {name: shown(value) for name, value in flat(recipe).items() if name in FIELDS}
    assert recipes.from_dict(nested(texts)) == recipe


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bf16", "yes"),
        ("stage1.lr", "fast"),
        ("stage2.betas", "0.9"),
        ("lora.rank", "1.5"),
        ("stage1.epochs", ""),
    ],
)
def test_what_a_field_cannot_be_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(TraceError, match=re.escape(f"'{name}'") + "|" + name.split(".")[-1]):
        recipes.from_dict(nested({name: text}))


def test_differences_of_two_recipes_name_the_fields() -> None:
    one = {"bf16": True, "stage1": {"lr": 1e-4}, "old": 1}
    other = {"bf16": False, "stage1": {"lr": 1e-4}}
    assert differing(one, other) == [("bf16", "true", "false"), ("old", "1", "not there")]
