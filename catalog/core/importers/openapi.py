"""OpenAPI 3.0 and 3.1 documents, JSON or YAML: one tool per operation.

API = title in CamelCase, plus V<n> where the document versions its API. Endpoint = operationId, or METHOD + path
in CamelCase. Description = summary + description as plain text. Permissions = OAuth scopes, else tags.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catalog.core.importers.documents import read_document
from catalog.core.tool import MAX_DESCRIPTION, MAX_VERSION, RowError, ToolRecord, parse_tool
from catalog.core.words import camel_case
from trace_site.lib.errors import TraceError

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
VERSION_SEGMENT = re.compile(r"(?:^|/)v(\d+)(?:/|$)", re.IGNORECASE)
LINE_MARKS = re.compile(r"^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+|\d+\.\s+)|^\s*(?:[-*_]\s*){3,}$", re.MULTILINE)
INLINE_MARKS = (
    (re.compile(r"```[^\n]*\n?|`+"), ""),
    (re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)"), r"\1"),
    (re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<!\w)([*_])(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
)


def read(path: Path, shown: str, max_errors: int | None) -> tuple[list[ToolRecord], list[RowError]]:
    """Every operation that makes a tool and every one that does not; places are JSON pointers."""
    document = read_document(path, shown)
    _check_kind(document, shown)
    api = api_name(document, shown)
    records: list[ToolRecord] = []
    errors: list[RowError] = []
    for pointer, method, route, operation in _operations(document, shown):
        where = f"{shown}#{pointer}"
        row: dict[str, Any] = {}
        try:
            row = _row(document, api, method, route, operation)
            records.append(parse_tool(row, where))
        except TraceError as error:
            errors.append(RowError(where, error.message, str(row.get("name", ""))))
            if max_errors is not None and len(errors) >= max_errors:
                break
    return records, errors


def _check_kind(document: Any, shown: str) -> None:
    if not isinstance(document, dict) or not ("openapi" in document or "swagger" in document):
        raise TraceError(
            "it has no 'openapi' field at the top.",
            code="bad_format",
            where=f"{shown}#/openapi",
            hint="Give an OpenAPI 3.0 or 3.1 document.",
        )
    version = str(document.get("openapi", document.get("swagger")))
    if not version.startswith(("3.0", "3.1")):
        raise TraceError(
            f"version {version} is not read here.",
            code="bad_format",
            where=f"{shown}#/{'openapi' if 'openapi' in document else 'swagger'}",
            hint="Convert the document to OpenAPI 3.0 or 3.1.",
        )
    if not isinstance(document.get("paths"), dict) or not document["paths"]:
        raise TraceError(
            "the document has no paths, so it holds no tools.", code="bad_format", where=f"{shown}#/paths"
        )


def api_name(document: dict[str, Any], shown: str) -> str:
    info = document.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    words = re.sub(r"(?i)(\s+(rest\s+)?api)+\s*$", "", title.strip()) if isinstance(title, str) else ""
    name = camel_case(words)
    if not name:
        raise TraceError("the title is missing.", code="bad_tool", where=f"{shown}#/info/title")
    version = api_version(document)
    return name if not version or re.search(r"V\d+$", name) else f"{name}V{version}"


def api_version(document: dict[str, Any]) -> str:
    """The whole number by which the vendor versions the API: the document's version when it is one,
    else the /v<n>/ that all paths, or the first server, share. A revision such as 16.1.0 is not an API version:
    it would rename every tool at each release."""
    stated = re.fullmatch(r"[vV]?(\d{1,4})", str(document["info"].get("version", "")).strip())
    if stated:
        return stated[1]
    found = {match[1] if (match := VERSION_SEGMENT.search(str(path))) else "" for path in document["paths"]}
    if len(found) == 1 and (only := found.pop()):
        return only
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else {}
    url = re.sub(r"^\w+://[^/]*", "", str(first.get("url", ""))) if isinstance(first, dict) else ""
    at_end = re.search(r"/v(\d{1,4})/?$", url, re.IGNORECASE)
    return at_end[1] if at_end else ""


def _operations(document: dict[str, Any], shown: str) -> Iterator[tuple[str, str, str, Any]]:
    for path, item in document["paths"].items():
        pointer = f"/paths/{_escape(str(path))}"
        item = _resolve(document, item, f"{shown}#{pointer}")
        if not isinstance(item, dict):
            raise TraceError("a path must hold an object.", code="bad_format", where=f"{shown}#{pointer}")
        for method in METHODS:
            if method in item:
                yield f"{pointer}/{method}", method, str(path), item[method]


def _resolve(document: dict[str, Any], item: Any, where: str) -> Any:
    """Follow one local $ref; other documents are never opened."""
    ref = item.get("$ref") if isinstance(item, dict) else None
    if ref is None:
        return item
    target: Any = document
    for part in str(ref).removeprefix("#/").split("/"):
        target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    if not str(ref).startswith("#/") or target is None:
        raise TraceError(
            f"the reference {ref!r} cannot be followed.",
            code="bad_format",
            where=where,
            hint="Bundle the document into one file.",
        )
    return target


def _row(document: dict[str, Any], api: str, method: str, route: str, operation: Any) -> dict[str, Any]:
    if not isinstance(operation, dict):
        raise TraceError("an operation must be an object.", code="bad_tool")
    endpoint = operation.get("operationId") or method.upper() + camel_case(route)
    if not isinstance(endpoint, str):
        raise TraceError(f"'operationId' must be text, not {type(endpoint).__name__}.", code="bad_tool")
    return {
        "name": f"{api}/{endpoint.strip()}",
        "description": describe(operation.get("summary"), operation.get("description")),
        "permissions": _permissions(document, operation),
        "deprecated": operation.get("deprecated"),
        "version": str(document["info"].get("version", ""))[:MAX_VERSION],
    }


def describe(summary: Any, description: Any) -> str:
    """Summary and description as one plain text; a summary that the description repeats is left out."""
    first, second = plain_text(summary), plain_text(description)
    if second.casefold().startswith(first.casefold().rstrip(".")):
        first = ""
    if first and second and first[-1] not in ".!?:":
        first += "."
    return f"{first} {second}".strip()[:MAX_DESCRIPTION]


def plain_text(value: Any) -> str:
    """Text without HTML tags and markdown marks, on one line."""
    text = str(value or "")[: 4 * MAX_DESCRIPTION]
    text = re.sub(r"<(?:script|style)\b.*?</(?:script|style)\s*>", " ", text, flags=re.DOTALL | re.IGNORECASE)
    text = html.unescape(re.sub(r"</?[A-Za-z][^<>]*>|<!--.*?-->", " ", text))
    text = LINE_MARKS.sub("", text)
    for pattern, replacement in INLINE_MARKS:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def _permissions(document: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    security = operation.get("security", document.get("security"))
    scopes = [
        str(scope)
        for requirement in (security if isinstance(security, list) else [])
        if isinstance(requirement, dict)
        for values in requirement.values()
        if isinstance(values, list)
        for scope in values
    ]
    tags = operation.get("tags")
    return list(dict.fromkeys(scopes or [str(tag) for tag in (tags if isinstance(tags, list) else [])]))


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
