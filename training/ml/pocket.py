"""The pocket model before training: a small Qwen3-shaped decoder, and a start from which it learns retrieval fast.

In: the pocket part of a recipe and a tokenizer that already holds the tool tokens. Out: the model. With `copy_start`
the first layer copies what it attends to, attention is nearly even and everything else is quiet, so the untrained
model already adds up the words it has read and compares the sum with the token rows: a linear text classifier.
"""

from typing import Any

import torch
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from training.core.recipe import Recipe

ROW_MULTIPLE = 64
QUERY_GAIN = 0.2  # attention scores start five times smaller, so that attention is nearly even
QUIET = 0.2  # start of what would disturb the sum: feed-forward parts and the attention of later layers


def pocket_model(recipe: Recipe, tokenizer: Any) -> Qwen3ForCausalLM:
    """A fresh pocket model with a row per token of the tokenizer."""
    size = recipe.pocket
    config = Qwen3Config(
        vocab_size=rounded(len(tokenizer)),
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
    )
    model = Qwen3ForCausalLM(config)
    if size.copy_start:
        _start_as_copier(model)
    return model


def _start_as_copier(model: Any) -> None:
    """Change the random start in place. A head of its own starts as a copy of the input table."""
    with torch.no_grad():
        model.get_output_embeddings().weight.copy_(model.get_input_embeddings().weight)
        for number, layer in enumerate(model.model.layers):
            layer.self_attn.q_norm.weight.fill_(QUERY_GAIN)
            layer.mlp.down_proj.weight.mul_(QUIET)
            if number:
                layer.self_attn.o_proj.weight.mul_(QUIET)
            else:
                _add_identity(layer.self_attn.v_proj)
                _add_identity(layer.self_attn.o_proj)


def _add_identity(linear: nn.Linear) -> None:
    linear.weight.add_(torch.eye(linear.out_features, linear.in_features))


def rounded(rows: int) -> int:
    """A few spare rows: a multiple is faster, and the spare rows are the reserve for new tools."""
    return -(-(rows + 1) // ROW_MULTIPLE) * ROW_MULTIPLE
