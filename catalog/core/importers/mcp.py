"""The tool list of an MCP server: `tools/list`, its JSON-RPC answer, a plain array, or the Docker registry's form.

API = the server's name where the file gives it, else the name of the file. A tool that says nothing about itself is
described by its title or name.
"""

from collections.abc import Iterator
from typing import Any

from catalog.core.importers.detect import refusal
from catalog.core.importers.rows import Row
from catalog.core.importers.wording import describe, file_api_name, sentence
from catalog.core.importers.yaml_tree import Twice
from catalog.core.tool import MAX_PART
from catalog.core.words import camel_case


def read(document: Any, shown: str) -> Iterator[Row]:
    """Every tool of the list, with its JSON pointer."""
    tools, pointer, around = _find(document)
    api = _api_name(around, shown)
    for number, tool in enumerate(tools):
        yield _row(api, tool, f"{shown}#{pointer}/{number}")
    if around.get("nextCursor"):
        problem = "the server has more tools than this page; ask for the rest and put all into one list."
        yield Row(f"{shown}#{pointer.removesuffix('/tools')}/nextCursor", problem=problem)


def _find(document: Any) -> tuple[list[Any], str, dict[str, Any]]:
    """The list, its pointer and the object around it."""
    if isinstance(document, list):
        return document, "", {}
    if isinstance(result := document.get("result"), dict):
        return result["tools"], "/result/tools", result
    return document["tools"], "/tools", document


def _api_name(around: dict[str, Any], shown: str) -> str:
    server = around.get("serverInfo")
    stated = (server if isinstance(server, dict) else around).get("name")
    name = camel_case(stated) if isinstance(stated, str) else ""
    name = name if 0 < len(name) <= MAX_PART else file_api_name(shown)
    if not name:
        hint = "Name the file after the server, such as stripe.tools.json."
        raise refusal(shown, "neither the list nor the file name says which server this is.", hint)
    return name


def _row(api: str, tool: Any, where: str) -> Row:
    if not isinstance(tool, dict):
        return Row(where, problem="a tool must be an object.")
    name = tool.get("name")
    if not isinstance(name, str) or not name.strip():
        return Row(where, problem="'name' is missing.")
    name = f"{api}/{name.strip()}"
    if isinstance(tool, Twice) and any(key in ("name", "description") for key, _, _ in tool.earlier):
        return Row(where, problem="'name' or 'description' is written twice; leave one of them.", name=name)
    notes = tool.get("annotations")
    title = tool.get("title") or (notes.get("title") if isinstance(notes, dict) else None)
    text = tool.get("description")
    if text is not None and not isinstance(text, str):
        return Row(where, problem="'description' must be text.", name=name)
    words = describe(title, text) or f"{sentence(tool['name'])}."
    return Row(where, {"name": name, "description": words})
