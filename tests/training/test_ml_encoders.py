"""The encoder inside the pocket model: loaded whole or refused by name, and descriptions that are read once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from catalog.core.tool import embedding_text  # noqa: E402
from catalog.ml.encoder import DEFAULT_ENCODER, locate  # noqa: E402
from tests.training.small_encoder import quick_recipe, small_pocket, write_encoder  # noqa: E402
from tests.training.small_snapshot import NAMES, silent, write_snapshot  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from trace_site.lib.files import sha256_file  # noqa: E402
from training.core.recipe import Recipe  # noqa: E402
from training.core.records import Snapshot, load_snapshot  # noqa: E402
from training.core.stages import ENCODERS, encoder_digest  # noqa: E402
from training.ml import deciding  # noqa: E402
from training.ml.bases.encoders import embed, load_encoder  # noqa: E402
from training.ml.bases.model import build  # noqa: E402
from training.ml.stages import train_stage  # noqa: E402
from training.ml.trainee import Trainee  # noqa: E402

pytestmark = pytest.mark.ml


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return load_snapshot(write_snapshot(tmp_path / "snapshot", rules=[]))


def around(encoder: Path) -> Recipe:
    return quick_recipe(pocket=small_pocket(encoder=str(encoder)))


# loading


def lose_a_tensor(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights.pop("encoder.layer.1.output.dense.weight")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def cut_the_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])


def change_the_width(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"intermediate_size": 40}))


DAMAGE = {
    "no folder": shutil.rmtree,
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "no configuration": lambda folder: (folder / "config.json").unlink(),
    "no words": lambda folder: [path.unlink() for path in folder.glob("*token*")],
    "half the weights": cut_the_weights,
    "another width": change_the_width,
    "a tensor less": lose_a_tensor,
    "a broken configuration": lambda folder: (folder / "config.json").write_text("{"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_an_encoder_that_is_missing_or_damaged_is_one_clear_error(tmp_path: Path, what: str) -> None:
    folder = write_encoder(tmp_path / "encoder")
    DAMAGE[what](folder)
    with pytest.raises(TraceError, match=r"recipe field 'pocket\.encoder'") as caught:
        load_encoder(around(folder))
    assert caught.value.code == "no_encoder" and str(folder) in caught.value.message


def test_the_digest_of_the_default_encoder_is_that_of_its_weights() -> None:
    assert sha256_file(Path(locate(DEFAULT_ENCODER)) / "model.safetensors") == ENCODERS[DEFAULT_ENCODER]
    assert encoder_digest(DEFAULT_ENCODER) == ENCODERS[DEFAULT_ENCODER]


def test_an_encoder_is_known_by_its_weights_and_not_by_its_place(tmp_path: Path) -> None:
    one, same, other = (
        write_encoder(tmp_path / name, seed=seed) for name, seed in (("one", 0), ("same", 0), ("other", 1))
    )
    assert encoder_digest(str(one)) == encoder_digest(str(same)) != encoder_digest(str(other))
    before = encoder_digest(str(one))
    (one / "model.safetensors").rename(one / "model-00001-of-00001.safetensors")
    assert encoder_digest(str(one)) == before
    shutil.copy(other / "model.safetensors", one / "model-00001-of-00001.safetensors")
    assert encoder_digest(str(one)) != before


def test_stage_2_refuses_a_model_around_another_encoder(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path / "snapshot")
    recipe = quick_recipe(format="a", memo="none", retrieval="n")
    train_stage("stage1", recipe, folder, tmp_path / "one", silent)
    other = around(write_encoder(tmp_path / "other", seed=1)).with_cell(format="a", memo="m", retrieval="n")
    spec = tmp_path / "one" / "export" / "trace.json"
    spec.write_text(json.dumps(json.loads(spec.read_text()) | {"memo": "m"}))
    with pytest.raises(TraceError, match="made around another encoder") as caught:
        train_stage("stage2", other, folder, tmp_path / "two", silent, tmp_path / "one" / "export")
    assert caught.value.code == "wrong_init" and "Run Stage 1 again" in caught.value.hint


# rows


def rows_of(trainee: Trainee[Any], names: list[str]) -> torch.Tensor:
    places = {tool["name"]: tool["ids"][0] for tool in trainee.spec["tools"]}  # type: ignore[attr-defined]
    rows: torch.Tensor = trainee.model.tokens.detach()  # type: ignore[assignment,operator,union-attr]
    return rows[[places[name] for name in names]]


def test_rows_are_the_encoders_own_embeddings_of_the_tools(snapshot: Snapshot) -> None:
    """As sentence-transformers makes them: the mean over a text with its two ends, of length 1."""
    recipe = quick_recipe(format="a", bf16=False)
    trainee = build(recipe, snapshot)
    encoder, words = load_encoder(recipe)
    for tool in snapshot.tools:
        given = words(embedding_text(tool["name"], tool["description"]), return_tensors="pt")
        with torch.no_grad():
            mean = encoder.eval()(**given).last_hidden_state.mean(dim=1)
        found = rows_of(trainee, [tool["name"]])
        torch.testing.assert_close(found, torch.nn.functional.normalize(mean, dim=1), atol=1e-5, rtol=0)


def test_a_text_is_read_alike_alone_and_beside_longer_ones(snapshot: Snapshot) -> None:
    recipe = quick_recipe(format="a", bf16=False)
    trainee = build(recipe, snapshot)
    texts = ["pay", "read a pay slip " * 20, "leave", *(f"case {number}" for number in range(40))]
    together = embed(trainee.model, trainee.reader, recipe, texts)
    alone = torch.cat([embed(trainee.model, trainee.reader, recipe, [text]) for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that an encoder is given."""
    seen: list[str] = []

    def noting(model: Any, reader: Any, recipe: Any, texts: list[str], *_: Any) -> torch.Tensor:
        seen.extend(texts)
        return embed(model, reader, recipe, texts)

    monkeypatch.setattr(deciding, "embed", noting)
    return seen


