"""Lettered choices in Stage 1: of which tools, in which form, and what of a run they change."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from catalog.core.ledger import assign_slots
from catalog.core.tokens import FORMATS, tool_units
from trace_site.lib.files import content_hash
from training.core import estimate
from training.core.memorization import stage1_records
from training.core.questions import TAUGHT, Questions, taught
from training.core.recipe import Recipe, from_dict, load
from training.core.records import Record, Snapshot, Units, choice_parts
from training.core.stages import normal, shared_part, steps

RECIPES = Path(__file__).parents[2] / "training" / "recipes"
WORDS = ("payslip", "bonus", "shift", "contract", "review", "parcel", "invoice", "refund")
NAMES = [f"Api{n % 5}/Do{n}" for n in range(40)]


@pytest.fixture
def snapshot() -> Snapshot:
    """Forty tools, in either half, whose descriptions differ."""
    tools = [
        {
            "name": name,
            "domain": "hr",
            "deprecated": False,
            "description": f"Returns the {WORDS[n % 8]} of case {n}. Needs an open period {n} before.",
        }
        for n, name in enumerate(NAMES)
    ]
    neighbours = {name: [other for other in NAMES if other != name][:9] for name in NAMES}
    tokens = [
        {"family": row.family, "slot": row.slot, "string": row.string, "state": row.state}
        for row in assign_slots([], NAMES)
    ]
    return Snapshot(tools, neighbours, [], tokens, [], "snapshot", "catalog")


def lettered(records: list[Record]) -> list[Record]:
    return [record for record in records if record.kind == "letters"]


def keys(recipe: Recipe) -> list[str]:
    return [step.key for step in steps(recipe, "snapshot", "catalog")]


@pytest.mark.parametrize("memo", ["m", "mr"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_only_tools_of_the_taught_half_are_asked_about(snapshot: Snapshot, fmt: str, memo: str) -> None:
    found = lettered(stage1_records(snapshot, Recipe(format=fmt, memo=memo, letters=True)))
    asked = {record.id for record in found}
    assert asked == {name for name in NAMES if taught(name)} and 5 < len(asked) < 35
    named = {part.strings for record in found for part in record.prompt if isinstance(part, Units)}
    assert len(named) == len(asked)
    assert len(found) == 2 * len(asked)


def test_a_letter_alone_is_answered_without_reasoning(snapshot: Snapshot) -> None:
    for record in lettered(stage1_records(snapshot, Recipe(memo="mr", letters=True))):
        assert record.thinking == () and record.answer in {("A",), ("B",), ("C",), ("D",)}


@pytest.mark.parametrize("memo", ["m", "mr"])
def test_the_other_records_are_those_of_a_run_without_letters(snapshot: Snapshot, memo: str) -> None:
    off, on = (stage1_records(snapshot, Recipe(memo=memo, letters=letters)) for letters in (False, True))
    assert not lettered(off)
    assert [record for record in on if record.kind != "letters"] == off


def test_the_order_of_the_options_hangs_on_the_seed(snapshot: Snapshot) -> None:
    one, same, other = (
        lettered(stage1_records(snapshot, Recipe(letters=True, seed=seed))) for seed in (1, 1, 2)
    )
    assert one == same != other


def test_without_letters_the_keys_are_what_they_were() -> None:
    """What was trained before the field was there is not trained again."""
    recipe = normal(Recipe(retrieval="none", base="some/base"))
    before = {
        "base": shared_part(recipe),
        "catalog": "catalog",
        "memo": "m",
        "stage1": asdict(recipe.stage1),
        "negatives": recipe.mcts_negatives,
    }
    assert keys(recipe) == [content_hash(before)]
    assert keys(replace(recipe, letters=True)) == [content_hash({**before, "letters": TAUGHT})]


def test_letters_are_another_stage_1_and_what_follows() -> None:
    off = Recipe(retrieval="n>r")
    assert not set(keys(off)) & set(keys(replace(off, letters=True)))
    without = replace(off, memo="none")
    assert keys(without) == keys(replace(without, letters=True))


def test_letters_are_on_for_the_pocket_model_and_off_in_the_paper() -> None:
    assert load(RECIPES / "pocket.yaml").letters
    assert not load(RECIPES / "paper.yaml").letters and not from_dict({}).letters


def test_an_estimate_counts_about_as_many_records_as_are_made(snapshot: Snapshot) -> None:
    recipe = Recipe(letters=True, retrieval="none")
    lengths = estimate.lengths_of(
        snapshot.tools, [], counts={"tools": len(NAMES)}, families={"part": 50, "wrap": 2}, look_alikes=9
    )
    (amount,) = estimate.amounts(recipe, lengths)
    assert amount.records == pytest.approx(len(stage1_records(snapshot, recipe)), rel=0.1)
    (off,) = estimate.amounts(replace(recipe, letters=False), lengths)
    assert amount.tokens > off.tokens


def test_a_question_says_its_tool_its_options_and_their_letters() -> None:
    assert choice_parts("Which?", ["this", "that"], ["<<A&&b>>"]) == (
        "Tool: ",
        Units(("<<A&&b>>",)),
        "\n",
        "Which?\n",
        "A: this\nB: that\n",
    )


def chat_of(kind: str, snapshot: Snapshot, fmt: str) -> Any:
    """Of the pocket model, whose prompts another tokenizer spells, or of a named family."""
    from tests.training.small_tokenizers import family_tokenizer
    from training.ml.bases.adapters import prepare, template_markers
    from training.ml.bases.chat import Chat
    from training.ml.bases.named import add_tokens
    from training.ml.bases.pocket import writer_tokenizer

    words = family_tokenizer("bare")
    tokenizer = writer_tokenizer(words, 400) if kind == "pocket" else family_tokenizer(kind)
    added = prepare(tokenizer) if kind != "pocket" else ()
    add_tokens(tokenizer, snapshot.family_strings(fmt))
    if kind == "pocket":
        return Chat(tokenizer, "pocket", 256, encoder_words=words)
    return Chat(tokenizer, "chat", 256, template_markers(tokenizer, added))


@pytest.mark.ml
@pytest.mark.parametrize("kind", ["pocket", "gemma4", "qwen3"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_a_record_is_token_for_token_what_a_probe_asks(snapshot: Snapshot, kind: str, fmt: str) -> None:
    pytest.importorskip("torch")
    chat = chat_of(kind, snapshot, fmt)
    recipe = Recipe(format=fmt, letters=True)
    records = iter(lettered(stage1_records(snapshot, recipe)))
    questions = Questions(snapshot.tools, snapshot.neighbours)
    for name in filter(taught, NAMES):
        for question in questions.pair(name, recipe.seed):
            ids, mask = chat.render(next(records))
            start = mask.index(1)
            assert ids[:start] == chat.choice_ids(
                question["question"], question["choices"], tool_units(name, fmt)
            )
            letters = chat.letter_ids(len(question["choices"]))
            assert ids[start] == letters["ABCD".index(question["answer"])]
            assert ids[start + 1 :] == chat.end_ids and all(mask[start:])


@pytest.mark.ml
@pytest.mark.parametrize("learned", [TAUGHT, ""])
def test_an_export_says_on_which_tools_it_learned_letters(snapshot: Snapshot, learned: str) -> None:
    """Evaluation reads it there: a model of another rule is not asked."""
    torch = pytest.importorskip("torch")
    from training.ml.bases.model import Trainee
    from training.ml.export import trace_spec

    chat = chat_of("qwen3", snapshot, "a")
    trainee = Trainee(torch.nn.Module(), chat, 0, "opaque", pocket=False, letters=learned)
    spec = trace_spec(trainee, Recipe(format="a"), snapshot, {"memo": "m", "retrieval": "r"})
    assert spec["letters"] == learned


def test_the_rule_of_the_half_is_what_it_says() -> None:
    """A model keeps the rule in words; another rule needs other words, and other stages."""
    assert TAUGHT == "sha256 of the endpoint's name begins with an odd byte"
    assert [name for name in NAMES[:8] if not taught(name)] == ["Api1/Do1", "Api3/Do3"]
