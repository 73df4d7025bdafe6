"""Attention in float32 during a bf16 training: as exact as bf16 attention or more, and gone afterwards."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from tests.training.small_bases import write_gemma, write_untied  # noqa: E402
from training.ml.loop import NAME, float32_attention  # noqa: E402

pytestmark = pytest.mark.ml


def logits(model: Any, bf16: bool) -> torch.Tensor:
    ids = torch.arange(300).reshape(3, 100) % 90
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        return model.eval()(input_ids=ids, use_cache=False).logits.float()


@pytest.mark.parametrize("write", [write_gemma, write_untied])
def test_only_the_precision_of_attention_changes_and_only_inside(tmp_path: Path, write: Any) -> None:
    model = AutoModelForCausalLM.from_pretrained(write(tmp_path / "base"))
    exact, narrow = logits(model, False), logits(model, True)
    with float32_attention(model):
        assert model.config._attn_implementation == NAME
        assert logits(model, False).equal(exact)
        inside = logits(model, True)
    assert model.config._attn_implementation == "sdpa"
    assert logits(model, True).equal(narrow)
    assert not inside.equal(narrow)
    assert (inside - exact).abs().max() <= 1.5 * (narrow - exact).abs().max()


def test_another_way_of_attention_is_left_alone(tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(write_untied(tmp_path / "base"), attn_implementation="eager")
    with float32_attention(model):
        assert model.config._attn_implementation == "eager"
