"""Tiny random stand-ins for named base models, with the shape and the traps of the real ones."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

CONTROL = ["<pad>", "<bos>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"]
TEMPLATE = (
    "<bos>{% for m in messages %}<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{{ m.content }}<turn|>\n{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
WORDS = "Find the API tools for this request pay slip case tool of leave because show it please" * 3


def gemma_tokenizer() -> Any:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator([WORDS], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<bos>", eos_token="<turn|>"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def write_gemma(folder: Path) -> Path:
    """Gemma 4 text model: tied head, a second (per-layer) token table, soft-capped logits."""
    tokenizer = gemma_tokenizer()
    torch.manual_seed(0)
    config = Gemma4TextConfig(
        vocab_size=len(tokenizer),
        vocab_size_per_layer_input=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        hidden_size_per_layer_input=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        global_head_dim=16,
        sliding_window=64,
        layer_types=["sliding_attention", "full_attention"],
        final_logit_softcapping=30.0,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=tokenizer.eos_token_id,
    )
    Gemma4ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_untied(folder: Path) -> Path:
    """A Llama with a head of its own."""
    tokenizer = gemma_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
