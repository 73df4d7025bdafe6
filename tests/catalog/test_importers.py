"""Reading catalog files: formats, checks, and where each mistake is."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.importers.detect import detect
from catalog.core.importers.openapi import api_version, describe, plain_text
from catalog.core.importers.read import read_catalog
from catalog.core.tool import StoredTool, ToolRecord, diff_catalog, parse_tool
from catalog.core.words import camel_case, name_words, text_key
from trace_site.lib.errors import TraceError

GOOD = {"name": "Pay/get", "description": "Reads a payment."}
SPEC: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Night Desk API", "version": "2"},
    "paths": {
        "/v2/rooms/{room_id}": {
            "get": {
                "operationId": "getRoom",
                "summary": "Get a <b>room</b>",
                "description": "Reads **one** room.",
            },
            "delete": {"summary": "Close a room", "deprecated": True, "tags": ["rooms"]},
        }
    },
}


def write(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines(*rows: Any) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"description": "x"}, "'name' is missing."),
        ({"query": "x", "tools": []}, "looks like labelled queries"),
        ({"tool_name": "A/b", "rule_text": "x"}, "use rules_import"),
        ({**GOOD, "name": 5}, "'name' must be text, not int."),
        ({**GOOD, "name": "NoSlash"}, "written API/ENDPOINT"),
        ({**GOOD, "name": "Pay/ get"}, "no outer spaces"),
        ({**GOOD, "name": "Pay/ge\nt"}, "cannot be printed"),
        ({**GOOD, "description": "  "}, "'description' is empty"),
        ({**GOOD, "description": "a\0b"}, "cannot be stored"),
        ({**GOOD, "permissions": "all"}, "'permissions' must be a list"),
        ({**GOOD, "deprecated": "yes"}, "'deprecated' must be true or false"),
        ({**GOOD, "version": []}, "'version' must be text"),
        ({**GOOD, "name": "A/" + "x" * 500}, "the limit is 400"),
    ],
)
def test_bad_row_says_what_and_where(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "c.jsonl", lines(GOOD, row))
    [error] = read_catalog(path, fmt="jsonl").errors
    assert message in error.message
    assert error.where == f"{path}:2"


def test_second_use_of_a_name_gives_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "c.jsonl", lines(GOOD, "", GOOD))
    read = read_catalog(path)
    assert [str(error) for error in read.errors] == [
        f"{path}:3: the name 'Pay/get' is already used at {path}:1."
    ]
    assert len(read.records) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines(GOOD, '{"name": "Pay/cut", "descr'), "not valid JSON"),
        (lines(GOOD, "[1]"), "expected a JSON object, found list"),
        (lines(GOOD).encode() + b'{"name": "Pay/\xff"}\n', "not UTF-8 text"),
    ],
)
def test_unreadable_line_is_named(content: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, "c.jsonl", content)
    [error] = read_catalog(path).errors
    assert (message in error.message, error.where) == (True, f"{path}:2")


def test_reading_stops_at_twenty_bad_rows_unless_told_to_go_on(tmp_path: Path) -> None:
    path = write(tmp_path, "c.jsonl", lines(*[{"name": "x"}] * 30))
    assert len(read_catalog(path, fmt="jsonl").errors) == 20
    assert len(read_catalog(path, fmt="jsonl", keep_going=True).errors) == 30


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "the file is empty"),
        ("a.json", "[]", "Rules are imported with rules_import"),
        ("a.edmx", "<edmx/>", "XML or HTML"),
        ("a.csv", "name,description\n", "neither JSON lines nor an OpenAPI document"),
        ("a.bin", b"PK\x03\x04\0\0", "not UTF-8"),
        ("a.jsonl", lines(GOOD).encode("utf-16"), "not UTF-8"),
        ("a.json", '{"openapi": "3.0.0", "paths": {', "not valid JSON"),
        ("a.yaml", "openapi: 3.0.0\npaths: {a: [", "not valid YAML"),
        ("a.yaml", "swagger: '2.0'\n", "version 2.0 is not read here"),
        ("a.yaml", "openapi: 3.0.0\ninfo: {title: T}\npaths: {}\n", "no paths"),
        ("a.yaml", "openapi: 3.0.0\npaths: {/a: {}}\n", "the title is missing"),
    ],
)
def test_wrong_file_is_refused_with_its_name(name: str, content: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(TraceError, match=message) as caught:
        read_catalog(path)
    assert str(caught.value).startswith(str(path))


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        detect(tmp_path / "none", "none")
    with pytest.raises(TraceError, match="is a folder"):
        detect(tmp_path, "folder")


def test_huge_document_is_refused_by_size_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as handle:
        handle.write(b"openapi: 3.0.0\n" + b"# " + b"x" * 2_000_000 + b"\n")
        handle.truncate(1 << 30)
    with pytest.raises(TraceError, match="1,073,741,824 bytes; the limit is 64,000,000"):
        read_catalog(path)


def test_huge_line_is_refused_without_reading_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, "big.jsonl", b'{"name": "' + b"x" * 6_000_000)
    with pytest.raises(TraceError, match="longer than 5,000,000 bytes") as caught:
        read_catalog(path, fmt="jsonl")
    assert caught.value.where == f"{path}:1"


def test_merge_key_bomb_is_refused(tmp_path: Path) -> None:
    rows = ["openapi: 3.0.0", "x0: &x0 {" + ", ".join(f"k{i}: 1" for i in range(20)) + "}"]
    rows += [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 9)}]}}" for n in range(1, 9)]
    with pytest.raises(TraceError, match="too many merged keys"):
        read_catalog(write(tmp_path, "bomb.yaml", "\n".join(rows)))


def test_openapi_operations_become_tools(tmp_path: Path) -> None:
    read = read_catalog(write(tmp_path, "spec.json", json.dumps(SPEC)))
    assert (read.format, read.errors) == ("openapi", [])
    assert [record.name for record in read.records] == [
        "NightDeskV2/getRoom",
        "NightDeskV2/DELETEV2RoomsRoomId",
    ]
    assert read.records[0].description == "Get a room. Reads one room."
    assert (read.records[1].deprecated, read.records[1].permissions) == (True, ("rooms",))


def test_openapi_yaml_gives_the_same_tools_as_json(tmp_path: Path) -> None:
    import yaml

    as_yaml = read_catalog(write(tmp_path, "spec.yaml", yaml.safe_dump(SPEC)))
    as_json = read_catalog(write(tmp_path, "spec.json", json.dumps(SPEC, indent=1)))
    contents = [sorted(r.content_hash("d") for r in read.records) for read in (as_yaml, as_json)]
    assert contents[0] == contents[1]


def test_openapi_errors_carry_json_pointers(tmp_path: Path) -> None:
    spec = json.loads(json.dumps(SPEC))
    spec["paths"]["/v2/b"] = {
        "get": {"operationId": "getRoom", "summary": "Again"},
        "put": {"operationId": "mute"},
    }
    path = write(tmp_path, "spec.json", json.dumps(spec))
    messages = [str(error) for error in read_catalog(path).errors]
    assert messages[0].startswith(f"{path}#/paths/~1v2~1b/put: 'description' is empty")
    assert "#/paths/~1v2~1b/get" in messages[1] and "#/paths/~1v2~1rooms~1{room_id}/get" in messages[1]


def test_openapi_scopes_win_over_tags_and_global_security_counts(tmp_path: Path) -> None:
    spec = json.loads(json.dumps(SPEC))
    spec["security"] = [{"oauth": ["rooms.read", "rooms.write"]}, {"key": []}]
    records = read_catalog(write(tmp_path, "spec.json", json.dumps(spec))).records
    assert records[1].permissions == ("rooms.read", "rooms.write")


def test_openapi_references_stay_inside_the_document(tmp_path: Path) -> None:
    spec = json.loads(json.dumps(SPEC))
    spec["components"] = {"pathItems": {"Extra": {"get": {"operationId": "extra", "summary": "Extra"}}}}
    spec["paths"]["/v2/x"] = {"$ref": "#/components/pathItems/Extra"}
    names = [record.name for record in read_catalog(write(tmp_path, "a.json", json.dumps(spec))).records]
    assert "NightDeskV2/extra" in names
    spec["paths"]["/v2/x"] = {"$ref": "https://example.com/other.json"}
    with pytest.raises(TraceError, match="cannot be followed"):
        read_catalog(write(tmp_path, "b.json", json.dumps(spec)))


@pytest.mark.parametrize(
    ("version", "paths", "servers", "expected"),
    [
        ("68", ["/a"], [], "68"),
        ("v4", ["/a"], [], "4"),
        ("16.1.0", ["/a"], [], ""),
        ("1.13", ["/v1/a", "/v1/b"], [], "1"),
        ("1.13", ["/v1/a", "/v2/b"], [], ""),
        ("1.0", ["/a"], ["https://x.example/ats/v1"], "1"),
        ("1.0", ["/a"], ["https://v3.example"], ""),
    ],
)
def test_only_a_stable_version_enters_the_api_name(
    version: str, paths: list[str], servers: list[str], expected: str
) -> None:
    document = {
        "info": {"version": version},
        "paths": dict.fromkeys(paths),
        "servers": [{"url": url} for url in servers],
    }
    assert api_version(document) == expected


def test_descriptions_are_plain_text() -> None:
    text = "## Title\n* See [the docs](https://x.example) for `id`.<br/>A &amp; **B** and a_b_c > 3"
    assert plain_text(text) == "Title See the docs for id. A & B and a_b_c > 3"
    assert describe("List rooms", "List rooms of a site.") == "List rooms of a site."


def test_words_of_names() -> None:
    assert name_words("AdyenPayoutV68/post-confirmThirdParty") == [
        "adyen",
        "payout",
        "v68",
        "post",
        "confirm",
        "third",
        "party",
    ]
    assert camel_case("Xero Payroll AU") == "XeroPayrollAu"
    assert text_key("Pay, please!") == text_key("pay  PLEASE") != text_key("please pay")


NAMES = st.builds("{}/{}".format, st.sampled_from(["A", "B"]), st.sampled_from(list("uvwxyz")))
RECORDS = st.dictionaries(NAMES, st.tuples(st.sampled_from(["one", "two"]), st.booleans())).map(
    lambda d: [ToolRecord(name, text, deprecated=flag) for name, (text, flag) in d.items()]
)


def stored(records: list[ToolRecord]) -> dict[str, StoredTool]:
    return {
        r.name: StoredTool(r.name, r.api, "d", r.content_hash("d"), r.deprecated, active=True)
        for r in records
    }


@given(RECORDS, RECORDS)
def test_diff_accounts_for_every_tool(before: list[ToolRecord], after: list[ToolRecord]) -> None:
    diff = diff_catalog(after, stored(before), "d")
    assert len(diff.added) + len(diff.changed) + diff.unchanged == len(after)
    apis, names = {r.api for r in after}, {r.name for r in after}
    assert diff.removed == sorted(r.name for r in before if r.api in apis and r.name not in names)
    assert diff_catalog(after, stored(after), "d").unchanged == len(after)


@given(RECORDS)
def test_record_survives_its_own_row_format(records: list[ToolRecord]) -> None:
    for record in records:
        assert parse_tool(record.content("d"), "").content_hash("d") == record.content_hash("d")
