"""The recipe of synthesis: everything a run may choose about prompts, filter and judge, checked field by field.

In: a YAML file or the mapping a run stored. Out: one frozen `Recipe`. A stage's part of it enters the
content key of that stage, so that a changed judge threshold leaves queries and traces alone.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from synthesis.core.queries import AXES, THRESHOLDS
from trace_site.lib.recipe import build, read_file, require

LONGEST_RUBRIC = 2000
DEFAULT = Path(__file__).resolve().parent.parent / "recipes" / "default.yaml"


@dataclass(frozen=True)
class QueryStage:
    temperature: float = 0.9
    max_tokens: int = 1500
    per_call: int = 4
    few_shots: int = 4
    words: tuple[int, int] = (3, 60)

    def __post_init__(self) -> None:
        _sampling(self.temperature, self.max_tokens)
        require(1 <= self.per_call <= 20, "per_call", "must lie in 1..20.")
        require(0 <= self.few_shots <= 20, "few_shots", "must lie in 0..20.")
        _range(self.words)


@dataclass(frozen=True)
class TraceStage:
    temperature: float = 0.7
    max_tokens: int = 1200
    verbatim: bool = False
    permission_share: float = 0.1
    words: tuple[int, int] = (20, 400)

    def __post_init__(self) -> None:
        _sampling(self.temperature, self.max_tokens)
        require(0 <= self.permission_share <= 1, "permission_share", "must lie in 0..1.")
        _range(self.words)


@dataclass(frozen=True)
class JudgeStage:
    temperature: float = 0.0
    max_tokens: int = 600
    thresholds: Mapping[str, int] = field(default_factory=lambda: dict(THRESHOLDS))
    rubric: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(AXES, ""))

    def __post_init__(self) -> None:
        _sampling(self.temperature, self.max_tokens)
        for name in ("thresholds", "rubric"):
            found = getattr(self, name)
            exact = isinstance(found, Mapping) and set(found) == set(AXES)
            require(exact, name, f"needs exactly: {', '.join(AXES)}.")
        for axis, least in self.thresholds.items():
            ok = isinstance(least, int) and not isinstance(least, bool) and 1 <= least <= 5
            require(ok, f"thresholds.{axis}", "must be a whole number in 1..5.")
        for axis, words in self.rubric.items():
            ok = isinstance(words, str) and len(words) <= LONGEST_RUBRIC
            require(ok, f"rubric.{axis}", f"must be text of at most {LONGEST_RUBRIC:,} characters.")


@dataclass(frozen=True)
class Recipe:
    retries: int = 5
    query: QueryStage = field(default_factory=QueryStage)
    trace: TraceStage = field(default_factory=TraceStage)
    judge: JudgeStage = field(default_factory=JudgeStage)

    def __post_init__(self) -> None:
        require(0 <= self.retries <= 20, "retries", "must lie in 0..20.")

    def as_dict(self) -> dict[str, Any]:
        """As JSON stores it; `read_recipe` of it gives the equal recipe."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found


@cache
def default_recipe() -> Recipe:
    return load_recipe(DEFAULT)


def load_recipe(path: Path) -> Recipe:
    """The recipe of a YAML file. Raises TraceError naming the field."""
    return read_file(path, read_recipe)


def read_recipe(values: Mapping[str, Any]) -> Recipe:
    """A recipe from plain values; missing fields take their defaults, unknown ones are refused."""
    return build(Recipe, values)


def _sampling(temperature: float, max_tokens: int) -> None:
    require(0 <= temperature <= 2, "temperature", "must lie in 0..2.")
    require(16 <= max_tokens <= 100_000, "max_tokens", "must lie in 16..100,000.")


def _range(words: tuple[int, int]) -> None:
    ok = 1 <= words[0] <= words[1] <= 100_000
    require(ok, "words", "must be two whole numbers up to 100,000, the smaller first.")
