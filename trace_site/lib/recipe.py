"""A recipe: a frozen dataclass, perhaps of others, read from what somebody typed, sent or stored.

In: a mapping, or a YAML file that holds one. Out: the dataclass. What is unknown or of a wrong kind is refused by the
name of its field; which values are allowed the dataclass says itself, in `__post_init__`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from trace_site.lib.errors import TraceError, quoted
from trace_site.lib.files import read_text
from trace_site.lib.small_yaml import read_small_yaml

LONGEST_TEXT = 300
LARGEST = 2**53  # of any number: what every reader of JSON keeps exactly
R = TypeVar("R")


def require(ok: bool, name: str, problem: str) -> None:
    if not ok:
        raise TraceError(problem, code="bad_recipe", where=f"recipe field '{name}'")


def read_file(path: Path, read: Callable[[Any], R]) -> R:
    """What `read` makes of a YAML file; a refusal names the file too."""
    data = read_small_yaml(read_text(path), str(path))
    try:
        return read(data)
    except TraceError as error:
        where = f"{path}: {error.where}"
        raise TraceError(error.message, code=error.code, where=where, hint=error.hint) from error


def build(kind: type[R], data: Any, prefix: str = "") -> R:
    """What is missing has its default. prefix: of the names of its fields."""
    own = prefix.rstrip(".") or "(whole file)"
    require(isinstance(data, Mapping), own, "must be a mapping of fields to values.")
    default = kind()
    known = [item.name for item in fields(default)]  # type: ignore[arg-type]
    for key in data:
        require(key in known, f"{prefix}{key}", f"is unknown; the fields are {', '.join(known)}.")
    values = {key: _value(getattr(default, key), value, f"{prefix}{key}") for key, value in data.items()}
    try:
        return kind(**values)
    except TraceError as error:
        where = error.where.replace("field '", f"field '{prefix}")
        raise TraceError(error.message, code=error.code, where=where) from error


def _value(default: Any, value: Any, name: str) -> Any:
    """A value of the kind of its default; texts of numbers count as numbers, and mappings are left as they are."""
    if is_dataclass(default):
        return build(type(default), value, f"{name}.")
    if isinstance(default, Mapping):
        return value
    if isinstance(default, bool):
        truth = {"true": True, "false": False}.get(str(value).strip().lower())
        require(truth is not None, name, "must be true or false.")
        return truth
    if isinstance(default, (int, float)):
        return _number(type(default), value, name)
    if isinstance(default, tuple):
        items = value.split(",") if isinstance(value, str) else value
        several = isinstance(items, (list, tuple)) and len(items) == len(default)
        require(several, name, f"must be {len(default)} numbers.")
        return tuple(_number(type(one), item, name) for one, item in zip(default, items, strict=True))
    text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    require(text, name, f"must be text, found {quoted(value)}.")
    require(len(str(value)) <= LONGEST_TEXT, name, f"is longer than {LONGEST_TEXT} characters.")
    return str(value)


def _number(kind: type[int] | type[float], value: Any, name: str) -> int | float:
    try:
        number = kind(value) if not isinstance(value, bool) else None
        ok = number is not None and float(value) == number and math.isfinite(number)
    except (TypeError, ValueError, OverflowError):
        number, ok = None, False
    require(ok, name, f"must be a {'whole ' if kind is int else ''}number, found {quoted(value)}.")
    assert number is not None
    require(abs(number) <= LARGEST, name, f"must lie in -{LARGEST:,}..{LARGEST:,}.")
    return number
