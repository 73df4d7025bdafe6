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
from trace_site.lib.texts import Twice, mapping

AROUND = ("response", "body", "data", "config", "result", "toolConfig", "functionSchema", "tools")
LISTS = ("tools", "functions", "functionDeclarations", "function_declarations", "actionGroups")
WRAPPED = {"function", "toolSpec", "custom"}
SCHEMAS = ("inputSchema", "input_schema", "parameters", "json")
MAX_DEPTH = 4  # pages in a list, with lists in their tools


def _opened(value: Any) -> tuple[Any, str, list[str]]:
    """What stands inside the envelopes of a value, its pointer there, and the keys that hold lists of tools."""
    pointer = ""
    for key in AROUND:
        if isinstance(value, dict) and isinstance(value.get(key), dict):
            value, pointer = value[key], f"{pointer}/{key}"
    held = {key: value[key] for key in LISTS if isinstance(value, dict) and isinstance(value.get(key), list)}
    is_tool = held and value.keys() & {"name", "query", *SCHEMAS}  # which may have such a key besides
    keys = [key for key in held if not is_tool or any(isinstance(one, dict) for one in held[key])]
    return value, pointer, keys


def _unwrapped(tool: Any) -> Any:
    return next(filter(None, (mapping(mapping(tool).get(key)) for key in WRAPPED)), tool)


def _is_page(value: Any) -> bool:
    """Whether an object holds tools, or is what a server said beside its pages."""
    return "jsonrpc" in mapping(value) or (isinstance(value, dict) and bool(_opened(value)[2]))


def holds_tools(value: Any) -> bool:
    """Whether a document is a list of tools, a page of one, several pages, or tools inside a wrapping."""
    if isinstance(value, list):
        return any(_is_page(one) or _unwrapped(one) is not one for one in value)
    own = not mapping(value).keys() & {"openapi", "swagger"}
    return own and (bool(_opened(value)[2]) or _unwrapped(value) is not value)


def read(document: Any, shown: str) -> Iterator[FileRow]:
    """Every tool, with its JSON pointer; a last page that is not the end is an error."""
    goes_on: list[str] = []
    first: dict[str, FileRow] = {}
    for row in _rows(_api_name(document, shown), document, f"{shown}#", goes_on):
        met = first.setdefault(row.fields["name"], row) if row.fields else row
        repeats = met is not row and met.fields == row.fields
        yield FileRow(row.where, note=f"the same tool as at {met.where}.") if repeats else row
    problem = "the server has more tools than this page; ask for the rest and put all into one list."
    yield from (FileRow(where, problem=problem) for where in goes_on)


def _api_name(document: Any, shown: str) -> str:
    """The server's name, or that of the file; raises TraceError where neither says one, or several are named."""
    pages = filter(_is_page, document) if isinstance(document, list) else [document]
    around = [mapping(_opened(page)[0]) for page in pages]
    stated = [mapping(one.get("serverInfo", one)).get("name") for one in around]
    names = dict.fromkeys(camel_case(name) for name in stated if isinstance(name, str))
    found = [name for name in names if 0 < len(name) <= MAX_PART] or [file_api_name(shown)]
    if len(found) > 1:
        hint = "Put the tools of each into a file of its own."
        raise refusal(shown, f"it holds tools of several servers ({', '.join(found)[:200]}).", hint)
    if not found[0]:
        hint = "Name the file after the server, such as stripe.tools.json."
        raise refusal(shown, "neither the list nor the file name says which server this is.", hint)
    return found[0]


def _rows(api: str, value: Any, where: str, goes_on: list[str], depth: int = 0) -> Iterator[FileRow]:
    """Every tool; `goes_on` ends up with the place where the last page says that more follow."""
    if isinstance(value, list) and not depth:
        for number, one in enumerate(value):
            yield from _rows(api, one, f"{where}/{number}", goes_on, 1)
        return
    around, pointer, keys = _opened(value) if depth < MAX_DEPTH else (value, "", [])
    for key, _, _ in around.earlier if keys and isinstance(around, Twice) else ():
        problem = f"the key '{key}' is written twice; leave one of them."
        yield FileRow(f"{where}{pointer}/{key}", problem=problem)
    for key in keys:
        for number, tool in enumerate(around[key]):
            yield from _rows(api, tool, f"{where}{pointer}/{key}/{number}", goes_on, depth + 1)
    if keys:  # of several pages, the last one tells
        goes_on[:] = [f"{where}{pointer}/nextCursor"] if around.get("nextCursor") else []
    elif error := mapping(mapping(value).get("error")):
        told = str(error.get("message", ""))[:200]
        yield FileRow(where, problem=f"the server answered with an error ({told}); ask it again.")
    elif "jsonrpc" in mapping(value):
        yield FileRow(where, note="a message without a list of tools.")
    else:
        yield _row(api, value, where)


def _row(api: str, tool: Any, where: str) -> FileRow:
    if not isinstance(tool, dict):
        return FileRow(where, problem="a tool must be an object.")
    kind = tool.get("type")
    if len(tool) == 1 and isinstance(next(iter(tool.values())), dict) and not tool.keys() & WRAPPED:
        kind = next(iter(tool))  # {"googleSearch": {}}
    tool = _unwrapped(tool)
    name, text = tool.get("name"), tool.get("description")
    if isinstance(kind, str) and kind not in ("function", "custom") and not text:
        return FileRow(where, note=f"'{kind[:60]}' is built into the model, so it is no tool of an API.")
    if not isinstance(name, str) or not name.strip():
        return FileRow(where, problem="'name' is missing.")
    name = f"{api}/{name.strip()}"
    if isinstance(tool, Twice) and any(key in ("name", "description") for key, _, _ in tool.earlier):
        problem = "'name' or 'description' is written twice; leave one of them."
        return FileRow(where, problem=problem, name=name)
    if text is not None and not isinstance(text, str):
        return FileRow(where, problem="'description' must be text.", name=name)
    about = describe(tool.get("title") or mapping(tool.get("annotations")).get("title"), text)
    fields = {
        "name": name,
        "description": about or f"{sentence(tool['name'])}.",
        "source": "" if about else MADE,
    }
    schema = next(filter(None, (mapping(tool.get(key)) for key in SCHEMAS)), {})
    asked = mapping(mapping(schema.get("json", schema)).get("properties")).values()
    return FileRow(where, fields, left=sum("description" in mapping(one) for one in asked))
