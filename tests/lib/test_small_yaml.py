"""A typed recipe is settings as JSON knows them, or a sentence that says what is wrong with it."""

import json
from datetime import date

import pytest
import yaml

from trace_site.lib.errors import TraceError
from trace_site.lib.small_yaml import DEEPEST, LONGEST, MOST, read_small_yaml

BOMB = "a: &a [x, x]\n" + "".join(
    f"{after}: &{after} [*{before}, *{before}, *{before}, *{before}]\n"
    for before, after in zip("abcdefghij", "bcdefghijk", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("# nothing", {}),
        ("null", {}),
        ("stage2: {epochs: 4, lr: 1.0e-4}\nletters: true", {"stage2": {"epochs": 4, "lr": 1e-4}, "letters": True}),
        ('{"a": [1, 2.5, null, "x"]}', {"a": [1, 2.5, None, "x"]}),
        ("since: 2024-01-01", {"since": "2024-01-01"}),
        ("[" * DEEPEST + "]" * DEEPEST, json.loads("[" * DEEPEST + "]" * DEEPEST)),
    ],
)  # fmt: skip
def test_settings_are_read(text, value):
    assert read_small_yaml(text, "recipe") == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "anchor or alias"),
        ("a: *b", "anchor or alias"),
        ("a: !!python/object/apply:os.system [ls]", "a tag"),
        ("a: !!binary aGk=", "a tag"),
        ("[" * 3000, "deeper than 20 levels"),
        ("- " * 3000, "deeper than 20 levels"),
        ("".join(" " * n + "a:\n" for n in range(100)), "deeper than 20 levels"),
        ("[" + "1," * MOST + "]", "more than 2,000 values"),
        ("x" * (LONGEST + 1), "at most 20,000"),
        ("a: " + "9" * 5000, "not valid YAML"),
        ("a: {1: 2, 1: 3}", "Line 1: a key is given twice"),
        ("a: b: c", "Line 1"),
        ("{[a]: b}", "Line 1"),
        ("a: 1\n---\nb: 2", "Line 2"),
        ("a: \x00", "not valid YAML"),
        ("a: \ud800", "not valid YAML"),
        ("=", "not valid YAML"),
    ],
)  # fmt: skip
def test_what_is_no_setting_is_refused_in_words(text, words):
    with pytest.raises(TraceError, match=words) as refused:
        read_small_yaml(text, "recipe")
    assert refused.value.code == "bad_recipe" and len(str(refused.value)) < 400


def test_other_readers_of_yaml_keep_their_dates():
    assert yaml.safe_load("2024-01-01") == date(2024, 1, 1)
