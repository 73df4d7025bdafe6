"""The recipe: everything a training run is allowed to choose, with where each default comes from and what it means.

In: a YAML file, or texts that a person typed. Out: one frozen `Recipe`, checked field by field, and for forms and
tables its `FIELDS`. Sources: [paper] = the paper's training appendix, [toolsense] = the recipe it builds on, [ours] =
measured or decided in this project, [library] = the library's own default.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from catalog.core.tokens import FORMATS
from trace_site.lib.errors import quoted
from trace_site.lib.files import content_hash
from trace_site.lib.recipe import build, read_file, require

POCKET = "pocket"
STAGES = {"stage1": "Stage 1", "plain": "Stage 2, plain", "stage2": "Stage 2"}  # in training order
MORE = 3  # times the epochs that a small set is passed over at most: more often it is learned by heart
MEMOS = ("m", "mr", "none")
RETRIEVALS = ("none", "n", "r", "r+R", "n>r")
PLAIN = ("n",)  # without traces
CELL = ("format", "memo", "retrieval", "base", "seed")  # chosen with cards and inputs of their own
GROUPS = {
    **STAGES,
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
Limit = tuple[Callable[[Any], bool], str]  # what is asked of a value, and what is said when it is not so
ANY: Limit = (lambda value: True, "")
SHARE: Limit = (lambda value: 0 <= value < 1, "must lie in 0..1.")
RATE: Limit = (lambda value: 0 < value < 1, "must lie in 0..1.")
ABOVE_0: Limit = (lambda value: value > 0, "must be above 0.")
COUNT: Limit = (lambda value: value >= 1, "must be at least 1.")
NOT_NEGATIVE: Limit = (lambda value: value >= 0, "must not be negative.")


def within(low: float, high: float) -> Limit:
    return (lambda value: low <= value <= high), f"must lie in {low}..{high}."


T = TypeVar("T")


def option(default: T, limit: Limit, about: str, group: str = "", choices: tuple[str, ...] = ()) -> T:
    """A field of a recipe. about: "[source] Label: one plain sentence"; group: of GROUPS, that of its part if empty."""
    found = re.fullmatch(r"\[(?P<source>\w+)\] (?P<label>.+?): (?P<help>.+)", about)
    assert found is not None, about
    told = {**found.groupdict(), "limit": limit, "group": group, "choices": choices}
    made: T = field(default=default, metadata=told)
    return made


class Checked:
    """Refuses a value that the option of its field does not allow."""

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]
            value, (allows, problem) = getattr(self, item.name), item.metadata.get("limit", ANY)
            require(allows(value), item.name, problem)
            if choices := item.metadata.get("choices"):
                require(value in choices, item.name, f"{quoted(value)} is not one of {', '.join(choices)}.")


@dataclass(frozen=True)
class Pocket(Checked):
    """The small embedded base: a sentence encoder, and rows for tools and clauses that it compares requests with."""

    encoder: str = option(
        "all-MiniLM-L6-v2",
        (bool, "must name an encoder."),
        "[ours] Encoder: the sentence encoder that reads requests, by name or folder",
    )
    bar: float = option(
        8.9,
        within(-20, 20),
        "[ours] Bar for rules: log-odds of clauses over a usual tool of no such rule, above which a clause decides",
    )
    untrained: float = option(
        2.5,
        within(-20, 20),
        "[ours] For new clauses: what is added to a clause that no training has seen, whose words alone lie less near",
    )


@dataclass(frozen=True)
class Lora(Checked):
    """Low-rank adapters on every linear layer of a named base model."""

    rank: int = option(64, COUNT, "[paper] LoRA rank: a named base only; pocket trains every weight")
    alpha: int = option(128, COUNT, "[paper] LoRA alpha: how strongly the adapters count; a named base only")
    dropout: float = option(0.0, SHARE, "[toolsense] LoRA dropout: share of the adapter's input dropped")


@dataclass(frozen=True)
class Stage(Checked):
    """How one stage is optimised."""

    # the paper: Stage 1 5e-5, Stage 2 1e-4
    lr: float = option(
        5e-5, RATE, "[paper] Peak learning rate: the highest rate; it then falls along a cosine"
    )
    encoder_lr: float = option(
        0.0, SHARE, "[ours] Encoder rate: pocket only: the own peak of the encoder; 0 = it stays as it is"
    )
    rows_lr: float = option(
        0.0, SHARE, "[ours] Row rate: pocket only: the peak of the rows of tools and clauses; 0 = they stay"
    )
    # the paper: Stage 1 8, Stage 2 16
    batch_size: int = option(8, COUNT, "[paper] Batch size: sequences in one optimiser step")
    micro_batch: int = option(
        0, ANY, "[ours] Micro batch: sequences at once, to save memory; 0 = the whole batch"
    )
    epochs: float = option(1.0, ABOVE_0, "[ours] Epochs: passes over the records")
    min_steps: int = option(
        0,
        NOT_NEGATIVE,
        "[ours] Fewest steps: a small set is passed over until here, at most three times the epochs; 0 = no more than "
        "these",
    )
    max_steps: int = option(
        0, NOT_NEGATIVE, "[ours] Most steps: 0 = all that the epochs have; else the cosine ends at this step"
    )
    max_seconds: float = option(
        0.0,
        NOT_NEGATIVE,
        "[ours] Time limit, s: 0 = none; else training stops there, unfinished; an equal run may stop at another step",
    )
    min_lr_ratio: float = option(
        0.1, within(0, 1), "[paper] Last learning rate: share of the peak at which the cosine ends"
    )
    warmup_ratio: float = option(0.03, SHARE, "[ours] Warm-up: share of the steps in which the rate rises")
    weight_decay: float = option(0.0, SHARE, "[ours] Weight decay: AdamW's pull to zero, on matrices only")
    betas: tuple[float, float] = option(
        (0.9, 0.999), ANY, "[library] AdamW betas: how long its two averages remember"
    )
    max_grad_norm: float = option(
        1.0, ABOVE_0, "[ours] Gradient clip: a longer gradient is cut to this length"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.micro_batch <= self.batch_size, "micro_batch", "must lie in 0..batch_size.")
        require(self.min_steps <= (self.max_steps or self.min_steps), "min_steps", "is above max_steps.")

    def steps(self, records: int) -> int:
        """Optimiser steps of the whole stage: a function of recipe and data, whatever machine trains it."""
        asked = self.epochs * math.ceil(records / self.batch_size)
        steps = max(1, round(asked), min(self.min_steps, round(MORE * asked)))
        return min(steps, self.max_steps or steps)


@dataclass(frozen=True)
class Recipe(Checked):
    """One cell of the grid (format, memo, retrieval), a base model and how to train it."""

    format: str = field(default="c", metadata={"choices": tuple(FORMATS)})  # the paper's
    memo: str = field(default="m", metadata={"choices": MEMOS})  # Stage 1
    retrieval: str = field(default="r+R", metadata={"choices": RETRIEVALS})  # Stage 2
    # or the name or path of a causal language model
    base: str = field(default=POCKET, metadata={"limit": (bool, "must name a model.")})
    seed: int = 0
    threads: int = option(
        2, COUNT, "[ours] CPU threads: set by the server (ML_THREADS), whatever stands here", "machine"
    )
    bf16: bool = option(
        True, ANY, "[paper] bf16 arithmetic: half the memory traffic; off: exact fp32", "machine"
    )
    max_seq_len: int = option(
        1024, ANY, "[ours] Longest record: tokens; longer records are left out and counted", "data"
    )
    max_prompt_tokens: int = option(
        512,
        (lambda value: value >= 8, "must be at least 8."),
        "[ours] Longest request: tokens; a longer request is cut",
        "data",
    )
    max_new_tokens: int = option(512, ANY, "[ours] Longest answer: tokens a decode may write", "data")
    embeddings: str = option(
        "full",
        ANY,
        "[paper] Embeddings: full: whole tables train; new_rows: tool tokens only",
        "weights",
        ("full", "new_rows"),
    )
    token_init: str = option(
        "description",
        ANY,
        "[ours] Token start: from the words a token stands for, or random (opaque)",
        "weights",
        ("description", "opaque"),
    )
    activation_checkpointing: bool = option(
        False, ANY, "[ours] Recompute activations: less memory, slower steps", "machine"
    )
    mcts_negatives: int = option(
        13, within(1, 50), "[ours] Hard negatives: look-alikes beside the right tool in a choice", "data"
    )
    # so that fast decoding is not out of distribution
    empty_thinking_share: float = option(
        0.0,
        within(0, 1),
        "[ours] Fast-mode share: share of the traced samples also trained without their trace; 0 in the paper",
        "data",
    )
    replay: float = option(
        0.0,
        within(0, 8),
        "[ours] Replay: pocket only: tool descriptions read as requests beside each sample of Stage 2, so that none is "
        "forgotten",
        "data",
    )
    checkpoint_seconds: float = option(
        60.0, ABOVE_0, "[ours] Checkpoint every, s: work that a kill may cost", "machine"
    )
    pocket: Pocket = field(default_factory=Pocket, metadata={"group": "pocket"})
    lora: Lora = field(default_factory=Lora, metadata={"group": "weights"})
    stage1: Stage = field(default_factory=Stage)
    plain: Stage = field(default_factory=lambda: Stage(lr=1e-4, batch_size=16))  # Stage 2 without traces
    stage2: Stage = field(default_factory=lambda: Stage(lr=1e-4, batch_size=16))  # with them

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.max_seq_len > self.max_prompt_tokens, "max_seq_len", "must exceed max_prompt_tokens.")

    @property
    def reasoning(self) -> bool:
        return self.retrieval in ("r", "r+R", "n>r")

    @property
    def with_rules(self) -> bool:
        return self.retrieval.endswith("R")

    def with_cell(self, **cell: Any) -> "Recipe":
        """The same recipe for another cell: format, memo, retrieval, base or seed."""
        return replace(self, **cell)

    def hash(self) -> str:
        return content_hash(asdict(self))

    def to_yaml(self) -> str:
        return yaml.safe_dump(asdict(self), sort_keys=False, allow_unicode=True)


def load(path: Path) -> Recipe:
    """Read a recipe; an unknown field or a wrong type is named."""
    return read_file(path, from_dict)


def from_dict(data: Any) -> Recipe:
    """Where `plain` is left out, the plain pass is trained as `stage2` says."""
    if isinstance(data, dict) and "stage2" in data:
        data = {**data, "plain": data.get("plain", data["stage2"])}
    return build(Recipe, data)


# fields of earlier versions, most of a pocket model that wrote and of its training
REMOVED = {
    "": ("plain_first", "decoder_from", "letters"),
    "pocket": (
        *("shape", "hidden", "token_dropout", "written_dropout", "lowercase", "tied", "copy_start"),
        *("fitted_start", "vocab", "layers", "heads", "intermediate", "dropout", "tool_weight", "sharpness"),
    ),
    **dict.fromkeys(STAGES, ("label_smoothing", "average_share", "writer_lr", "encoder_from", "keep")),
}


def stored(data: Mapping[str, Any]) -> Recipe:
    """A recipe that the database keeps; what an earlier version had and this one lacks is left out."""
    gone = {f"{part}.{name}".lstrip(".") for part, names in REMOVED.items() for name in names}
    return from_dict(nested({name: value for name, value in flat(data).items() if name not in gone}))


# A recipe as forms and tables show it: its fields by dotted names, and texts that were typed for them.


@dataclass(frozen=True, slots=True)
class RecipeField:
    name: str
    group: str
    label: str
    source: str
    help: str
    is_number: bool
    choices: tuple[str, ...]

    @property
    def from_whom(self) -> str:
        return SOURCES[self.source]


def _fields(part: Any, prefix: str = "", group: str = "") -> dict[str, RecipeField]:
    found: dict[str, RecipeField] = {}
    for item in fields(part):
        name, default, about = f"{prefix}{item.name}", getattr(part, item.name), item.metadata
        own = group or about.get("group") or item.name
        if isinstance(default, Checked):
            found |= _fields(default, f"{name}.", own)
        elif name not in CELL:
            choices = ("true", "false") if isinstance(default, bool) else about["choices"]
            told = (about["label"], about["source"], about["help"])
            found[name] = RecipeField(name, own, *told, not isinstance(default, str), choices)
    return found


FIELDS = _fields(Recipe())  # by dotted name, in the order of the form
OF_POCKET = {"pocket", "encoder_lr", "rows_lr", "replay"}  # a named base reads none of these
OF_NAMED = {"lora", "max_seq_len", "max_new_tokens", "embeddings", "empty_thinking_share"}


def flat(recipe: Recipe | Mapping[str, Any]) -> dict[str, Any]:
    """{dotted name: value} of a recipe, or of one as the database keeps it, in its order."""
    found: dict[str, Any] = {}
    for name, value in (asdict(recipe) if isinstance(recipe, Recipe) else recipe).items():
        own = isinstance(value, Mapping)
        found |= {f"{name}.{key}": each for key, each in value.items()} if own else {str(name): value}
    return found


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names back to the shape that `from_dict` reads."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        first, _, last = name.partition(".")
        if last and isinstance(part := found.setdefault(first, {}), dict):
            part[last] = value
        else:
            found[name] = value
    return found


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


def differing(
    one: Recipe | Mapping[str, Any], other: Recipe | Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """[(dotted name, one's value, the other's)] of the fields that differ between two recipes."""
    left, right = ({name: shown(value) for name, value in flat(each).items()} for each in (one, other))
    pairs = [(name, left.get(name, "not there"), right.get(name, "not there")) for name in left | right]
    return [(name, a, b) for name, a, b in pairs if a != b]
