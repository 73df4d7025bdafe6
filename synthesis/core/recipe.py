"""The recipe of synthesis: everything a run may choose about prompts, filter and judge, checked field by field.

In: a YAML file or the mapping a run stored. Out: one frozen `Recipe`. `part(stage)` is what enters the content key of
that stage, so that a changed judge threshold leaves queries and traces alone.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from synthesis.core.queries import AXES, THRESHOLDS
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_text
from trace_site.lib.small_yaml import read_small_yaml

LONGEST_RUBRIC = 2000
DEFAULT = Path(__file__).resolve().parent.parent / "recipes" / "default.yaml"


def _check(ok: bool, name: str, problem: str) -> None:
    if not ok:
        raise TraceError(problem, code="bad_recipe", where=f"recipe field '{name}'")


@dataclass(frozen=True)
class QueryStage:
    temperature: float = 0.9
    max_tokens: int = 1500
    per_call: int = 4
    few_shots: int = 4
    words: tuple[int, int] = (3, 60)

    def __post_init__(self) -> None:
        _sampling("query", self.temperature, self.max_tokens)
        _check(1 <= self.per_call <= 20, "query.per_call", "must lie in 1..20.")
        _check(0 <= self.few_shots <= 20, "query.few_shots", "must lie in 0..20.")
        _range("query.words", self.words)


@dataclass(frozen=True)
class TraceStage:
    temperature: float = 0.7
    max_tokens: int = 1200
    verbatim: bool = False
    permission_share: float = 0.1
    words: tuple[int, int] = (20, 400)

    def __post_init__(self) -> None:
        _sampling("trace", self.temperature, self.max_tokens)
        _check(0 <= self.permission_share <= 1, "trace.permission_share", "must lie in 0..1.")
        _range("trace.words", self.words)


@dataclass(frozen=True)
class JudgeStage:
    temperature: float = 0.0
    max_tokens: int = 600
    thresholds: Mapping[str, int] = field(default_factory=lambda: dict(THRESHOLDS))
    rubric: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(AXES, ""))

    def __post_init__(self) -> None:
        _sampling("judge", self.temperature, self.max_tokens)
        for name in ("thresholds", "rubric"):
            found = getattr(self, name)
            exact = isinstance(found, Mapping) and set(found) == set(AXES)
            _check(exact, f"judge.{name}", f"needs exactly: {', '.join(AXES)}.")
        for axis, least in self.thresholds.items():
            ok = isinstance(least, int) and not isinstance(least, bool) and 1 <= least <= 5
            _check(ok, f"judge.thresholds.{axis}", "must be a whole number in 1..5.")
        for axis, words in self.rubric.items():
            ok = isinstance(words, str) and len(words) <= LONGEST_RUBRIC
            _check(ok, f"judge.rubric.{axis}", f"must be text of at most {LONGEST_RUBRIC:,} characters.")


@dataclass(frozen=True)
class Recipe:
    retries: int = 5
    query: QueryStage = field(default_factory=QueryStage)
    trace: TraceStage = field(default_factory=TraceStage)
    judge: JudgeStage = field(default_factory=JudgeStage)

    def __post_init__(self) -> None:
        _check(0 <= self.retries <= 20, "retries", "must lie in 0..20.")

    def part(self, stage: str) -> dict[str, Any]:
        """What of the recipe makes the artefacts of one stage: `query`, `trace` or `judge`."""
        return _plain(asdict(getattr(self, stage)))

    def as_dict(self) -> dict[str, Any]:
        """As JSON stores it; `read_recipe` of it gives the equal recipe."""
        return _plain(asdict(self))


@cache
def default_recipe() -> Recipe:
    return load_recipe(DEFAULT)


def load_recipe(path: Path) -> Recipe:
    """The recipe of a YAML file. Raises TraceError naming the field."""
    found = read_small_yaml(read_text(path), path.name)
    _check(isinstance(found, dict), path.name, "must be a mapping of field names to values.")
    return read_recipe(found)


def read_recipe(values: Mapping[str, Any]) -> Recipe:
    """A recipe from plain values; missing fields take their defaults, unknown ones are refused."""
    recipe: Recipe = _read(Recipe, values, "")
    return recipe


def _read(kind: Any, values: Any, prefix: str) -> Any:
    _check(isinstance(values, Mapping), prefix.rstrip(".") or "recipe", "must be a mapping.")
    hints = get_type_hints(kind)
    known = {one.name for one in fields(kind)}
    for name in values:
        _check(name in known, f"{prefix}{name}", f"is not known. Known fields: {', '.join(sorted(known))}.")
    return kind(**{name: _value(hints[name], value, f"{prefix}{name}") for name, value in values.items()})


def _value(hint: Any, value: Any, name: str) -> Any:
    if hasattr(hint, "__dataclass_fields__"):
        return _read(hint, value, f"{name}.")
    if hint is bool:
        _check(isinstance(value, bool), name, "must be true or false.")
    elif hint in (int, float):
        number = isinstance(value, int if hint is int else (int, float)) and not isinstance(value, bool)
        _check(number, name, "must be a whole number." if hint is int else "must be a number.")
        _check(abs(value) < 2**53, name, "is too large.")
        return hint(value)
    elif isinstance(value, list):
        return tuple(value)
    return value


def _sampling(stage: str, temperature: float, max_tokens: int) -> None:
    _check(0 <= temperature <= 2, f"{stage}.temperature", "must lie in 0..2.")
    _check(16 <= max_tokens <= 100_000, f"{stage}.max_tokens", "must lie in 16..100,000.")


def _range(name: str, words: tuple[int, int]) -> None:
    two = isinstance(words, tuple) and len(words) == 2 and all(isinstance(one, int) for one in words)
    ok = two and 1 <= words[0] <= words[1] <= 100_000
    _check(ok, name, "must be two whole numbers up to 100,000, the smaller first.")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
