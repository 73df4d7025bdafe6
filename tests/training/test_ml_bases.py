"""Bases before training: the shapes of the pocket, the first rows of tool tokens, and what a base says of itself."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402

from tests.training.small_bases import SHAPES, write_base  # noqa: E402
from tests.training.small_snapshot import write_snapshot  # noqa: E402
from tests.training.small_training import Small  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.core.recipe import Pocket, Recipe, Stage  # noqa: E402
from training.core.records import Snapshot, load_snapshot  # noqa: E402
from training.ml import initial, stage1, stage2  # noqa: E402
from training.ml.bases import base_licence, load_named  # noqa: E402
from training.ml.chat import load_chat  # noqa: E402
from training.ml.export import merged  # noqa: E402
from training.ml.initial import row_tables, unit_texts  # noqa: E402
from training.ml.model import Trainee, build  # noqa: E402

pytestmark = pytest.mark.ml
TINY = Pocket(vocab=600, hidden=32, heads=2, layers=4, intermediate=64)
POCKET_SHAPES = ("qwen3", "llama", "gemma4")


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path / "snapshot"))


def pocket(shape: str, **fields: object) -> Recipe:
    stage = Stage(lr=1e-2, batch_size=5, epochs=2)
    size = replace(TINY, shape=shape)
    return Recipe(format="c", threads=1, pocket=size, stage1=stage, stage2=stage, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", POCKET_SHAPES)
def test_a_pocket_of_every_shape_goes_through_both_stages(tmp_path: Path, shape: str) -> None:
    folder = write_snapshot(tmp_path / "snapshot")
    recipe = pocket(shape, memo="m", retrieval="r")
    stage1.main(recipe, folder, tmp_path / "one", lambda done, total, note: None)
    one = tmp_path / "one" / "export"
    stage2.main(recipe, folder, tmp_path / "two", lambda done, total, note: None, init=one)
    model, _ = load_named(str(tmp_path / "two" / "export"))
    assert type(model).__name__.lower().startswith(shape)
    _, spec = load_chat(tmp_path / "two" / "export")
    assert [(stage["memo"], stage["retrieval"]) for stage in spec["stages"]] == [("m", "none"), ("m", "r")]


def test_the_gemma_pocket_has_what_makes_gemma_different(snapshot: Snapshot) -> None:
    model = build(pocket("gemma4"), snapshot).model
    config = model.config
    assert config.layer_types == ["sliding_attention", "full_attention"] * 2
    assert (config.num_kv_shared_layers, config.final_logit_softcapping) == (2, 30.0)
    assert len(row_tables(model)) == 2
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


@pytest.mark.parametrize("shape", POCKET_SHAPES)
def test_a_pocket_has_one_to_twelve_million_parameters(snapshot: Snapshot, shape: str) -> None:
    for hidden, layers in ((128, 2), (320, 6)):
        size = Pocket(shape=shape, vocab=8192, hidden=hidden, layers=layers, intermediate=3 * hidden)
        model = build(replace(pocket(shape), pocket=replace(size, vocab=512)), snapshot).model
        text = (8192 - 512) * hidden  # the tokenizer of a real catalog; the test's has less text
        assert 1e6 < sum(value.numel() for value in model.parameters()) + text < 12e6


def test_a_gemma_pocket_cannot_start_as_a_copier() -> None:
    with pytest.raises(TraceError, match="qwen3 and llama"):
        Pocket(shape="gemma4", copy_start=True)


# first rows


def nearest(trainee: Trainee, snapshot: Snapshot) -> dict[str, bool]:
    """For each token: is its row nearer to the mean of its own words than to any other token's words?"""
    texts = unit_texts(snapshot, "a")
    table = row_tables(trainee.model)[0].float()
    rows = table[trainee.chat.unit_ids(list(texts))]
    means = torch.stack([table[trainee.chat.text_ids(text)].mean(dim=0) for text in texts.values()])
    best = torch.nn.functional.cosine_similarity(rows[:, None], means[None], dim=2).argmax(dim=1)
    return {string: bool(best[at] == at) for at, string in enumerate(texts)}


@pytest.mark.parametrize("shape", SHAPES)
def test_described_rows_say_what_the_words_say_in_every_table(tmp_path: Path, shape: str) -> None:
    small = Small(tmp_path, shape, format="a")
    texts = unit_texts(small.snapshot, "a")
    chat, model = small.trainee.chat, merged(small.trainee)
    tables = row_tables(model)
    assert len(tables) == (2 if shape == "gemma4" else 1)
    first = min(chat.unit_ids(small.snapshot.family_strings("a")))
    for table in tables:
        usual = table[:first].norm(dim=1).median()
        for string, text in texts.items():
            mean = table[chat.text_ids(text)].mean(dim=0)
            row = table[chat.unit_ids([string])[0]]
            assert torch.nn.functional.cosine_similarity(row, mean, dim=0) > 0.9999
            assert abs(row.norm() - usual) <= 1e-3 * usual


def test_opaque_rows_have_the_usual_length_and_no_words(snapshot: Snapshot) -> None:
    described = build(pocket("qwen3", token_init="description").with_cell(format="a"), snapshot)
    opaque = build(pocket("qwen3", token_init="opaque").with_cell(format="a"), snapshot)
    assert all(nearest(described, snapshot).values())
    assert not all(nearest(opaque, snapshot).values())
    ids = opaque.chat.unit_ids(list(unit_texts(snapshot, "a")))
    lengths = [row_tables(trainee.model)[0][ids].norm(dim=1) for trainee in (described, opaque)]
    assert torch.allclose(*lengths, rtol=1e-3)
    assert (described.token_init[:11], opaque.token_init[:6]) == ("description", "opaque")


def test_opaque_rows_follow_the_seed(snapshot: Snapshot) -> None:
    tables = [
        row_tables(build(pocket("qwen3", token_init="opaque", seed=seed), snapshot).model)[0]
        for seed in (1, 1, 2)
    ]
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0], tables[2])


def test_rows_come_out_the_same_however_many_are_set_at_once(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = row_tables(build(pocket("gemma4"), snapshot).model)
    monkeypatch.setattr(initial, "TEXTS_AT_ONCE", 2)
    for one, other in zip(whole, row_tables(build(pocket("gemma4"), snapshot).model), strict=True):
        assert torch.allclose(one, other, atol=1e-7)


def test_the_start_of_a_model_says_how_its_rows_were_set(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path / "snapshot")
    recipe = pocket("llama", memo="none", retrieval="n", token_init="opaque")
    stage2.main(recipe, folder, tmp_path / "run", lambda done, total, note: None)
    _, spec = load_chat(tmp_path / "run" / "export")
    assert spec["token_init"] == initial.METHODS["opaque"]
    assert initial.METHODS["opaque"] in (tmp_path / "run" / "export" / "README.md").read_text()


# licence


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
