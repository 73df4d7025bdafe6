"""The bytes of activations that the estimate counts with are those that a base of E4B's proportions keeps."""

import pytest

pytest.importorskip("torch")

import torch  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from transformers import Gemma4ForCausalLM, Gemma4TextConfig  # noqa: E402

from training.core import estimate as sums  # noqa: E402

pytestmark = pytest.mark.ml
LAYERS, WIDTH, TOKENS = 6, 320, 101  # an eighth of E4B's width, and of everything that goes with it


def kept_bytes(recompute: bool, wide_rows: bool) -> float:
    """What autograd keeps for backward in bf16, a token, layer and width. `wide_rows`: embeddings in fp32, as they
    are while they train."""
    config = Gemma4TextConfig(
        vocab_size=64,
        vocab_size_per_layer_input=64,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=WIDTH // 10,
        global_head_dim=WIDTH // 5,
        sliding_window=64,
        num_kv_shared_layers=0,
        hidden_size_per_layer_input=WIDTH // 10,
    )
    model = Gemma4ForCausalLM(config).to(torch.bfloat16).train()
    wrapped = get_peft_model(
        model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    for name, weight in wrapped.named_parameters():
        if weight.requires_grad or (wide_rows and "embed_tokens" in name):
            weight.data = weight.data.float()
    if recompute:
        model.activation_checkpointing_enable()
    weights = {weight.data_ptr() for weight in wrapped.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in weights and TOKENS in tensor.shape:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    ids = torch.randint(3, 64, (1, TOKENS))
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", torch.bfloat16):
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    assert hidden.requires_grad
    return sum(storage.nbytes() for storage in kept.values()) / (TOKENS * LAYERS * WIDTH)


@pytest.mark.parametrize("wide_rows", [False, True])
def test_a_base_with_adapters_keeps_as_much_as_is_counted(wide_rows: bool) -> None:
    assert kept_bytes(False, wide_rows) == pytest.approx(sums.ACTIVATION[False], rel=0.1)


def test_recomputing_keeps_a_layers_input_only() -> None:
    assert kept_bytes(True, True) == pytest.approx(sums.RECOMPUTED, rel=0.1)
    assert kept_bytes(True, False) < sums.RECOMPUTED
