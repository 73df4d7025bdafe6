"""Lists of tools: what an MCP server answers to `tools/list`, a page or all of them, alone or in JSON-RPC, the Docker
registry's form, and the tools of a request to a language model (OpenAI, Anthropic, Gemini, Bedrock).

API = the server's name where the file gives it, else the name of the file.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from catalog.core.importers.documents import refusal
from catalog.core.importers.rows import MADE, FileRow, describe, file_api_name, sentence
from catalog.core.tool import MAX_PART
from catalog.core.words import camel_case
from trace_site.lib.texts import Twice

AROUND = ("result", "toolConfig")
LISTS = ("tools", "functions", "functionDeclarations", "function_declarations")
WRAPPED = ("function", "toolSpec")
MAX_DEPTH = 3  # pages in a list, with lists in their tools


class ToolList(NamedTuple):
    """A list of tools, the object that holds it, and its pointer within what was looked at."""

    tools: list[Any]
    around: dict[str, Any]
    pointer: str


def tool_list(value: Any) -> ToolList | None:
    """The tools that a list, a page or a request holds; None for a tool and for anything else."""
    if isinstance(value, list):
        return ToolList(value, {}, "")
    pointer = ""
    for key in AROUND:
        if isinstance(value, dict) and isinstance(value.get(key), dict):
            value, pointer = value[key], f"{pointer}/{key}"
    if not isinstance(value, dict):
        return None
    key = next((key for key in LISTS if isinstance(value.get(key), list)), "")
    return ToolList(value[key], value, f"{pointer}/{key}") if key else None


def holds_tools(value: Any) -> bool:
    """Whether a document, or the first entry of a list, is such a list or a tool inside a wrapping."""
    listed = isinstance(value, list)
    first = value[0] if listed and value else value
    if not isinstance(first, dict) or first.keys() & (
        {"name", "query"} if listed else {"openapi", "swagger"}
    ):
        return False
    return tool_list(first) is not None or (
        listed and any(isinstance(first.get(key), dict) for key in WRAPPED)
    )


def read(document: Any, shown: str) -> Iterator[FileRow]:
    """Every tool, with its JSON pointer; a last page that is not the end is an error."""
    goes_on: list[str] = []
    yield from _rows(_api_name(document, shown), document, f"{shown}#", goes_on)
    problem = "the server has more tools than this page; ask for the rest and put all into one list."
    yield from (FileRow(where, problem=problem) for where in goes_on)


def _api_name(document: Any, shown: str) -> str:
    """The server's name, or that of the file; raises TraceError where neither says one."""
    first = document[0] if isinstance(document, list) and document and tool_list(document[0]) else document
    found = tool_list(first)
    around = found.around if found else {}
    server = around.get("serverInfo")
    stated = (server if isinstance(server, dict) else around).get("name")
    api = camel_case(stated) if isinstance(stated, str) else ""
    api = api if 0 < len(api) <= MAX_PART else file_api_name(shown)
    if not api:
        hint = "Name the file after the server, such as stripe.tools.json."
        raise refusal(shown, "neither the list nor the file name says which server this is.", hint)
    return api


def _rows(api: str, value: Any, where: str, goes_on: list[str], depth: int = 0) -> Iterator[FileRow]:
    """Every tool; `goes_on` ends up with the place where the last page says that more follow."""
    named = depth and isinstance(value, dict) and "name" in value
    found = tool_list(value) if depth < MAX_DEPTH and not named else None
    if found is None:
        yield _row(api, value, where)
        return
    for number, tool in enumerate(found.tools):
        yield from _rows(api, tool, f"{where}{found.pointer}/{number}", goes_on, depth + 1)
    if found.around:  # of several pages, the last one tells
        cursor = f"{where}{found.pointer.rpartition('/')[0]}/nextCursor"
        goes_on[:] = [cursor] if found.around.get("nextCursor") else []


def _row(api: str, tool: Any, where: str) -> FileRow:
    if not isinstance(tool, dict):
        return FileRow(where, problem="a tool must be an object.")
    kind = tool.get("type")
    tool = next((tool[key] for key in WRAPPED if isinstance(tool.get(key), dict)), tool)
    name = tool.get("name")
    if not isinstance(name, str) or not name.strip():
        if isinstance(kind, str) and kind != "function" and not tool.get("description"):
            return FileRow(where, note=f"'{kind[:60]}' is built into the model, so it is no tool of an API.")
        return FileRow(where, problem="'name' is missing.")
    name = f"{api}/{name.strip()}"
    if isinstance(tool, Twice) and any(key in ("name", "description") for key, _, _ in tool.earlier):
        problem = "'name' or 'description' is written twice; leave one of them."
        return FileRow(where, problem=problem, name=name)
    notes = tool.get("annotations")
    title = tool.get("title") or (notes.get("title") if isinstance(notes, dict) else None)
    text = tool.get("description")
    if text is not None and not isinstance(text, str):
        return FileRow(where, problem="'description' must be text.", name=name)
    fields = {"name": name, "description": describe(title, text) or f"{sentence(tool['name'])}."}
    return FileRow(where, fields | {"source": "" if describe(title, text) else MADE})
