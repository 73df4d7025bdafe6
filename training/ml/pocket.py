"""The pocket model before training: a small decoder, and a start from which it learns retrieval fast.

In: the pocket part of a recipe and a tokenizer that already holds the tool tokens. Out: the model, shaped like Qwen3,
Llama or Gemma 4 (a second, per-layer table; soft-capped logits; sliding and full layers; keys and values shared by
the later ones). With `copy_start` the first layer copies what it attends to, attention is nearly even and everything
else is quiet, so the untrained model already adds up the words it has read and compares the sum with the token rows:
a linear text classifier.
"""

from typing import Any

import torch
from torch import nn
from transformers import (
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from training.core.recipe import Pocket, Recipe
from training.ml.bases import rounded

QUERY_GAIN = 0.2  # attention scores start five times smaller, so that attention is nearly even
QUIET = 0.2  # start of what would disturb the sum: feed-forward parts and the attention of later layers
SHAPES: dict[str, tuple[Any, Any]] = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
    "gemma4": (Gemma4TextConfig, Gemma4ForCausalLM),
}


def pocket_model(recipe: Recipe, tokenizer: Any) -> Any:
    """A fresh pocket model with a row per token of the tokenizer."""
    size = recipe.pocket
    make_config, make_model = SHAPES[size.shape]
    rows = rounded(len(tokenizer))
    config = make_config(
        vocab_size=rows,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        head_dim=size.hidden // size.heads,
        max_position_embeddings=recipe.max_seq_len,
        tie_word_embeddings=size.tied,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        **(_gemma_fields(size, rows) if size.shape == "gemma4" else {}),
    )
    model = make_model(config)
    if size.copy_start:
        _start_as_copier(model)
    return model


def _gemma_fields(size: Pocket, rows: int) -> dict[str, Any]:
    """What makes Gemma 4 different, small. The defaults of some fields are those of the full-sized model."""
    last = size.layers - 1
    return {
        "vocab_size_per_layer_input": rows,
        "hidden_size_per_layer_input": 16,
        "global_head_dim": size.hidden // size.heads,
        "sliding_window": 64,
        "layer_types": [
            "sliding_attention" if (last - number) % 2 else "full_attention" for number in range(size.layers)
        ],
        "num_kv_shared_layers": size.layers // 2 if size.layers >= 4 else 0,
        "final_logit_softcapping": 30.0,
    }


def _start_as_copier(model: Any) -> None:
    """Change the random start in place. A head of its own starts as a copy of the input table."""
    with torch.no_grad():
        model.get_output_embeddings().weight.copy_(model.get_input_embeddings().weight)
        for number, layer in enumerate(model.model.layers):
            if hasattr(layer.self_attn, "q_norm"):  # without it the scores start small by themselves
                layer.self_attn.q_norm.weight.fill_(QUERY_GAIN)
            layer.mlp.down_proj.weight.mul_(QUIET)
            if number:
                layer.self_attn.o_proj.weight.mul_(QUIET)
            else:
                _add_identity(layer.self_attn.v_proj)
                _add_identity(layer.self_attn.o_proj)


def _add_identity(linear: nn.Linear) -> None:
    linear.weight.add_(torch.eye(linear.out_features, linear.in_features))
