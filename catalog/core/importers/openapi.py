"""OpenAPI 3.0 to 3.2 and Swagger 2.0 documents: one tool per operation.

API = title in CamelCase, plus V<n> where the document versions its API. Endpoint = operationId, or METHOD + path
in CamelCase where there is none or another operation has it. Description = summary + description as plain text.
Permissions = OAuth scopes, else tags. Webhooks and callbacks are calls that the vendor makes: they are noted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from catalog.core.importers.detect import refusal
from catalog.core.importers.rows import Row, unique_names
from catalog.core.importers.wording import describe, file_api_name, pointer_part, says_deprecated, sentence
from catalog.core.importers.yaml_tree import Twice
from catalog.core.tool import MAX_PART, MAX_VERSION
from catalog.core.words import camel_case

# The operations of an OpenAPI or Swagger document: every one is found, or the row says why not.
#
# Local references are followed; other documents are never opened.


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


VERSION_SEGMENT = re.compile(r"(?:^|/)v(\d+)(?:/|$)", re.IGNORECASE)


def read(document: dict[str, Any], shown: str) -> Iterator[Row]:
    """Every operation of the document, with its JSON pointer."""
    _check(document, shown)
    api = api_name(document, shown)
    found: list[Operation] = []
    for entry in operations(document, shown):
        if isinstance(entry, Row):
            yield entry
        else:
            found.append(entry)
    for operation, endpoint in zip(found, unique_names([one.endpoints() for one in found]), strict=True):
        yield _row(document, operation, f"{api}/{endpoint}")
    yield from _notes(document, found, shown)


def _check(document: dict[str, Any], shown: str) -> None:
    key = "openapi" if "openapi" in document else "swagger"
    version = str(document[key])
    if not re.match(r"3\.[012](\.|$)" if key == "openapi" else r"2(\.0)?$", version):
        hint = "Convert the document to OpenAPI 3.0 or 3.1."
        raise refusal(f"{shown}#/{key}", f"version {version[:40]} is not read here.", hint)
    if isinstance(document, Twice):
        for lost, _, line in document.earlier:
            if lost in PATH_MAPS:
                message = f"the key '{lost}' is written twice{at_line(line)}."
                raise refusal(f"{shown}#/{lost}", message, "Put all paths under one.")
    paths = document.get("paths")
    if isinstance(paths, dict) and isinstance(paths.get("$ref"), str):
        hint = "Bundle the document into one file."
        raise refusal(f"{shown}#/paths", f"the paths are in another file ({paths['$ref'][:200]}).", hint)
    if not any(isinstance(document.get(key), dict) and document[key] for key in PATH_MAPS):
        only = "describes webhooks only, which the vendor calls" if "webhooks" in document else "has no paths"
        hint = "Import the document that lists the paths."
        raise refusal(f"{shown}#/paths", f"the document {only}, so it holds no tools.", hint)


def api_name(document: dict[str, Any], shown: str) -> str:
    """By the title, else by the file; raises TraceError when neither says one."""
    info = document.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    words = re.sub(r"(?i)(\s+(rest\s+)?api)+\s*$", "", title[:1000].strip()) if isinstance(title, str) else ""
    name = camel_case(words)
    if not name or len(name) > MAX_PART - 10:
        name = file_api_name(shown)
    if not name:
        hint = "Write one into the document, or name the file after the API."
        raise refusal(f"{shown}#/info/title", "the title is missing.", hint)
    version = api_version(document)
    return name if not version or re.search(r"V\d+$", name) else f"{name}V{version}"


def api_version(document: dict[str, Any]) -> str:
    """The whole number by which the vendor versions the API: the document's version when it is one,
    else the /v<n>/ that all paths, or the first server, share. A revision such as 16.1.0 is not an API version:
    it would rename every tool at each release."""
    stated = re.fullmatch(r"[vV]?([0-9]{1,4})", _version(document).strip())
    if stated:
        return stated[1]
    paths = document.get("paths")
    found = {
        match[1] if (match := VERSION_SEGMENT.search(path)) else ""
        for path in (paths if isinstance(paths, dict) else {})
        if not path.startswith("x-")
    }
    if len(found) == 1 and (only := found.pop()):
        return only
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else {}
    url = first.get("url") if isinstance(first, dict) else ""
    url = url or document.get("basePath")
    path = re.sub(r"^\w+://[^/]*", "", url) if isinstance(url, str) else ""
    at_end = re.search(r"/v([0-9]{1,4})/?$", path, re.IGNORECASE)
    return at_end[1] if at_end else ""


def _version(document: dict[str, Any]) -> str:
    info = document.get("info")
    version = info.get("version") if isinstance(info, dict) else ""
    return version if isinstance(version, str) else ""


def _row(document: dict[str, Any], operation: Operation, name: str) -> Row:
    fields = operation.fields
    texts = fields.get("summary"), fields.get("description")
    item_texts = operation.item.get("summary"), operation.item.get("description")
    flag = fields.get("deprecated")
    flag = {"true": True, "false": False}.get(flag.lower()) if isinstance(flag, str) else flag
    return Row(
        operation.where,
        {
            "name": name,
            "description": describe(*texts) or describe(*item_texts) or operation.words(),
            "permissions": _permissions(document, fields),
            "deprecated": flag if isinstance(flag, bool) else says_deprecated(*texts),
            "version": _version(document)[:MAX_VERSION],
        },
    )


def _permissions(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    security = operation.get("security", document.get("security"))
    scopes = [
        scope
        for requirement in (security if isinstance(security, list) else [])
        if isinstance(requirement, dict)
        for values in requirement.values()
        if isinstance(values, list)
        for scope in values
        if isinstance(scope, str)
    ]
    tags = operation.get("tags")
    tags = tags if isinstance(tags, list) else [tags]
    return list(dict.fromkeys(scopes or [tag for tag in tags if isinstance(tag, str)]))


def _notes(document: dict[str, Any], found: list[Operation], shown: str) -> Iterator[Row]:
    webhooks = document.get("webhooks", document.get("x-webhooks"))
    if isinstance(webhooks, dict) and webhooks:
        yield Row(
            f"{shown}#/webhooks",
            note=f"{len(webhooks)} webhooks: the vendor calls them, so they are no tools.",
        )
    for operation in found:
        if isinstance(calls := operation.fields.get("callbacks"), dict) and calls:
            note = f"{len(calls)} callbacks: the vendor calls them, so they are no tools."
            yield Row(f"{operation.where}/callbacks", note=note)
