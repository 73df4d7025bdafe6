"""Every field of a recipe for people: its group, its label, one plain sentence, and where its default comes from.

In: the dataclass of core/recipe.py, so that a field cannot be forgotten (a test compares the two). Out: `FIELDS` in the
order of the form, and recipes read from typed texts and flattened to them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from training.core.recipe import STAGES, TOKEN_INITS, Recipe

CELL = ("format", "memo", "retrieval", "base", "seed")  # chosen with cards and inputs of their own
GROUPS = {
    "stage1": "Stage 1",
    "plain": "Stage 2, plain",
    "stage2": "Stage 2",
    "data": "Records",
    "weights": "What is trained",
    "pocket": "The pocket model",
    "machine": "Machine",
}
SOURCES = {
    "paper": "the paper",
    "toolsense": "ToolSense, which the paper builds on",
    "ours": "this project; the paper does not say",
    "library": "the library",
}
CHOICES = {
    "embeddings": ("full", "new_rows"),
    "token_init": TOKEN_INITS,
}
# field of one stage -> (label, where its default comes from, help)
STAGE = {
    "lr": ("Peak learning rate", "paper", "the highest rate; it then falls along a cosine"),
    "encoder_lr": ("Encoder rate", "ours", "pocket only: the own peak of the encoder; 0 = it stays as it is"),
    "rows_lr": ("Tool row rate", "ours", "pocket only: the peak of the tool tokens' rows; 0 = they stay"),
    "writer_lr": (
        "Decoder rate",
        "ours",
        "pocket only: the own peak of the decoder's matrices, moved by Muon; 0 = AdamW moves them too",
    ),
    "encoder_from": (
        "Encoder from",
        "ours",
        "pocket only: share of the steps before the encoder begins to move",
    ),
    "keep": (
        "Kept",
        "ours",
        "pocket only: share of the encoder and the tool rows before this stage in what they are after it, for the "
        "tools that no sample names; the more tools are named, the less is kept",
    ),
    "batch_size": ("Batch size", "paper", "sequences in one optimiser step"),
    "micro_batch": ("Micro batch", "ours", "sequences at once, to save memory; 0 = the whole batch"),
    "epochs": ("Epochs", "ours", "passes over the records"),
    "min_steps": (
        "Fewest steps",
        "ours",
        "a small set is passed over until here, at most three times the epochs; 0 = no more than these",
    ),
    "max_steps": ("Most steps", "ours", "0 = all that the epochs have; else the cosine ends at this step"),
    "max_seconds": (
        "Time limit, s",
        "ours",
        "0 = none; else training stops there, unfinished; an equal run may stop at another step",
    ),
    "min_lr_ratio": ("Last learning rate", "paper", "share of the peak at which the cosine ends"),
    "warmup_ratio": ("Warm-up", "ours", "share of the steps in which the rate rises"),
    "weight_decay": ("Weight decay", "ours", "AdamW's pull to zero, on matrices only"),
    "betas": ("AdamW betas", "library", "how long its two averages remember"),
    "max_grad_norm": ("Gradient clip", "ours", "a longer gradient is cut to this length"),
}
# field -> (group, label, source, help)
OTHER = {
    "max_seq_len": ("data", "Longest record", "ours", "tokens; longer records are left out and counted"),
    "max_prompt_tokens": ("data", "Longest request", "ours", "tokens; a longer request is cut"),
    "max_new_tokens": ("data", "Longest answer", "ours", "tokens a decode may write"),
    "mcts_negatives": ("data", "Hard negatives", "ours", "look-alikes beside the right tool in a choice"),
    "empty_thinking_share": (
        "data",
        "Fast-mode share",
        "ours",
        "share of the traced samples also trained without their trace; 0 in the paper",
    ),
    "replay": (
        "data",
        "Replay",
        "ours",
        "tool descriptions read as requests beside each sample of Stage 2, so that none is forgotten; 0 in the paper",
    ),
    "plain_first": (
        "data",
        "Plain pass first",
        "ours",
        "r and r+R first learn the answers without traces, by the settings of Stage 2, plain; off in the paper",
    ),
    "letters": (
        "data",
        "Lettered choices",
        "ours",
        "Stage 1 also learns to answer with a letter, on the half of the tools that no probe counts; off in the paper",
    ),
    "embeddings": ("weights", "Embeddings", "paper", "full: whole tables train; new_rows: tool tokens only"),
    "token_init": ("weights", "Token start", "ours", "from the words a token stands for, or random (opaque)"),
    "lora.rank": ("weights", "LoRA rank", "paper", "a named base only; pocket trains every weight"),
    "lora.alpha": ("weights", "LoRA alpha", "paper", "how strongly the adapters count; a named base only"),
    "lora.dropout": ("weights", "LoRA dropout", "toolsense", "share of the adapter's input dropped"),
    "pocket.encoder": (
        "pocket",
        "Encoder",
        "ours",
        "the sentence encoder that reads requests, by name or folder",
    ),
    "pocket.vocab": (
        "pocket",
        "Vocabulary",
        "ours",
        "text pieces it writes with, learned from the encoder's words",
    ),
    "pocket.layers": ("pocket", "Layers", "ours", "depth of the part that writes"),
    "pocket.heads": ("pocket", "Heads", "ours", "attention heads of each of these layers"),
    "pocket.intermediate": ("pocket", "Feed-forward width", "ours", "of each of these layers"),
    "pocket.dropout": ("pocket", "Dropout", "ours", "in the encoder"),
    "pocket.tool_weight": (
        "pocket",
        "Weight of tool tokens",
        "ours",
        "how much the choice among them counts in the loss; a word is 1",
    ),
    "bf16": ("machine", "bf16 arithmetic", "paper", "half the memory traffic; off: exact fp32"),
    "activation_checkpointing": ("machine", "Recompute activations", "ours", "less memory, slower steps"),
    "checkpoint_seconds": ("machine", "Checkpoint every, s", "ours", "work that a kill may cost"),
    "threads": ("machine", "CPU threads", "ours", "set by the server (ML_THREADS), whatever stands here"),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field as forms and tables show it. `kind`: bool, choice, number, numbers or text."""

    name: str
    group: str
    label: str
    source: str
    help: str
    kind: str
    choices: tuple[str, ...] = ()

    @property
    def from_whom(self) -> str:
        return SOURCES.get(self.source, "")


