"""Bases before training: the first rows of tool tokens, and what a base says of itself."""

import math
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from catalog.core.tokens import tool_units  # noqa: E402
from tests.training.small_bases import EACH_SHAPE, gemma_tokenizer, write_base, write_pretrained  # noqa: E402
from tests.training.small_snapshot import sample, write_snapshot  # noqa: E402
from tests.training.small_tokenizers import family_tokenizer  # noqa: E402
from tests.training.small_training import Small, exported_chat, recipe_for  # noqa: E402
from training.core.records import Snapshot, load_snapshot  # noqa: E402
from training.ml.bases.model import build, init_rows, row_tables, unit_texts  # noqa: E402
from training.ml.bases.named import add_tokens, base_licence, load_named  # noqa: E402
from training.ml.export import merged  # noqa: E402
from training.ml.language import LanguageTrainee  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402

pytestmark = pytest.mark.ml


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path / "snapshot"))


# first rows


def nearest(trainee: LanguageTrainee, snapshot: Snapshot) -> dict[str, bool]:
    """For each token: is its row nearer to the mean of its own words than to any other token's words?"""
    texts = unit_texts(snapshot, "a")
    table = row_tables(merged(trainee))[0].float()
    rows = table[trainee.chat.unit_ids(list(texts))]
    means = torch.stack([table[trainee.chat.text_ids(text)].mean(dim=0) for text in texts.values()])
    best = torch.nn.functional.cosine_similarity(rows[:, None], means[None], dim=2).argmax(dim=1)
    return {string: bool(best[at] == at) for at, string in enumerate(texts)}


@pytest.mark.parametrize("shape", EACH_SHAPE)
def test_described_rows_lie_halfway_to_their_words_in_every_table(tmp_path: Path, shape: str) -> None:
    small = Small(tmp_path, shape, format="a")
    texts = unit_texts(small.snapshot, "a")
    chat, model = small.trainee.chat, merged(small.trainee)
    tables = row_tables(model)
    assert len(tables) == (2 if shape == "gemma4" else 1)
    first = min(chat.unit_ids(small.snapshot.family_strings("a")))
    for table in tables:
        mean = table[:first].mean(dim=0)
        for string, text in texts.items():
            words = table[chat.text_ids(text)].mean(dim=0)
            torch.testing.assert_close(table[chat.unit_ids([string])[0]], (mean + words) / 2)


def test_opaque_rows_lie_as_far_from_the_mean_row_as_described_ones_and_have_no_words(tmp_path: Path) -> None:
    described, opaque = (
        Small(tmp_path / way, "qwen3", format="a", token_init=way) for way in ("description", "opaque")
    )
    assert all(nearest(described.trainee, described.snapshot).values())
    assert not all(nearest(opaque.trainee, opaque.snapshot).values())
    ids = opaque.trainee.chat.unit_ids(list(unit_texts(opaque.snapshot, "a")))
    tables = [row_tables(merged(small.trainee))[0] for small in (described, opaque)]
    mean = tables[0][: min(ids)].mean(dim=0)
    far, random = ((table[ids] - mean).norm(dim=1) for table in tables)
    torch.testing.assert_close(random, far.mean().expand(len(ids)))


@pytest.mark.parametrize("way", ["description", "opaque"])
def test_a_token_of_no_active_tool_gets_the_mean_row(tmp_path: Path, way: str) -> None:
    small = Small(tmp_path, "llama", format="a", token_init=way)
    model, chat = merged(small.trainee), small.trainee.chat
    gone = next(text for text in small.snapshot.family_strings("a") if "Gone" in text)
    init_rows(model, chat, small.snapshot, small.recipe, [gone])
    (table,), (number,) = row_tables(model), chat.unit_ids([gone])
    torch.testing.assert_close(table[number], table[:number].mean(dim=0))


