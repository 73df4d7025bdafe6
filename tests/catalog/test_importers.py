"""Reading catalog files: formats, checks, and where each mistake is."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.importers.detect import detect
from catalog.core.importers.read import read_catalog
from catalog.core.tool import StoredTool, ToolRecord, diff_catalog, parse_tool
from catalog.core.words import camel_case, name_words, text_key
from trace_site.lib.errors import TraceError

GOOD = {"name": "Pay/get", "description": "Reads a payment."}


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
        ("a.jsonl", b"\xef\xbb\xbf \n", "the file is empty"),
        ("a.json", "[]", "the document is empty.*tools/list"),
        ("a.json", "5", "no catalog format"),
        ("a.json", '{"title": "x", "version": 1}', "no tools that are known here"),
        (
            "a.json",
            json.dumps([{"tool_name": "A/b", "rule_text": "x"}]),
            "Rules are imported with rules_import",
        ),
        ("a.json", json.dumps([GOOD]), "Write one tool a line"),
        ("a.txt", "Dear colleague,\nhere are the tools.", "no catalog format"),
        ("a.bin", b"MZ\0\0\1\2\3\4", "binary file"),
        ("a.json", b"PK\x03\x04\0\0", "zip file .an Excel workbook is one too.*Unpack it first"),
        ("a.json.gz", b"\x1f\x8b\x08\0", "gzip file.*Unpack it first"),
        ("a.pdf", b"%PDF-1.7", "PDF"),
        ("a.html", "<!DOCTYPE html><html>", "web page.*raw file"),
        ("a.wsdl", '<definitions xmlns="http://schemas.xmlsoap.org/wsdl/"/>', "WSDL.*JSON lines"),
        ("a.xml", "<service><workspace/></service>", r"service document.*\$metadata"),
        ("a.xml", "<note/>", "XML file of another kind"),
        ("a.graphql", "# ours\ntype Query {\n  rooms: [Room]\n}\n", "GraphQL"),
        ("a.raml", "#%RAML 1.0\ntitle: T\n", "RAML.*OpenAPI 3"),
        ("a.proto", 'syntax = "proto3";\n', "protobuf"),
        ("a.json", '{"data": {"__schema": {}}}', "GraphQL"),
        ("a.json", '{"info": {"_postman_id": "1"}, "item": []}', "Postman.*OpenAPI 3"),
        ("a.json", '{"swaggerVersion": "1.2", "apis": []}', "Swagger 1.*Convert"),
        ("a.yaml", "asyncapi: 2.6.0\n", "AsyncAPI"),
        ("a.json", '{"log": {"entries": []}}', "HAR"),
        ("a.json", '{"$Version": "4.0", "$EntityContainer": "x"}', "as XML"),
        ("a.json", '{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "busy"}}', "error .busy"),
    ],
)
def test_wrong_file_is_refused_with_its_name_and_what_to_do(
    name: str, content: Any, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(TraceError, match=message) as caught:
        read_catalog(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.jsonl", lines(GOOD), "jsonl"),
        ("a.json", lines(GOOD), "jsonl"),
        ("a.txt", '{"name": "Pay/cut", "descr\n' + lines(GOOD), "jsonl"),
        ("a.txt", "Name;Permissions;Description\n", "csv"),
        ("a.txt", b"\xef\xbb\xbfname,description\n", "csv"),
        ("a.json", '{"openapi": "3.0.0"}', "document"),
        ("a.json", '{\n  "components": {},\n  "openapi": "3.0.0"\n}', "document"),
        ("a.json", "{" + '"components": "' + "x" * 1_100_000 + '", "openapi": "3.0.0"}', "document"),
        ("a.json", '{"tools": [{"name": "x"}]}', "document"),
        ("a.json", '[{"name": "x"}]', "document"),
        ("a.yml", "components: {}\nopenapi: 3.0.0\n", "document"),
        ("a", "info:\n  title: T\n", "document"),
        ("a", '{"openapi": "3.0.0"}'.encode("utf-16"), "document"),
        ("a.edmx", '<?xml version="1.0"?><Edmx/>', "odata"),
    ],
)
def test_files_are_recognised_by_what_they_hold(name: str, content: Any, kind: str, tmp_path: Path) -> None:
    assert detect(write(tmp_path, name, content), name) == kind


def test_a_format_chosen_by_hand_must_be_that_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "tools.json", '{"tools": [{"name": "x", "inputSchema": {}}]}')
    with pytest.raises(TraceError, match="this is an mcp file, not openapi"):
        read_catalog(path, fmt="openapi")
    with pytest.raises(TraceError, match="unknown format 'yaml'. Use auto, jsonl, csv,"):
        read_catalog(path, fmt="yaml")


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        detect(tmp_path / "none", "none")
    with pytest.raises(TraceError, match="is a folder"):
        detect(tmp_path, "folder")


def test_huge_line_is_refused_without_reading_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, "big.jsonl", b'{"name": "' + b"x" * 6_000_000)
    with pytest.raises(TraceError, match="more than 1,000,000 characters in one line") as caught:
        read_catalog(path, fmt="jsonl")
    assert caught.value.where == f"{path}:1"


@pytest.mark.parametrize("content", ["\n" * 1_100_000, "x\n" * 30_000])
def test_endless_useless_lines_are_refused(content: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="too many lines|more than 20,000 bad rows"):
        read_catalog(write(tmp_path, "c.jsonl", lines(GOOD) + content), keep_going=True)


def test_a_key_written_twice_in_a_line_is_an_error(tmp_path: Path) -> None:
    rows = [
        '{"name": "Pay/a", "description": "x", "name": "Pay/b"}',
        '{"name": "Pay/c", "description": "\\"name\\""}',
    ]
    read = read_catalog(write(tmp_path, "c.jsonl", lines(*rows)))
    assert [error.message for error in read.errors] == ["the key 'name' is written twice."]
    assert [record.name for record in read.records] == ["Pay/c"]


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
