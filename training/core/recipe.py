"""The recipe: everything a training run is allowed to choose, with where each default comes from.

In: a YAML file. Out: one frozen `Recipe`, checked field by field. Sources: [paper] = the paper's training
appendix, [toolsense] = the recipe it builds on, [ours] = measured or decided in this project.
"""

import math
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from catalog.core.tokens import FORMATS
from trace_site.lib.errors import TraceError, quoted
from trace_site.lib.files import content_hash, read_text
from trace_site.lib.small_yaml import read_small_yaml

POCKET = "pocket"
STAGES = ("stage1", "plain", "stage2")
LONGEST_TEXT = 300
LARGEST = 2**53  # of any number: what every reader of JSON keeps exactly
MORE = 3  # times the epochs that a small set is passed over at most: more often it is learned by heart
TOKEN_INITS = ("description", "opaque")
MEMOS = ("m", "mr", "none")
RETRIEVALS = ("none", "n", "r", "r+R", "n>r")
PLAIN = (
    "n",
    "n+R",
)  # without traces; n+R is no cell of its own, but the first pass of r+R with `plain_first`


def _check(ok: bool, name: str, problem: str) -> None:
    if not ok:
        raise TraceError(problem, code="bad_recipe", where=f"recipe field '{name}'")


@dataclass(frozen=True)
class Pocket:
    """The small embedded base: a sentence encoder that reads requests, a decoder beside it that writes answers."""

    encoder: str = "all-MiniLM-L6-v2"  # [ours] the dependency, or the folder or name of another one like BERT
    vocab: int = (
        8192  # [ours] text pieces it writes with, from the encoder's word list; tool tokens come on top
    )
    layers: int = 2  # [ours] depth of the decoder; its width is the encoder's
    heads: int = 6  # [ours] attention heads of the decoder
    intermediate: int = 1024  # [ours] width of the decoder's feed-forward part
    dropout: float = 0.1  # [ours] in the encoder, as it was trained with
    tool_weight: float = 4.0  # [ours] how much it counts in the loss which tool token it is; a trace has few

    def __post_init__(self) -> None:
        _check(bool(self.encoder), "pocket.encoder", "must name an encoder.")
        _check(512 <= self.vocab <= 65536, "pocket.vocab", "must lie in 512..65536.")
        _check(1 <= self.layers <= 32, "pocket.layers", "must lie in 1..32.")
        _check(self.heads >= 1, "pocket.heads", "must be at least 1.")
        _check(self.intermediate >= 1, "pocket.intermediate", "must be at least 1.")
        _check(0 <= self.dropout < 1, "pocket.dropout", "must lie in 0..1.")
        _check(0 < self.tool_weight <= 100, "pocket.tool_weight", "must be above 0, at most 100.")


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters on every linear layer of a named base model."""

    rank: int = 64  # [paper]
    alpha: int = 128  # [paper]
    dropout: float = 0.0  # [toolsense] names no other value

    def __post_init__(self) -> None:
        _check(self.rank >= 1, "lora.rank", "must be at least 1.")
        _check(self.alpha >= 1, "lora.alpha", "must be at least 1.")
        _check(0 <= self.dropout < 1, "lora.dropout", "must lie in 0..1.")


@dataclass(frozen=True)
class Stage:
    """How one stage is optimised."""

    lr: float = 5e-5  # [paper] peak; Stage 1 5e-5, Stage 2 1e-4
    encoder_lr: float = 0.0  # [ours] pocket: the encoder's own peak; 0 = the encoder stays as it is
    rows_lr: float = 0.0  # [ours] pocket: the peak of the tool tokens' rows; 0 = they stay as they are
    writer_lr: float = 0.0  # [ours] pocket: the peak of the decoder's matrices, by Muon; 0 = AdamW at `lr`
    encoder_from: float = (
        0.0  # [ours] pocket: share of the steps after which the encoder begins to move, so that the
    )
    # rows have found their places before it follows them (Kumar et al. 2022, "Fine-Tuning can Distort ...")
    keep: float = (
        0.0  # [ours] pocket: share of what encoder and tool rows were before in what they are afterwards
    )
    # (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models"), times the share of tool tokens in no sample
    batch_size: int = 8  # [paper] sequences a step; Stage 1 8, Stage 2 16
    micro_batch: int = 0  # [ours] sequences a forward pass, to save memory; 0 = the whole batch at once
    epochs: float = 1.0  # [ours] the paper does not say
    min_steps: int = 0  # [ours] of a small set, at up to MORE times the epochs; 0 = no more than `epochs`
    max_steps: int = 0  # [ours] 0 = all that the epochs have; otherwise the cosine ends at this step
    max_seconds: float = 0.0  # [ours] 0 = no limit; otherwise training stops then, with its cosine unfinished
    min_lr_ratio: float = 0.1  # [paper] the cosine ends at this share of the peak
    warmup_ratio: float = 0.03  # [ours] share of the steps with a linearly rising rate
    weight_decay: float = 0.0  # [ours] AdamW's, on matrices only
    betas: tuple[float, float] = (0.9, 0.999)  # AdamW's own defaults
    max_grad_norm: float = 1.0  # [ours]

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(self.betas))
        _check(0 < self.lr < 1, "lr", "must lie in 0..1.")
        _check(0 <= self.encoder_lr < 1, "encoder_lr", "must lie in 0..1.")
        _check(0 <= self.rows_lr < 1, "rows_lr", "must lie in 0..1.")
        _check(0 <= self.writer_lr < 1, "writer_lr", "must lie in 0..1.")
        _check(0 <= self.encoder_from < 1, "encoder_from", "must lie in 0..1.")
        _check(0 <= self.keep < 1, "keep", "must lie in 0..1.")
        _check(self.batch_size >= 1, "batch_size", "must be at least 1.")
        _check(0 <= self.micro_batch <= self.batch_size, "micro_batch", "must lie in 0..batch_size.")
        _check(self.epochs > 0, "epochs", "must be above 0.")
        _check(self.min_steps >= 0, "min_steps", "must not be negative.")
        _check(self.max_steps >= 0, "max_steps", "must not be negative.")
        _check(self.min_steps <= (self.max_steps or self.min_steps), "min_steps", "is above max_steps.")
        _check(self.max_seconds >= 0, "max_seconds", "must not be negative.")
        _check(0 <= self.min_lr_ratio <= 1, "min_lr_ratio", "must lie in 0..1.")
        _check(0 <= self.warmup_ratio < 1, "warmup_ratio", "must lie in 0..1.")
        _check(0 <= self.weight_decay < 1, "weight_decay", "must lie in 0..1.")
        _check(len(self.betas) == 2, "betas", "must be two numbers.")
        _check(self.max_grad_norm > 0, "max_grad_norm", "must be above 0.")

    def steps(self, records: int) -> int:
        """Optimiser steps of the whole stage: a function of recipe and data, whatever machine trains it."""
        asked = self.epochs * math.ceil(records / self.batch_size)
        steps = max(1, round(asked), min(self.min_steps, round(MORE * asked)))
        return min(steps, self.max_steps or steps)


@dataclass(frozen=True)
class Recipe:
    """One cell of the grid (format, memo, retrieval), a base model and how to train it."""

    format: str = "c"  # [paper] a flat, b bare pair, c wrapped pair
    memo: str = "m"  # [paper] Stage 1: m, mr or none
    retrieval: str = "r+R"  # [paper] Stage 2: none, n, r, r+R or n>r
    base: str = POCKET  # `pocket`, or the name or path of a causal language model
    seed: int = 0
    threads: int = 2  # [ours] CPU threads of torch
    bf16: bool = True  # [paper] bf16 arithmetic
    max_seq_len: int = 1024  # [ours] longer records are left out and counted
    max_prompt_tokens: int = 512  # [ours] a longer request is cut
    max_new_tokens: int = 512  # [ours] the longest answer a decode may write
    embeddings: str = "full"  # [paper] full: whole tables train; new_rows: only the token rows do
    token_init: str = (
        "description"  # [ours] new rows from the words they stand for; opaque: random, the control
    )
    activation_checkpointing: bool = (
        False  # [ours] recompute instead of keeping activations: less memory, slower
    )
    mcts_negatives: int = 13  # [ours] K hard negatives beside the gold tool in Stage 1's choice records
    empty_thinking_share: float = 0.0  # [ours] share of the reasoning samples ALSO trained with an empty
    # thinking part, so that fast decoding is not out of distribution; the paper does not do it
    replay: float = (
        0.0  # [ours] descriptions beside each sample of Stage 2, so that it forgets no tool; 0 in the paper
    )
    letters: bool = False  # [ours] Stage 1 also learns to answer with a letter, of half of the tools
    plain_first: bool = (
        False  # [ours] r and r+R learn the answers without traces first, in a pass of its own, as n>r
    )
    # does in the paper
    checkpoint_seconds: float = 60.0  # [ours] how much work a kill may cost
    pocket: Pocket = field(default_factory=Pocket)
    lora: Lora = field(default_factory=Lora)
    stage1: Stage = field(default_factory=Stage)
    plain: Stage = field(default_factory=lambda: Stage(lr=1e-4, batch_size=16))  # Stage 2 without traces
    stage2: Stage = field(default_factory=lambda: Stage(lr=1e-4, batch_size=16))  # with them

    def __post_init__(self) -> None:
        _check(self.format in FORMATS, "format", f"{quoted(self.format)} is not one of {', '.join(FORMATS)}.")
        _check(self.memo in MEMOS, "memo", f"{quoted(self.memo)} is not one of {', '.join(MEMOS)}.")
        _check(
            self.retrieval in (*RETRIEVALS, *PLAIN),
            "retrieval",
            f"{quoted(self.retrieval)} is not one of {', '.join(RETRIEVALS)}.",
        )
        _check(bool(self.base), "base", "must name a model.")
        _check(self.threads >= 1, "threads", "must be at least 1.")
        _check(self.max_prompt_tokens >= 8, "max_prompt_tokens", "must be at least 8.")
        _check(self.max_seq_len > self.max_prompt_tokens, "max_seq_len", "must exceed max_prompt_tokens.")
        _check(self.embeddings in ("full", "new_rows"), "embeddings", "must be full or new_rows.")
        _check(self.token_init in TOKEN_INITS, "token_init", f"must be one of {', '.join(TOKEN_INITS)}.")
        _check(1 <= self.mcts_negatives <= 50, "mcts_negatives", "must lie in 1..50.")
        _check(0 <= self.empty_thinking_share <= 1, "empty_thinking_share", "must lie in 0..1.")
        _check(0 <= self.replay <= 8, "replay", "must lie in 0..8.")
        _check(self.checkpoint_seconds > 0, "checkpoint_seconds", "must be above 0.")

    @property
    def reasoning(self) -> bool:
        return self.retrieval in ("r", "r+R", "n>r")

    def with_cell(self, **cell: Any) -> "Recipe":
        """The same recipe for another cell: format, memo, retrieval, base or seed."""
        return replace(self, **cell)

    def hash(self) -> str:
        return content_hash(asdict(self))

    def to_yaml(self) -> str:
        data = asdict(self)
        for stage in STAGES:
            data[stage]["betas"] = list(data[stage]["betas"])
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def load(path: Path) -> Recipe:
    """Read a recipe; an unknown field or a wrong type is named."""
    data = read_small_yaml(read_text(path), str(path))
    try:
        return from_dict({} if data is None else data)
    except TraceError as error:
        raise TraceError(
            error.message, code=error.code, where=f"{path}: {error.where}", hint=error.hint
        ) from error


def from_dict(data: Any) -> Recipe:
    """Where `plain` is left out, the plain pass is trained as `stage2` says."""
    if isinstance(data, dict) and "stage2" in data:
        data = {**data, "plain": data.get("plain", data["stage2"])}
    return _build(Recipe, data, "")


# fields of earlier versions: of a model trained from random weights, and of its training
REMOVED = {
    "pocket": (
        *("shape", "hidden", "token_dropout", "written_dropout", "lowercase", "tied"),
        *("copy_start", "fitted_start"),
    ),
    **dict.fromkeys(STAGES, ("label_smoothing", "average_share")),
}


def stored(data: dict[str, Any]) -> Recipe:
    """A recipe that the database or an export kept; what an earlier version had and this one lacks is left out."""
    return from_dict(
        {
            key: {name: each for name, each in value.items() if name not in REMOVED[key]}
            if key in REMOVED and isinstance(value, dict)
            else value
            for key, value in data.items()
        }
    )


def _build(cls: Any, data: Any, prefix: str) -> Any:
    """A dataclass from a mapping, with unknown fields and wrong types refused by name."""
    _check(
        isinstance(data, dict), prefix.rstrip(".") or "(whole file)", "must be a mapping of fields to values."
    )
    known = {item.name: item for item in fields(cls)}
    values: dict[str, Any] = {}
    default = cls()
    for key, value in data.items():
        name = f"{prefix}{key}"
        _check(key in known, name, f"is unknown; the fields are {', '.join(known)}.")
        values[key] = _coerce(getattr(default, key), value, name)
    try:
        return cls(**values)
    except TraceError as error:
        if not prefix or prefix in error.where:
            raise
        raise TraceError(
            error.message, code=error.code, where=error.where.replace("field '", f"field '{prefix}")
        ) from error


def _coerce(default: Any, value: Any, name: str) -> Any:
    if hasattr(default, "__dataclass_fields__"):
        return _build(type(default), value, f"{name}.")
    if isinstance(default, bool):
        _check(isinstance(value, bool), name, "must be true or false.")
        return value
    if isinstance(default, (int, float)):
        return _number(type(default), value, name)
    if isinstance(default, tuple):
        _check(isinstance(value, (list, tuple)), name, "must be a list.")
        _check(len(value) == len(default), name, f"must be {len(default)} numbers.")
        return tuple(_number(float, item, name) for item in value)
    text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    _check(text, name, f"must be text, found {quoted(value)}.")
    _check(len(str(value)) <= LONGEST_TEXT, name, f"is longer than {LONGEST_TEXT} characters.")
    return str(value)


def _number(kind: type[int] | type[float], value: Any, name: str) -> int | float:
    try:
        number = kind(value) if not isinstance(value, bool) else None
        ok = number is not None and float(value) == number and math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        number, ok = None, False
    _check(ok, name, f"must be a number, found {quoted(value)}.")
    assert number is not None
    _check(abs(number) <= LARGEST, name, f"must lie in -{LARGEST:,}..{LARGEST:,}.")
    return number