@pytest.mark.parametrize(
    ("shape", "tied", "way"),
    [
        ("llama", True, "description"),
        ("llama", True, "opaque"),
        ("llama", False, "description"),
        ("gemma4", True, "description"),
    ],
)
def test_new_rows_take_nothing_from_the_words_of_a_pretrained_base(
    tmp_path: Path, snapshot: Snapshot, shape: str, tied: bool, way: str
) -> None:
    texts = [f"{row['query']} {row['trace']}" for row in snapshot.samples]
    texts += [f"{row['name']} {row['description']}" for row in snapshot.tools]
    base = write_pretrained(tmp_path / "base", shape, texts, tie_word_embeddings=tied)
    trainee = build(recipe_for(base, format="a", token_init=way), snapshot)
    untouched, _ = load_named(str(base))
    read = [torch.tensor([trainee.chat.text_ids(text)]) for text in texts]
    with torch.no_grad():
        before, after = (
            sum(float(model(input_ids=ids, labels=ids).loss) for ids in read) / len(read)
            for model in (untouched, merged(trainee))
        )
    assert before < 0.7 * math.log(len(gemma_tokenizer()))  # it has learned something that can be lost
    assert after <= before + 0.3


def test_opaque_rows_follow_the_seed(tmp_path: Path, snapshot: Snapshot) -> None:
    base = write_base(tmp_path / "base", "llama")
    recipes = [recipe_for(base, token_init="opaque", seed=seed) for seed in (1, 1, 2)]
    tables = [row_tables(merged(build(recipe, snapshot)))[0] for recipe in recipes]
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0], tables[2])


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("---\nlicense: apache-2.0\ntags: [x]\n---\n# Base\n", "apache-2.0"),
        ("# Base without facts\n", "not stated in the base's folder"),
        ("---\nlicense: [unclosed\n---\n", "not stated in the base's folder"),
        ("", "not stated in the base's folder"),
    ],
)
def test_the_licence_is_the_one_the_bases_card_names(tmp_path: Path, card: str, licence: str) -> None:
    base = write_base(tmp_path / "base", "llama")
    if card:
        (base / "README.md").write_text(card)
    assert base_licence(str(base)) == licence


# tokens


@pytest.mark.parametrize("name", ["Übersicht/Zahlung", "Çağrı/Göster", "Größe/é", "請求/查詢", "Ω/ß"])
def test_a_name_of_letters_that_also_stand_for_bytes_is_shown_whole(tmp_path: Path, name: str) -> None:
    for tokenizer in (gemma_tokenizer(), family_tokenizer("bare")):
        strings = [unit for fmt in ("a", "b") for unit in tool_units(name, fmt)]
        add_tokens(tokenizer, [*strings, "<<plain&&name>>", "<tid>"])
        tokenizer.save_pretrained(tmp_path)
        again = AutoTokenizer.from_pretrained(tmp_path)
        for reader in (tokenizer, again):
            assert reader.batch_decode([[n] for n in reader.convert_tokens_to_ids(strings)]) == strings
            said = f'é "{strings[0]}", "{strings[1]}" 中 <<not a tool>> ü'
            assert reader.decode(reader.encode(said, add_special_tokens=False)) == said


@pytest.mark.parametrize("shape", ["llama", "gemma4"])
def test_a_named_base_is_exported_with_names_of_such_letters(tmp_path: Path, shape: str) -> None:
    names = ["Übersicht/Zahlung", "Çağrı/Göster"]
    rows = [sample(number, answer=[name], trace="") for number, name in enumerate(names)]
    folder = write_snapshot(tmp_path / "snapshot", rows, history=[names])
    recipe = recipe_for(write_base(tmp_path / "base", shape), format="b", retrieval="r+R")
    train_stage("stage2", recipe, folder, tmp_path / "run", lambda done, total, note: None)
    chat, spec = exported_chat(tmp_path / "run" / "export")
    shown = {tool["name"]: chat.tokenizer.decode(tool["ids"]) for tool in spec["tools"]}
    assert shown == {name: "".join(tool_units(name, "b")) for name in names}
