"""A Gemma-4-E4B-shaped model of random weights, made where it runs, and sequences with the lengths of real records.

In: a device, and whether only a toy is asked for. Out: the model as it is served, or as a trainee of the product (LoRA,
tool rows beside frozen tables), its parameter counts, and examples drawn from a histogram of lengths.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

from training.core.recipe import Lora, Recipe, Stage
from training.ml.bases.model import with_lora
from training.ml.bases.named import grow_tables
from training.ml.language import LanguageTrainee, Written

HISTOGRAM = Path(__file__).with_name("lengths.json")
TEXT, NEW = 262_144, 9_344  # rows of text and of tool tokens
TOY_TEXT, TOY_NEW = 700, 40
SHAPE = {  # the text part of Gemma-4-E4B
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_hidden_layers": 42,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "global_head_dim": 512,
    "sliding_window": 512,
    "num_kv_shared_layers": 18,
    "hidden_size_per_layer_input": 256,
}
TOY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "global_head_dim": 16,
    "sliding_window": 16,
    "num_kv_shared_layers": 3,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
    "hidden_size_per_layer_input": 4,
}


@dataclass(frozen=True)
class Sizes:
    """Parameters that cost products per token; tables are looked up and cost none."""

    body: int
    lora: int
    head: int
    rows: int  # trained rows of all tables

    def flops(self, computed: float, heads: float, recomputed: bool) -> float:
        """Per real token: `computed` tokens through the body, `heads` products of a position with the head."""
        body = self.body * (6 if recomputed else 4) + self.lora * (8 if recomputed else 6)
        return computed * body + heads * 2 * self.head


def shaped(where: torch.device, toy: bool) -> tuple[Any, int, int]:
    """The model in bf16 on a GPU (fp32 on a CPU), with rows for the tool tokens; parameters of body and of head."""
    text, new = rows(toy)
    config = Gemma4TextConfig(
        **(TOY if toy else SHAPE),
        vocab_size=text,
        vocab_size_per_layer_input=text,
        final_logit_softcapping=30.0,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
    dtype = torch.bfloat16 if where.type == "cuda" else torch.float32
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(where):
        model: Any = Gemma4ForCausalLM(config)
    torch.set_default_dtype(usual)
    model.config.dtype = dtype
    grow_tables(model, text + new)
    embedded = {"embed_tokens", "embed_tokens_per_layer", "lm_head"}
    body = sum(
        w.numel() for n, w in model.named_parameters() if not embedded & set(n.split(".")) and w.ndim == 2
    )
    return model, body, model.get_output_embeddings().weight.numel()


def rows(toy: bool) -> tuple[int, int]:
    """Tokens of text, and of tools behind them."""
    return (TOY_TEXT, TOY_NEW) if toy else (TEXT, NEW)


def build(where: torch.device, toy: bool) -> tuple[LanguageTrainee, Sizes]:
    """With LoRA r=64 and tool rows split off: the product's own calls."""
    model, body, head = shaped(where, toy)
    text, new = rows(toy)
    recipe = Recipe(
        base="random", embeddings="new_rows", lora=Lora(rank=4 if toy else 64, alpha=8 if toy else 128)
    )
    tools = list(range(text, text + new))
    chat: Any = SimpleNamespace(unit_ids=lambda _: tools, pad_id=0, markers=SimpleNamespace(added=()))
    snapshot: Any = SimpleNamespace(family_strings=lambda _: [])
    wrapped = with_lora(model, chat, snapshot, recipe).to(where)
    trained = {name: w.numel() for name, w in wrapped.named_parameters() if w.requires_grad}
    own = sum(count for name, count in trained.items() if name.endswith(".rows"))
    trainee = LanguageTrainee(model=wrapped, chat=chat)
    return trainee, Sizes(body, sum(trained.values()) - own, head, own)


def recipe(toy: bool) -> Recipe:
    return Recipe(base="random", bf16=not toy, stage2=Stage(lr=1e-4, batch_size=16))


def examples(stage: str, count: int, stretch: float, longest: int, toy: bool) -> list[Written]:
    """Random ids; one supervised token in six is a tool's. Lengths follow the histogram times `stretch`."""
    lengths = json.loads(HISTOGRAM.read_text())[stage]
    chance = random.Random(0)
    text, new = rows(toy)
    made = []
    for length, supervised, _ in chance.choices(lengths, weights=[row[2] for row in lengths], k=count):
        total = min(longest, round(length * stretch))
        kept = min(total - 1, max(1, round(supervised / length * total)))
        mask = [0] * (total - kept) + [1] * kept
        ids = [
            chance.randrange(text, text + new) if m and chance.random() < 1 / 6 else chance.randrange(3, text)
            for m in mask
        ]
        made.append(Written(ids, mask))
    return made
