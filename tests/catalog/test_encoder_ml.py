"""The encoder process on the model that comes as a wheel."""

import json

import numpy as np
import pytest
import torch

from catalog.ml.__main__ import main
from catalog.ml.encoder import Encoder

pytestmark = pytest.mark.ml

TEXTS = ["wireless headphones", "headset with microphone", "tax return of a company", "wireless headphones"]


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encode")
    source = folder / "texts.jsonl"
    source.write_text(
        "".join(json.dumps({"id": f"t{n}", "text": text}) + "\n" for n, text in enumerate(TEXTS))
    )
    assert main(["encode", "--in", str(source), "--out", str(folder / "out"), "--threads", "1"]) == 0
    return folder / "out"


def test_rows_are_normalised_float32_in_the_order_of_the_ids(encoded):
    rows = np.load(encoded / "embeddings.npy")
    assert json.loads((encoded / "ids.json").read_text()) == ["t0", "t1", "t2", "t3"]
    assert rows.dtype == np.float32 and rows.shape == (4, 384)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)


def test_similar_texts_are_closer_than_unrelated_ones(encoded):
    rows = np.load(encoded / "embeddings.npy")
    assert rows[0] @ rows[3] > 0.999 > rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1


def test_folder_says_which_encoder_made_it(encoded):
    meta = json.loads((encoded / "encoder.json").read_text())
    assert meta == {"encoder": "all-MiniLM-L6-v2", "dimension": 384, "rows": 4}


@pytest.mark.parametrize("native", [True, False])
def test_half_precision_is_used_only_where_the_processor_has_it(monkeypatch, native):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    kinds = {weights.dtype for weights in Encoder().model.parameters()}
    assert kinds == {torch.bfloat16 if native else torch.float32}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"id": "a"}\n', "texts.jsonl:1: needs a text field"),
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n', "texts.jsonl:2: id 'a' appears twice"),
        ("{", "texts.jsonl:1: not valid JSON"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, capsys, lines, message):
    (tmp_path / "texts.jsonl").write_text(lines)
    status = main(["encode", "--in", str(tmp_path / "texts.jsonl"), "--out", str(tmp_path / "out")])
    error = capsys.readouterr().err
    assert status != 0 and message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()
