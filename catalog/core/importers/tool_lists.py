"""Lists of tools: what an MCP server answers to `tools/list`, a page or all of them, alone or in JSON-RPC, the Docker
registry's form, and the tools of a request to a language model (OpenAI, Anthropic, Gemini, Bedrock).

API = the server's name where the file gives it, else the name of the file.
"""

from collections.abc import Iterator
from typing import Any

from catalog.core.importers.documents import refusal
from catalog.core.importers.rows import MADE, FileRow, describe, file_api_name, sentence
from catalog.core.tool import MAX_PART
from catalog.core.words import camel_case
from trace_site.lib.texts import Twice

AROUND = ("response", "body", "data", "config", "result", "toolConfig", "functionSchema", "tools")
LISTS = ("tools", "functions", "functionDeclarations", "function_declarations", "actionGroups")
WRAPPED = ("function", "toolSpec", "custom")
SCHEMAS = ("inputSchema", "input_schema", "parameters")
MAX_DEPTH = 4  # pages in a list, with lists in their tools


def _opened(value: Any) -> tuple[Any, str]:
    """What stands inside the envelopes of a value, and its pointer there."""
    pointer = ""
    for key in AROUND:
        if isinstance(value, dict) and isinstance(value.get(key), dict):
            value, pointer = value[key], f"{pointer}/{key}"
    return value, pointer


def _lists(value: Any) -> list[str]:
    """The keys of an object that hold lists of tools."""
    return [key for key in LISTS if isinstance(value, dict) and isinstance(value.get(key), list)]


def _is_page(value: Any) -> bool:
    """Whether an object holds tools, or is what a server said beside its pages."""
    return isinstance(value, dict) and ("jsonrpc" in value or bool(_lists(_opened(value)[0])))


def holds_tools(value: Any) -> bool:
    """Whether a document is a list of tools, a page of one, several pages, or tools inside a wrapping."""
    if isinstance(value, list):
        return any(_is_page(one) or _unwrapped(one) is not one for one in value)
    own = isinstance(value, dict) and not value.keys() & {"openapi", "swagger"}
    return own and (bool(_lists(_opened(value)[0])) or _unwrapped(value) is not value)


def read(document: Any, shown: str) -> Iterator[FileRow]:
    """Every tool, with its JSON pointer; a last page that is not the end is an error."""
    goes_on: list[str] = []
    first: dict[str, FileRow] = {}
    for row in _rows(_api_name(document, shown), document, f"{shown}#", goes_on):
        met = first.setdefault(row.fields["name"], row) if row.fields else row
        if met is not row and met.fields == row.fields:
            yield FileRow(row.where, note=f"the same tool as at {met.where}.")
        else:
            yield row
    problem = "the server has more tools than this page; ask for the rest and put all into one list."
    yield from (FileRow(where, problem=problem) for where in goes_on)


def _api_name(document: Any, shown: str) -> str:
    """The server's name, or that of the file; raises TraceError where neither says one, or several are named."""
    pages = [one for one in document if _is_page(one)] if isinstance(document, list) else [document]
    stated = {}
    for around in (_opened(page)[0] for page in pages):
        server = around.get("serverInfo", around) if isinstance(around, dict) else {}
        name = server.get("name") if isinstance(server, dict) else None
        stated[camel_case(name) if isinstance(name, str) else ""] = name
    names = [name for name in stated if 0 < len(name) <= MAX_PART]
    if len(names) > 1:
        hint = "Put the tools of each into a file of its own."
        raise refusal(shown, f"it holds tools of several servers ({', '.join(names)[:200]}).", hint)
    api = names[0] if names else file_api_name(shown)
    if not api:
        hint = "Name the file after the server, such as stripe.tools.json."
        raise refusal(shown, "neither the list nor the file name says which server this is.", hint)
    return api


def _rows(api: str, value: Any, where: str, goes_on: list[str], depth: int = 0) -> Iterator[FileRow]:
    """Every tool; `goes_on` ends up with the place where the last page says that more follow."""
    around, pointer = (value, "") if depth >= MAX_DEPTH else _opened(value)
    if isinstance(value, list) and not depth:
        for number, one in enumerate(value):
            yield from _rows(api, one, f"{where}/{number}", goes_on, 1)
        return
    keys = [] if depth >= MAX_DEPTH or _schema(around) else _lists(around)
    for key in (key for key, _, _ in (around.earlier if isinstance(around, Twice) else ()) if key in LISTS):
        problem = f"the key '{key}' is written twice; put all tools into one list."
        yield FileRow(f"{where}{pointer}/{key}", problem=problem)
    for key in keys:
        for number, tool in enumerate(around[key]):
            yield from _rows(api, tool, f"{where}{pointer}/{key}/{number}", goes_on, depth + 1)
    if keys and (depth == 0 or _is_page(value)):  # of several pages, the last one tells
        goes_on[:] = [f"{where}{pointer}/nextCursor"] if around.get("nextCursor") else []
    elif not keys and isinstance(value, dict) and "jsonrpc" in value:
        if isinstance(value.get("error"), dict):
            told = str(value["error"].get("message", ""))[:200]
            yield FileRow(where, problem=f"the server answered with an error ({told}); ask it again.")
        else:
            yield FileRow(where, note="a message without a list of tools.")
    elif not keys:
        yield _row(api, value, where)


def _schema(tool: Any) -> dict[str, Any]:
    """What says which parameters a tool takes."""
    held = [tool[key] for key in SCHEMAS if isinstance(tool.get(key), dict)] if isinstance(tool, dict) else []
    inner = held[0].get("json") if held else None  # of Bedrock
    return inner if isinstance(inner, dict) else next(iter(held), {})


def _unwrapped(tool: Any) -> Any:
    found = (
        [tool[key] for key in WRAPPED if isinstance(tool.get(key), dict)] if isinstance(tool, dict) else []
    )
    return found[0] if found else tool


def _row(api: str, tool: Any, where: str) -> FileRow:
    if not isinstance(tool, dict):
        return FileRow(where, problem="a tool must be an object.")
    kind, around = tool.get("type"), tool
    tool = _unwrapped(tool)
    name = tool.get("name")
    if len(around) == 1 and tool is around and isinstance(next(iter(tool.values())), dict):
        kind = next(iter(tool))  # {"googleSearch": {}}
    if isinstance(kind, str) and kind not in ("function", "custom") and not tool.get("description"):
        return FileRow(where, note=f"'{kind[:60]}' is built into the model, so it is no tool of an API.")
    if not isinstance(name, str) or not name.strip():
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
    fields["source"] = "" if describe(title, text) else MADE
    asked = _schema(tool).get("properties")
    told = (
        [one for one in asked.values() if isinstance(one, dict) and one.get("description")] if asked else []
    )
    return FileRow(where, fields, left=len(told))