def test_a_model_that_grew_reads_its_new_tools_with_its_own_encoder(tmp_path: Path, read: list[str]) -> None:
    recipe = quick_recipe(format="a", memo="m", retrieval="n", bf16=False)
    before = write_snapshot(tmp_path / "before")
    grown = [["Old/Gone", *NAMES], NAMES, [*NAMES, "Zone/Set"]]
    after = load_snapshot(write_snapshot(tmp_path / "after", history=grown))
    train_stage("stage1", recipe, before, tmp_path / "one", silent)
    trainee = build(recipe, after, tmp_path / "one" / "export")
    assert trainee.grown == 1
    wanted = embed(
        trainee.model.eval(), trainee.reader, recipe, [embedding_text("Zone/Set", "Does Zone Set")]
    )
    torch.testing.assert_close(rows_of(trainee, ["Zone/Set"]), wanted)
    assert not rows_of(build(recipe, after), ["Zone/Set"]).allclose(wanted, atol=1e-3)
    read.clear()
    build(recipe, load_snapshot(before), tmp_path / "one" / "export")
    assert not read  # it has rows for all of them


def test_rows_of_the_default_encoder_are_the_catalogs_own_embeddings(snapshot: Snapshot) -> None:
    from catalog.ml.encoder import Encoder

    trainee = build(Recipe(format="a", threads=1), snapshot)
    texts = [embedding_text(tool["name"], tool["description"]) for tool in snapshot.tools]
    theirs = torch.from_numpy(Encoder(threads=1).encode(texts))  # in bf16
    found = rows_of(trainee, [tool["name"] for tool in snapshot.tools])
    assert torch.nn.functional.cosine_similarity(found, theirs).min() > 0.999
    assert (found @ theirs.T).argmax(dim=1).tolist() == list(range(len(texts)))


def test_stage_2_refuses_a_pocket_of_an_earlier_version(tmp_path: Path) -> None:
    folder, export = write_snapshot(tmp_path / "snapshot"), tmp_path / "old"
    export.mkdir()
    spec = {"format": "a", "base": "pocket", "memo": "m", "retrieval": "none"}
    (export / "trace.json").write_text(json.dumps(spec))
    recipe = quick_recipe(format="a", memo="m", retrieval="n")
    with pytest.raises(TraceError, match="made around another encoder"):
        train_stage("stage2", recipe, folder, tmp_path / "two", silent, export)
