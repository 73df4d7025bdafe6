"""Tiny random stand-ins for named base models, with the shape and the traps of the real ones."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Gemma4Config,
    Gemma4ForCausalLM,
    Gemma4ForConditionalGeneration,
    Gemma4TextConfig,
    Gemma4VisionConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from training.ml.bases.model import row_tables

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


SHAPES = ("llama", "qwen3", "gemma3", "gemma4")
# as parameters of a test: every day the base of the paper and one without its peculiarities
EACH_SHAPE = [
    pytest.param(shape, marks=[] if shape in {"qwen3", "gemma4"} else [pytest.mark.long]) for shape in SHAPES
]


def write_base(folder: Path, shape: str, tokenizer: Any = None, **fields: Any) -> Path:
    """A random base of one shape. `fields` change its configuration."""
    tokenizer = tokenizer or gemma_tokenizer()
    torch.manual_seed(0)
    model = MAKERS[shape](tokenizer, fields)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_gemma(folder: Path) -> Path:
    """Gemma 4 text model: tied head, a second (per-layer) token table, soft-capped logits, shared keys."""
    return write_base(folder, "gemma4")


def write_untied(folder: Path) -> Path:
    """A Llama with a head of its own."""
    return write_base(folder, "llama", tie_word_embeddings=False)


# SmolLM2-135M-Instruct's table, measured with the words of 215 descriptions. Of Gemma 4's nothing is published: its
# stand-in gets the same, under its own factors and soft cap. All lengths but the first are shares of it.
ROW_LENGTH = 3.15  # of the median row
ROW_SPREAD = 0.18  # standard deviation of the rows' lengths
MEAN_ROW, MEAN_WORD = 0.69, 0.245  # lengths of the mean row, and of the mean of the descriptions' words
COSINE = 0.4  # between these two
WORD_LOGIT = 10.0  # the mean logit of these words where text is read: the longer a row among them, the larger its logit


def write_pretrained(folder: Path, shape: str, texts: list[str], **fields: Any) -> Path:
    """A base that has begun to learn the texts, on rows that lie, and with logits, as in a pretrained one."""
    torch.set_num_threads(1)
    tokenizer = gemma_tokenizer()
    torch.manual_seed(0)
    model = MAKERS[shape](tokenizer, fields)
    read = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
    labels = read.input_ids.masked_fill(read.attention_mask == 0, -100)
    words = labels[labels >= 0].unique()
    for table in row_tables(model):
        table.requires_grad_(False)
        _lay_rows(table, words)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    for _ in range(45):
        optimizer.zero_grad()
        found = model(input_ids=read.input_ids, labels=labels)
        level = found.logits[labels >= 0][:, words].mean(dim=1)
        (found.loss + 0.1 * (level - WORD_LOGIT).square().mean()).backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@torch.no_grad()
def _lay_rows(table: torch.Tensor, words: torch.Tensor) -> None:
    """All rows lean one way, words rather another, and each lies mostly in a direction of its own."""
    rows, width = table.shape
    lean = torch.zeros(rows, width)
    lean[:, 0] = MEAN_ROW * rows / (rows - len(words))  # all but the words make the mean
    lean[words, 0], lean[words, 1] = MEAN_WORD * COSINE, MEAN_WORD * (1 - COSINE**2) ** 0.5
    own = torch.nn.functional.normalize(torch.randn(rows, width), dim=1)
    own *= (1 - lean.square().sum(dim=1, keepdim=True)).sqrt()
    table.copy_((lean + own) * (1 + ROW_SPREAD * torch.randn(rows, 1)) * ROW_LENGTH)


def _common(tokenizer: Any, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": tokenizer.eos_token_id,
        "tie_word_embeddings": True,
    } | fields


def _llama(tokenizer: Any, fields: dict[str, Any]) -> Any:
    return LlamaForCausalLM(LlamaConfig(**_common(tokenizer, fields)))


def _qwen3(tokenizer: Any, fields: dict[str, Any]) -> Any:
    return Qwen3ForCausalLM(Qwen3Config(**_common(tokenizer, fields)))


def _gemma3(tokenizer: Any, fields: dict[str, Any]) -> Any:
    layers = ["sliding_attention", "full_attention"]
    own = {"sliding_window": 16, "layer_types": layers, "query_pre_attn_scalar": 16} | fields
    return Gemma3ForCausalLM(Gemma3TextConfig(**_common(tokenizer, own)))


def _gemma4_config(tokenizer: Any, fields: dict[str, Any]) -> Any:
    own = {
        "num_hidden_layers": 4,
        "vocab_size_per_layer_input": len(tokenizer),
        "hidden_size_per_layer_input": 8,
        "global_head_dim": 32,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "final_logit_softcapping": 30.0,
    }
    return Gemma4TextConfig(**_common(tokenizer, own | fields))


def _gemma4(tokenizer: Any, fields: dict[str, Any]) -> Any:
    return _scaled(Gemma4ForCausalLM(_gemma4_config(tokenizer, fields)))


def _gemma4_towers(tokenizer: Any, fields: dict[str, Any]) -> Any:
    """The published form of Gemma 4: the text model beside a vision tower."""
    vision = Gemma4VisionConfig(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=16,
        global_head_dim=16,
        position_embedding_size=16,
    )
    config = Gemma4Config(
        text_config=_gemma4_config(tokenizer, fields),
        vision_config=vision,
        tie_word_embeddings=True,
        image_token_id=2,
        video_token_id=3,
    )
    return _scaled(Gemma4ForConditionalGeneration(config))


def _scaled(model: Any) -> Any:
    """Gemma 4 divides by no square root: what its attention is scaled by was learned into this norm."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("self_attn.q_norm.weight"):
                weight.fill_(weight.shape[0] ** -0.5)
    return model


MAKERS = {
    "llama": _llama,
    "qwen3": _qwen3,
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "gemma4-towers": _gemma4_towers,
}
