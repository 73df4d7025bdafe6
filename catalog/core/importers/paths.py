"""The operations of an OpenAPI or Swagger document: every one is found, or the row says why not.

Local references are followed; other documents are never opened.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from catalog.core.importers.rows import Row
from catalog.core.importers.wording import pointer_part, sentence
from catalog.core.importers.yaml_tree import Twice
from catalog.core.words import camel_case

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
ITEM_KEYS = {"$ref", "summary", "description", "servers", "parameters", "additionalOperations"}
PATH_MAPS = ("paths", "x-ms-paths")
USED_KEYS = ("operationId", "summary", "description", "tags", "security", "deprecated")


@dataclass(frozen=True, slots=True)
class Operation:
    where: str
    method: str
    path: str
    fields: dict[str, Any]
    item: dict[str, Any]

    @property
    def raw_id(self) -> str:
        """The operationId as the vendor wrote it, its white space tidied; empty when there is none."""
        value = self.fields.get("operationId")
        return " ".join(value.split()) if isinstance(value, str) else ""

    def endpoints(self) -> list[str]:
        """What the tool may be called, best first."""
        by_path = self.method.upper() + camel_case(self.path)
        exact = f"{self.method.upper()} {self.path}"
        return [endpoint for endpoint in (self.raw_id, by_path, exact) if endpoint]

    def words(self) -> str:
        """`Close room (DELETE /v2/rooms/{room_id}).` for an operation that says nothing about itself."""
        steps = [step for step in re.split(r"[/?&#]", self.path) if step]
        words = " ".join(f"by {sentence(step)}" if "{" in step else sentence(step) for step in steps).lower()
        title = sentence(self.raw_id) or f"{self.method.capitalize()} {words}".strip()
        return f"{title} ({self.method.upper()} {self.path})."


def operations(document: dict[str, Any], shown: str) -> Iterator[Operation | Row]:
    for key in PATH_MAPS:
        paths = document.get(key)
        for path, item, line in _entries(paths if isinstance(paths, dict) else {}):
            if not path.startswith("x-"):
                where = f"{shown}#/{key}/{pointer_part(path)}"
                yield from _path_operations(document, path, item, where, line)


def _entries(values: dict[str, Any]) -> Iterator[tuple[str, Any, int | None]]:
    """Keys with values; a value that another of the same key replaced comes too, with the line of that one."""
    yield from ((key, value, None) for key, value in values.items())
    if isinstance(values, Twice):
        yield from values.earlier


def _path_operations(
    document: dict[str, Any], path: str, item: Any, where: str, doubled: int | None
) -> Iterator[Operation | Row]:
    items = [item]
    if isinstance(item, dict) and "$ref" in item:
        target = _target(document, item)
        if target is None:
            yield _unfollowed(item, where)
        else:
            items.append(target)
    for part in items:
        if part is None:
            continue
        if not isinstance(part, dict):
            yield Row(where, problem=f"a path must hold an object, not {_kind(part)}.")
            continue
        for method, fields, line in _methods(part):
            at = f"{where}/{pointer_part(method)}"
            line = doubled if line is None else line
            if line is not None:
                yield Row(
                    at, problem=f"written twice{at_line(line)}; only the last one of a key would count."
                )
            else:
                yield _operation(document, at, method.rpartition("/")[2], path, fields, part)


def _methods(item: dict[str, Any]) -> Iterator[tuple[str, Any, int | None]]:
    for key, value, line in _entries(item):
        if key.lower() in METHODS or _looks_like_operation(key, value):
            yield key, value, line
    more = item.get("additionalOperations")
    for key, value, line in _entries(more if isinstance(more, dict) else {}):
        yield f"additionalOperations/{key}", value, line


def _looks_like_operation(key: str, value: Any) -> bool:
    """A method that no specification names is still an operation of the file."""
    known = key in ITEM_KEYS or (key.startswith("x-") and not key.endswith("-method"))
    return not known and isinstance(value, dict) and bool(value.keys() & {"operationId", "responses"})


def _operation(
    document: dict[str, Any], where: str, method: str, path: str, fields: Any, item: dict[str, Any]
) -> Operation | Row:
    if isinstance(fields, dict) and "$ref" in fields:
        target = _target(document, fields)
        if not isinstance(target, dict):
            return _unfollowed(fields, where)
        fields = target
    if not isinstance(fields, dict):
        return Row(where, problem=f"an operation must be an object, not {_kind(fields)}.")
    if isinstance(fields, Twice):
        for key, _, line in fields.earlier:
            if key in USED_KEYS:
                return Row(
                    where, problem=f"the key '{key}' is written twice{at_line(line)}; leave one of them."
                )
    return Operation(where, method, path, fields, item)


def _target(document: dict[str, Any], item: dict[str, Any]) -> Any:
    """What a local $ref points to; None for anything else: other documents are never opened."""
    ref = item.get("$ref")
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return None
    target: Any = document
    for part in ref[2:].split("/"):
        target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return target


def _unfollowed(item: dict[str, Any], where: str) -> Row:
    ref = str(item["$ref"])[:200] if isinstance(item["$ref"], str) else "$ref"
    return Row(where, problem=f"the reference '{ref}' cannot be followed; bundle the document into one file.")


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", bool: "true or false"}.get(type(value), "nothing")


def at_line(line: int) -> str:
    return f" (line {line})" if line else ""