def flat(recipe: Any, prefix: str = "") -> dict[str, Any]:
    """{dotted name: value} of a recipe or a part of it, in the dataclass's order."""
    found: dict[str, Any] = {}
    for item in fields(recipe):
        value = getattr(recipe, item.name)
        if is_dataclass(value):
            found |= flat(value, f"{prefix}{item.name}.")
        else:
            found[f"{prefix}{item.name}"] = value
    return found


def flat_json(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a recipe as the database keeps it."""
    found: dict[str, Any] = {}
    for name, value in recipe.items():
        parts = {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, Mapping) else None
        found |= {name: value} if parts is None else parts
    return found


def _field(name: str, default: Any) -> Field:
    first, _, last = name.partition(".")
    if first in STAGES:
        group, (label, source, text) = first, STAGE.get(last, (last.replace("_", " "), "", ""))
    else:
        group, label, source, text = OTHER.get(name, ("machine", name.replace("_", " "), "", ""))
    choices = ("true", "false") if isinstance(default, bool) else CHOICES.get(name, ())
    kind = {bool: "bool", tuple: "numbers", int: "number", float: "number"}.get(type(default), "text")
    return Field(name, group, label, source, text, "choice" if kind == "text" and choices else kind, choices)


FIELDS = {name: _field(name, value) for name, value in flat(Recipe()).items() if name not in CELL}


def shown(value: Any) -> str:
    """A value as a person types it: 0.0001, true, 0.9, 0.99."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ", ".join(map(shown, value))
    if isinstance(value, float):
        text = f"{value:.10f}".rstrip("0").rstrip(".")
        return text if float(text or 0) == value else repr(value)
    return str(value)


def typed(field: Field, text: str) -> Any:
    """What `recipe.from_dict` reads of a typed text; what it cannot be stays text, to be refused by name."""
    words = text.strip()
    if field.kind == "bool":
        return {"true": True, "false": False}.get(words.lower(), words)
    if field.kind == "numbers":
        return [part.strip() for part in words.split(",") if part.strip()]
    return words


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names back to the shape that `recipe.from_dict` reads."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        first, _, last = name.partition(".")
        if last:
            found.setdefault(first, {})[last] = value
        else:
            found[first] = value
    return found


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """[(dotted name, one's value, other's value)] of the fields that differ between two recipes as JSON keeps them."""
    left, right = flat_json(one), flat_json(other)
    names = [*left, *(name for name in right if name not in left)]
    pairs = ((name, _or_none(left, name), _or_none(right, name)) for name in names)
    return [(name, a, b) for name, a, b in pairs if a != b]


def _or_none(values: Mapping[str, Any], name: str) -> str:
    return shown(values[name]) if name in values else "not there"
