"""The loss head on real model classes: the library's own loss, however a family scales its logits."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
import transformers  # noqa: E402

from tests.training.small_training import labels_of  # noqa: E402
from trace_site.lib.errors import TraceError  # noqa: E402
from training.ml.head import output_head  # noqa: E402
from training.ml.language import LanguageTrainee, Written, check_head  # noqa: E402
from training.ml.trainee import Batch  # noqa: E402

pytestmark = pytest.mark.ml
SIZES = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GEMMA4 = {
    "vocab_size_per_layer_input": 90,
    "hidden_size_per_layer_input": 4,
    "global_head_dim": 16,
    "sliding_window": 8,
    "num_kv_shared_layers": 1,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    "final_logit_softcapping": 30.0,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {"tie_word_embeddings": False},
    "Qwen3": {"tie_word_embeddings": True},
    "Gemma2": {"final_logit_softcapping": 30.0},
    "Gemma3": {"final_logit_softcapping": 20.0},
    "Gemma4": GEMMA4,
    "Cohere": {"logit_scale": 0.0625},
    "Granite": {"logits_scaling": 8.0},
    "HyperCLOVAX": {"logits_scaling": 0.5},
    "Phi": {"tie_word_embeddings": False},  # a head with a bias
}


def made(family: str, **more: Any) -> LanguageTrainee:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    names = {"Gemma3": "Gemma3TextConfig", "Gemma4": "Gemma4TextConfig"}
    config = getattr(transformers, names.get(family, f"{family}Config"))(
        **{**SIZES, **FAMILIES[family], **more}
    )
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    if getattr(model.get_output_embeddings(), "bias", None) is not None:
        torch.nn.init.normal_(model.get_output_embeddings().bias)
    return LanguageTrainee(model=model, chat=NO_CHAT)  # type: ignore[arg-type]


NO_CHAT = SimpleNamespace(pad_id=0)


def batch_of(trainee: LanguageTrainee, *supervised: range) -> Batch[Written]:
    """A row for each; the tokens at these places are predicted."""
    ids = torch.randint(3, 90, (len(supervised), 14), generator=torch.Generator().manual_seed(1)).tolist()
    masks = [[int(at in places) for at in range(14)] for places in supervised]
    return trainee.collate([Written(row, mask) for row, mask in zip(ids, masks, strict=True)])


def batch(trainee: LanguageTrainee) -> Batch[Written]:
    """Three rows: supervised at their ends, one position only, nowhere."""
    return batch_of(trainee, range(7, 14), range(5, 6), range(0))


def library_loss(trainee: LanguageTrainee, given: Batch[Written]) -> torch.Tensor:
    labels = labels_of(given)
    return trainee.model(input_ids=given.ids, labels=given.ids, shift_labels=labels, use_cache=False).loss


@pytest.mark.parametrize("family", FAMILIES)
def test_loss_and_gradients_are_those_of_the_library(family: str) -> None:
    trainee = made(family)
    given = batch(trainee)
    check_head(trainee.model, given.ids[0].tolist())
    library_loss(trainee, given).backward()
    theirs = {name: value.grad for name, value in trainee.model.named_parameters() if value.grad is not None}
    trainee.model.zero_grad()
    ours = trainee.loss(given)
    ours.backward()
    assert ours.item() == pytest.approx(library_loss(trainee, given).item(), rel=1e-5)
    for name, value in trainee.model.named_parameters():
        if name in theirs:
            torch.testing.assert_close(value.grad, theirs[name], rtol=1e-4, atol=1e-6, msg=name)


def test_each_family_says_what_it_scales_by() -> None:
    found = {family: output_head(made(family).model) for family in FAMILIES}
    assert {family: head.scale for family, head in found.items() if head.scale != 1} == {
        "Cohere": 0.0625,
        "Granite": 0.125,
        "HyperCLOVAX": 0.5,
    }
    assert {family: head.cap for family, head in found.items() if head.cap} == {
        "Gemma2": 30,
        "Gemma3": 20,
        "Gemma4": 30,
    }
    assert [family for family, head in found.items() if head.parts[0].bias is not None] == ["Phi"]


@pytest.mark.parametrize("change", ["scale", "cap", "cut"])
def test_an_unknown_way_of_making_logits_is_refused(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainee = made("Llama")
    own = type(trainee.model).forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = own(self, *args, **kwargs)
        if change == "scale":
            found.logits = found.logits * 1.1
        elif change == "cap":
            found.logits = torch.tanh(found.logits / 50) * 50
        else:
            found.logits = found.logits[..., :80]
        return found

    monkeypatch.setattr(type(trainee.model), "forward", forward)
    with pytest.raises(TraceError, match="scales its logits"):
        check_head(trainee.model, batch(trainee).ids[0].tolist())


def test_a_batch_without_any_supervised_position_moves_nothing() -> None:
    trainee = made("Gemma4")
    loss = trainee.loss(batch_of(trainee, range(0), range(0)))
    loss.backward()
    assert loss.item() == 0
    assert all(value.grad is None or not value.grad.any() for value in trainee.model.parameters())
