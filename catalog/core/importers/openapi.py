"""OpenAPI 3.0 to 3.2 and Swagger 2.0 documents: one tool per operation.

API = title in CamelCase, plus V<n> where the document versions its API. Endpoint = operationId, or METHOD + path
in CamelCase where there is none or another operation has it. Description = summary + description as plain text.
Permissions = OAuth scopes, else tags. Webhooks and callbacks are calls that the vendor makes: they are noted.
Every operation is found, or the row says why not. Local references are followed; other documents are never opened.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import unquote

from catalog.core.importers.documents import refusal
from catalog.core.importers.rows import (
    MADE,
    FileRow,
    describe,
    file_api_name,
    named,
    says_deprecated,
    sentence,
)
from catalog.core.tool import MAX_PART, MAX_VERSION
from catalog.core.words import camel_case
from trace_site.lib.errors import TraceError
from trace_site.lib.texts import Twice, mapping, pointer_step

Json = dict[str, Any]
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"}
OPERATION = {"operationId", "responses"}
ITEM_KEYS = {"$ref", "summary", "description", "servers", "parameters", "additionalOperations"}
PATH_MAPS = ("paths", "x-ms-paths")
USED_KEYS = ("operationId", "summary", "description", "tags", "security", "deprecated")
VERSION_SEGMENT = re.compile(r"(?:^|/)v(\d+)(?:/|$)", re.IGNORECASE)
KINDS = {list: "a list", dict: "an object", str: "a text", bool: "true or false"}
MAX_REFERENCES = 300  # that are followed from one place
MAX_NESTED = 50  # references on the way of a pointer that another one asked for


def read(document: Json, shown: str) -> Iterator[FileRow]:
    """Every operation of the document, with its JSON pointer."""
    _check(document, shown)
    webhooks = mapping(document.get("webhooks", document.get("x-webhooks")))
    if webhooks:
        note = f"{len(webhooks)} webhooks: the vendor calls them, so they are no tools."
        yield FileRow(f"{shown}#/webhooks", note=note)
    yield from named(api_name(document, shown), _operations(document, shown))


def _broken(ref: Any) -> TraceError:
    """A reference that leads nowhere, to another file, or in a circle."""
    shown = ref[:200] if isinstance(ref, str) else "$ref"
    message = f"the reference '{shown}' cannot be followed; bundle the document into one file."
    return TraceError(message, code="bad_format")


def _layers(document: Json, value: Any, followed: list[str] | None = None, depth: int = 0) -> Iterator[Any]:
    """A value and, where it is a reference, what each reference of its chain points to; a reference may have keys
    beside it. Raises TraceError. Other documents are never opened.
    """
    followed = [] if followed is None else followed
    met = [value]
    yield value
    while isinstance(value, dict) and "$ref" in value:
        ref = value["$ref"]
        if not isinstance(ref, str) or depth > MAX_NESTED or len(followed) >= MAX_REFERENCES:
            raise _broken(ref)
        followed.append(ref)
        met.append(_target(document, ref, followed, depth))
        if any(met[-1] is one for one in met[:-1]):
            raise _broken(ref)
        yield (value := met[-1])


def _target(document: Json, ref: str, followed: list[str], depth: int) -> Any:
    """What a JSON pointer in a URI leads to (RFC 6901), through references on its way; keys that were written without
    percent encoding are found as well."""
    pointer = unquote(ref.removeprefix("#")) if ref.startswith("#%2F") else ref.removeprefix("#")
    steps = pointer.split("/")
    if ref.startswith("#") and len(steps) > 1 and not steps[0]:
        for path in ([unquote(step) for step in steps], unquote(pointer).split("/"), steps):
            value: Any = document
            for step in path[1:]:
                key = step.replace("~1", "/").replace("~0", "~")
                layers = _layers(document, value, followed, depth + 1)
                value = next((found for one in layers if (found := _child(one, key)) is not None), None)
            if value is not None:
                return value
    raise _broken(ref)


def _child(value: Any, key: str) -> Any:
    if isinstance(value, list):
        return value[int(key)] if re.fullmatch(r"[0-9]{1,6}", key) and int(key) < len(value) else None
    return value.get(key) if isinstance(value, dict) else None


def _followed(document: Json, value: Any) -> Any:
    """A value, or what its references lead to in the end; an object without them where they lead nowhere."""
    with suppress(TraceError):
        *_, value = _layers(document, value)
    return value


def _resolved(document: Json, value: Any) -> Json:
    return mapping(_followed(document, value))


def _check(document: Json, shown: str) -> None:
    key = "openapi" if "openapi" in document else "swagger"
    version = str(document[key])
    if not re.match(r"3\.[012](\.|$)" if key == "openapi" else r"2(\.0)?$", version):
        hint = "Convert the document to OpenAPI 3.0 or 3.1."
        raise refusal(f"{shown}#/{key}", f"version {version[:40]} is not read here.", hint)
    for lost, _, line in document.earlier if isinstance(document, Twice) else ():
        if lost in PATH_MAPS:
            message = f"the key '{lost}' is written twice{_at(line)}."
            raise refusal(f"{shown}#/{lost}", message, "Put all paths under one.")
    for key in PATH_MAPS:
        if elsewhere := _resolved(document, document.get(key)).get("$ref"):
            hint = "Bundle the document into one file."
            raise refusal(f"{shown}#/{key}", f"the paths are in another file ({str(elsewhere)[:200]}).", hint)
    if not any(_resolved(document, document.get(key)) for key in PATH_MAPS):
        only = "describes webhooks only, which the vendor calls" if "webhooks" in document else "has no paths"
        hint = "Import the document that lists the paths."
        raise refusal(f"{shown}#/paths", f"the document {only}, so it holds no tools.", hint)


def api_name(document: Json, shown: str) -> str:
    """By the title, else by the file; raises TraceError when neither says one."""
    title = _text(document, _resolved(document, document.get("info")).get("title"))
    words = re.sub(r"(?i)(\s+(rest\s+)?api)+\s*$", "", title[:1000].strip())
    name = camel_case(words)
    if not name or len(name) > MAX_PART - 10:
        name = file_api_name(shown)
    if not name:
        hint = "Write one into the document, or name the file after the API."
        raise refusal(f"{shown}#/info/title", "the title is missing.", hint)
    version = api_version(document)
    return name if not version or re.search(r"V\d+$", name) else f"{name}V{version}"


def api_version(document: Json) -> str:
    """The whole number by which the vendor versions the API: the document's version when it is one,
    else the /v<n>/ that all paths, or the first server, share. A revision such as 16.1.0 is not an API version:
    it would rename every tool at each release."""
    if stated := re.fullmatch(r"[vV]?([0-9]{1,4})", _version(document).strip()):
        return stated[1]
    paths = [path for path in _resolved(document, document.get("paths")) if not path.startswith("x-")]
    found = {match[1] if (match := VERSION_SEGMENT.search(path)) else "" for path in paths}
    if len(found) == 1 and (only := found.pop()):
        return only
    servers = document.get("servers")
    url = mapping(servers[0]).get("url") if isinstance(servers, list) and servers else ""
    url = url or document.get("basePath")
    path = re.sub(r"^\w+://[^/]*", "", url) if isinstance(url, str) else ""
    at_end = re.search(r"/v([0-9]{1,4})/?$", path, re.IGNORECASE)
    return at_end[1] if at_end else ""


def _version(document: Json) -> str:
    return _text(document, _resolved(document, document.get("info")).get("version"))


def _text(document: Json, value: Any) -> str:
    """A text, also where a reference leads to it; anything else is none."""
    value = _followed(document, value)
    return value if isinstance(value, str) else ""


def _operations(document: Json, shown: str) -> Iterator[FileRow]:
    yield from _lost_texts(document, _resolved(document, document.get("info")), f"{shown}#/info")
    used: list[Any] = []
    for key in PATH_MAPS:
        for path, item, line in _entries(_resolved(document, document.get(key))):
            if not path.startswith(("x-", "$")):
                yield from _path_operations(
                    document, path, item, f"{shown}#/{key}/{pointer_step(path)}", line, used
                )
    reached = {id(item) for item in used}
    items = _resolved(document, _resolved(document, document.get("components")).get("pathItems"))
    for name, item in items.items():
        if id(item) not in reached and METHODS & mapping(item).keys():
            where = f"{shown}#/components/pathItems/{pointer_step(name)}"
            yield FileRow(where, note="no path leads to it, so it is no tool.")


def _entries(values: Json) -> Iterator[tuple[str, Any, int | None]]:
    """Keys with values; a value that another of the same key replaced comes too, with the line of that one."""
    yield from ((key, value, None) for key, value in values.items())
    if isinstance(values, Twice):
        yield from values.earlier


def _path_operations(
    document: Json, path: str, item: Any, where: str, doubled: int | None, used: list[Any]
) -> Iterator[FileRow]:
    held: Json = {}  # what all layers of the item say; the keys beside a reference win
    try:
        for part in _layers(document, item):
            used.append(part)
            if isinstance(part, dict):
                beside, held = held, {**part, **held}
                yield from _lost_texts(document, part, where)
                for method, fields, line in _methods(document, part):
                    at, line = f"{where}/{pointer_step(method)}", doubled if line is None else line
                    if method in beside:
                        note = "left out: the path has an operation of its own beside the reference."
                        yield FileRow(at, note=note)
                    elif line is None:
                        yield from _operation(document, at, method, path, fields, held)
                    else:
                        problem = f"written twice{_at(line)}; only the last one of a key would count."
                        yield FileRow(at, problem=problem)
            elif part is not None:
                problem = f"a path must hold an object, not {KINDS.get(type(part), 'nothing')}."
                yield FileRow(where, problem=problem)
    except TraceError as error:
        yield FileRow(where, problem=error.message)


def _methods(document: Json, item: Json) -> Iterator[tuple[str, Any, int | None]]:
    for key, value, line in _entries(item):
        if key not in ITEM_KEYS and (not key.startswith("x-") or key.endswith("-method")):
            yield key, value, line
    for key, value, line in _entries(_resolved(document, item.get("additionalOperations"))):
        yield f"additionalOperations/{key}", value, line


def _operation(
    document: Json, where: str, method: str, path: str, fields: Any, item: Json
) -> Iterator[FileRow]:
    try:
        layers = list(_layers(document, fields))
    except TraceError as error:
        yield FileRow(where, problem=error.message)
        return
    fields, word = layers[-1], method.rpartition("/")[2]
    if method == word and word.lower() not in METHODS and not OPERATION & mapping(fields).keys():
        yield FileRow(where, note=f"left out: '{method[:60]}' is no method of HTTP.")
        return
    if not isinstance(fields, dict):
        problem = f"an operation must be an object, not {KINDS.get(type(fields), 'nothing')}."
        yield FileRow(where, problem=problem)
        return
    for key, _, line in fields.earlier if isinstance(fields, Twice) else ():
        if key in USED_KEYS:
            yield FileRow(where, problem=f"the key '{key}' is written twice{_at(line)}; leave one of them.")
            return
    for beside in reversed(layers[:-1]):  # keys beside a reference win over what it points to
        fields = {**fields, **{key: beside[key] for key in USED_KEYS if key in beside}}
    own_id = " ".join(_text(document, fields.get("operationId")).split())
    call = f"{word.upper()} {path}"
    endpoints = [name for name in (own_id, word.upper() + camel_case(path), call) if name]
    tell = partial(_fields, document, fields, item, own_id, call)
    yield FileRow(where, endpoints=endpoints, tell=tell, left=_parameter_texts(document, fields, item))
    yield from _lost_texts(document, fields, where)
    if calls := mapping(fields.get("callbacks")):
        note = f"{len(calls)} callbacks: the vendor calls them, so they are no tools."
        yield FileRow(f"{where}/callbacks", note=note)


def _fields(document: Json, fields: Json, item: Json, own_id: str, call: str) -> Json:
    texts = [_text(document, fields.get(key)) for key in ("summary", "description")]
    about = describe(*texts)
    about = about or describe(*(_text(document, item.get(key)) for key in ("summary", "description")))
    made = not about
    if made:  # `Close room (DELETE /v2/rooms/{room_id}).`
        method, _, path = call.partition(" ")
        steps = [step for step in re.split(r"[/?&#]", path) if step]
        words = " ".join(f"by {sentence(step)}" if "{" in step else sentence(step) for step in steps).lower()
        about = f"{sentence(own_id) or f'{method.capitalize()} {words}'.strip()} ({call})."
    flag = _followed(document, fields.get("deprecated"))
    flag = {"true": True, "false": False}.get(flag.lower()) if isinstance(flag, str) else flag
    required = _listed(document, fields.get("security", document.get("security")))
    lists = [_listed(document, values) for one in required for values in mapping(one).values()]
    scopes = [scope for values in lists for scope in values if isinstance(scope, str)]
    tags = [tag for tag in _listed(document, fields.get("tags")) if isinstance(tag, str)]
    return {
        "description": about,
        "permissions": list(dict.fromkeys(filter(None, scopes or tags))),
        "deprecated": flag if isinstance(flag, bool) else says_deprecated(*texts),
        "version": _version(document)[:MAX_VERSION],
        "source": MADE if made else "",
    }


def _listed(document: Json, value: Any) -> list[Any]:
    """The entries of a list, or the one value that stands in its place, with their references followed."""
    value = _followed(document, value)
    return [_followed(document, one) for one in (value if isinstance(value, list) else [value])]


def _parameter_texts(document: Json, fields: Json, item: Json) -> int:
    """How many parameters and bodies have a text of their own, or stand in another file."""
    found = [*_listed(document, item.get("parameters")), *_listed(document, fields.get("parameters"))]
    found.append(_followed(document, fields.get("requestBody")))
    return sum(bool(mapping(one).keys() & {"description", "$ref"}) for one in found)


def _lost_texts(document: Json, fields: Json, where: str) -> Iterator[FileRow]:
    """A note for each field that should be a text and is none."""
    for key in ("title", "operationId", "summary", "description"):
        value = _followed(document, fields.get(key))
        if isinstance(value, dict) and "$ref" in value:
            ref = str(value["$ref"])[:200]
            note = f"left out: the reference '{ref}' cannot be followed; write its text here."
            yield FileRow(f"{where}/{key}", note=note)
        elif value is not None and not isinstance(value, str):
            yield FileRow(f"{where}/{key}", note=f"left out: {KINDS.get(type(value), 'this')} is no text.")


def _at(line: int) -> str:
    return f" (line {line})" if line else ""
