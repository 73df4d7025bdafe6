"""Tool lists of MCP servers, in every form they are found in."""

import json
from pathlib import Path
from typing import Any

import pytest

from catalog.core.importers.read import read_whole
from catalog.core.importers.rows import CatalogFile
from trace_site.lib.errors import TraceError

TOOL = {"name": "get_room", "description": "Reads **one** room.", "inputSchema": {"type": "object"}}
DOCKER = {"name": "list_rooms", "description": "Lists rooms", "arguments": []}


def read(folder: Path, content: Any, name: str = "desk.mcp-tools.json") -> CatalogFile:
    path = folder / "file"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_whole(path, name, "document", None, None)


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        ([TOOL, DOCKER], "#/0"),
        ({"tools": [TOOL, DOCKER]}, "#/tools/0"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL, DOCKER]}}, "#/result/tools/0"),
    ],
)
def test_every_form_of_the_list_gives_the_same_tools(content: Any, pointer: str, tmp_path: Path) -> None:
    file = read(tmp_path, content)
    assert (file.format, file.errors) == ("mcp", [])
    assert [(r.name, r.description) for r in file.records] == [
        ("Desk/get_room", "Reads one room."),
        ("Desk/list_rooms", "Lists rooms"),
    ]
    assert file.records[0].where == f"desk.mcp-tools.json{pointer}"


@pytest.mark.parametrize(
    ("content", "name", "api"),
    [
        ({"tools": [TOOL], "serverInfo": {"name": "night-desk"}}, "x.json", "NightDesk"),
        ({"name": "Hotel", "tools": [TOOL]}, "x.json", "Hotel"),
        ([TOOL], "servers/stripe/tools.json", "Stripe"),
        ([TOOL], "stripe-remote.docker-mcp-tools.json", "StripeRemote"),
    ],
)
def test_api_is_the_server(content: Any, name: str, api: str, tmp_path: Path) -> None:
    assert read(tmp_path, content, name).records[0].api == api


def test_list_of_an_unknown_server_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="which server this is. Name the file after the server"):
        read(tmp_path, [TOOL], "tools.json")


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ({"name": "get_room"}, "Get room."),
        ({"name": "get_room", "title": "Room", "description": None}, "Room"),
        ({"name": "get_room", "annotations": {"title": "Room"}}, "Room"),
        ({"name": "get_room", "annotations": [], "description": " "}, "Get room."),
    ],
)
def test_tool_without_words_is_described_by_title_or_name(tool: Any, expected: str, tmp_path: Path) -> None:
    [record] = read(tmp_path, {"tools": [tool]}).records
    assert record.description == expected


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (5, "a tool must be an object"),
        (None, "a tool must be an object"),
        ({"description": "x"}, "'name' is missing"),
        ({"name": " "}, "'name' is missing"),
        ({"name": "a\u0007"}, "cannot be printed"),
        ({"name": "x" * 400}, "characters"),
        ({"name": "x", "description": ["a"]}, "'description' must be text"),
        ({"name": "get_room", "inputSchema": {}}, "already used"),
    ],
)
def test_bad_tool_is_listed_with_its_pointer_and_the_good_ones_stay(
    tool: Any, message: str, tmp_path: Path
) -> None:
    from catalog.core.importers.read import read_catalog

    path = tmp_path / "desk.tools.json"
    path.write_text(json.dumps({"tools": [TOOL, tool, DOCKER]}))
    file = read_catalog(path, shown="desk.tools.json", keep_going=True)
    [error] = file.errors
    assert error.where == "desk.tools.json#/tools/1" and message in error.message
    assert [record.name for record in file.records] == ["Desk/get_room", "Desk/list_rooms"]


def test_tool_with_a_key_written_twice_is_listed(tmp_path: Path) -> None:
    file = read(tmp_path, '{"tools": [{"name": "a", "description": "x", "name": "b"}]}')
    assert ["written twice" in error.message for error in file.errors] == [True]


def test_list_that_goes_on_retires_nothing(tmp_path: Path) -> None:
    file = read(tmp_path, {"result": {"tools": [TOOL], "nextCursor": "abc"}})
    [error] = file.errors
    assert (error.where, error.name) == ("desk.mcp-tools.json#/result/nextCursor", "")
