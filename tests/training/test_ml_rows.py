"""`embeddings: new_rows`: only tool rows train, as they would in the whole table, and they come back exactly."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from tests.training.small_training import labels_of  # noqa: E402
from tests.training.test_ml_loss_models import batch, library_loss, made  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.ml.language import LanguageTrainee, Written, check_head  # noqa: E402
from training.ml.rows import merge_rows, split_rows  # noqa: E402
from training.ml.trainee import Batch  # noqa: E402

pytestmark = pytest.mark.ml
FAMILIES = ["Gemma4", "Llama", "Qwen3", "Phi"]  # two tables and a tie; no tie; a tie; a head with a bias
NEW = list(range(70, 84))  # spare rows follow them


def tables(model: Any) -> dict[str, torch.Tensor]:
    """The tables with token rows of an unsplit model."""
    return {
        name: value
        for name, value in model.named_parameters()
        if value.ndim == 2 and len(value) == 90 and "lora" not in name
    }


def given() -> Batch[Written]:
    """Some inputs and some targets are tool tokens."""
    found = batch(made("Llama"))
    assert len(set(found.ids[0].tolist()) & set(NEW)) and len(set(labels_of(found)[0].tolist()) & set(NEW))
    return found


def with_lora(trainee: LanguageTrainee) -> LanguageTrainee:
    torch.manual_seed(1)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    trainee.model = get_peft_model(trainee.model, config)
    for name, value in trainee.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.02)
    return trainee


def logits(model: Any) -> torch.Tensor:
    return model(input_ids=given().ids, use_cache=False).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_forward_and_gradients_are_those_of_the_whole_table(family: str) -> None:
    whole, split = with_lora(made(family)), with_lora(made(family))
    for value in tables(whole.model).values():
        value.requires_grad_(True)
    split_rows(split.model, NEW)
    torch.testing.assert_close(logits(split.model), logits(whole.model))
    check_head(split.model, given().ids[0].tolist())
    whole.loss(given()).backward()
    split.loss(given()).backward()
    trained = {name: value.grad for name, value in split.model.named_parameters() if value.requires_grad}
    expected = {name: value.grad for name, value in whole.model.named_parameters() if value.requires_grad}
    for name, grad in trained.items():
        if name.endswith(".rows"):
            torch.testing.assert_close(
                grad, expected.pop(f"{name.removesuffix('rows')}weight")[NEW], msg=name
            )
        else:
            torch.testing.assert_close(grad, expected.pop(name), rtol=1e-4, atol=1e-6, msg=name)
    assert expected == {}
    assert all("lora_" in name or name.endswith(".rows") for name in trained)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_models_own_loss_trains_the_same_rows(family: str) -> None:
    trainee = made(family)
    split_rows(trainee.model, NEW)
    leaves = [value for name, value in trainee.model.named_parameters() if name.endswith(".rows")]
    theirs = torch.autograd.grad(library_loss(trainee, given()), leaves)
    ours = torch.autograd.grad(trainee.loss(given()), leaves)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_tied_tables_share_one_parameter_and_others_do_not() -> None:
    counts = {}
    for family in FAMILIES:
        trainee = made(family)
        split_rows(trainee.model, NEW)
        rows = {
            name: value.shape for name, value in trainee.model.named_parameters() if name.endswith(".rows")
        }
        counts[family] = [tuple(shape) for shape in rows.values()]
    assert counts == {
        "Gemma4": [(14, 32), (14, 12)],
        "Llama": [(14, 32), (14, 32)],
        "Qwen3": [(14, 32)],
        "Phi": [(14, 32), (14, 32)],
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_training_moves_every_tables_new_rows_and_not_a_byte_of_the_others(
    family: str, tmp_path: Path
) -> None:
    trainee = with_lora(made(family))
    before = {name: value.clone() for name, value in tables(trainee.model).items()}
    split_rows(trainee.model, NEW)
    kept = [value for value in trainee.model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(kept, lr=1e-2, weight_decay=0.0)
    every_row = trainee.collate([Written([*NEW, NEW[0]], [0, *[1] * len(NEW)])] * 2)
    for _ in range(3):
        optimizer.zero_grad()
        trainee.loss(every_row).backward()
        optimizer.step()
    trained = logits(trainee.model)
    merge_rows(trainee.model)
    torch.testing.assert_close(logits(trainee.model), trained, rtol=1e-5, atol=1e-6)
    frozen = [row for row in range(90) if row not in NEW]
    after = tables(trainee.model)
    assert after.keys() == before.keys()
    for name, value in after.items():
        assert torch.equal(value[frozen], before[name][frozen]), name
        assert (value[NEW] != before[name][NEW]).any(dim=1).all(), name
    merged = trainee.model.merge_and_unload(safe_merge=True)
    merged.save_pretrained(tmp_path / "export")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "export").eval()
    torch.testing.assert_close(logits(again), trained, rtol=1e-4, atol=1e-5)
    tied = family in ("Gemma4", "Qwen3")
    assert (again.get_output_embeddings().weight is again.get_input_embeddings().weight) == tied


def test_rows_of_a_bf16_base_train_in_fp32_and_are_read_rounded() -> None:
    trainee = made("Gemma4")
    trainee.model.to(torch.bfloat16)
    split_rows(trainee.model, NEW)
    rows = [value for name, value in trainee.model.named_parameters() if name.endswith(".rows")]
    assert [value.dtype for value in rows] == [torch.float32] * 2
    with torch.no_grad():
        for value in rows:
            value += torch.randn(value.shape, generator=torch.Generator().manual_seed(0)) * 0.1
        before = logits(trainee.model)
        merge_rows(trainee.model)
        assert torch.equal(logits(trainee.model), before)


def test_scattered_tool_tokens_are_refused() -> None:
    with pytest.raises(TraceError, match="do not follow one another"):
        split_rows(made("Qwen3").model, [70, 72])


def test_a_table_with_a_scale_of_its_own_kind_is_refused() -> None:
    trainee = made("Qwen3")

    class Doubled(torch.nn.Embedding):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return super().forward(ids) * 2

    trainee.model.get_input_embeddings().__class__ = Doubled
    with pytest.raises(TraceError, match="changes the rows it looks up"):
        split_rows(trainee.model, NEW)
