"""One way to read what people save: encodings, line ends, JSON and sheets, the same for every import."""

import csv
import json
from pathlib import Path

import pytest

from catalog.core.importers.detect import detect
from catalog.core.importers.read import read_catalog
from catalog.queries.imports import read_queries
from rules.core.rules_file import read_rules
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_jsonl

ASKED = ["Send me the payslip of last month please", "How many days of leave do I have"]
SHEET = f"query;lang\r\n{ASKED[0]};en\r\n{ASKED[1]};en\r\n"
TABS = SHEET.replace(";", "\t")
TOOLS = 'name,description\nPay/Get slip,"Reads, a slip."\nPay/List slips,Lists slips.\n'
RULES = 'tool_name,confusables,rule_text\nPay/Get slip,Pay/List slips,"One, not all."\n'


def saved(text: str) -> list[bytes]:
    """A sheet as spreadsheets of several systems save it."""
    tabs = "\n".join("\t".join(row) for row in csv.reader(text.splitlines()))
    ways = [text, text.replace("\n", "\r"), text.replace("\n", "\r\n"), f"sep=,\n{text}", f"\n\r\n{text}"]
    found = [
        way.encode(encoding) for way in ways for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-be")
    ]
    return [*found, tabs.encode("utf-16"), tabs.replace("\n", "\r").encode(), b'"sep=,"\r' + text.encode()]


@pytest.mark.parametrize("content", saved(TOOLS))
def test_every_way_to_save_a_sheet_gives_the_same_tools(content: bytes, tmp_path: Path) -> None:
    for name in ("tools.csv", "tools.txt"):
        (path := tmp_path / name).write_bytes(content)
        found = {tool.name: tool.description for tool in read_catalog(path).records}
        assert (
            found.keys() == {"Pay/Get slip", "Pay/List slips"} and found["Pay/List slips"] == "Lists slips."
        )


@pytest.mark.parametrize("content", saved(RULES))
def test_every_way_to_save_a_sheet_gives_the_same_rules(content: bytes) -> None:
    (entry,) = read_rules(content, "rules.csv", 10).entries
    assert (entry.content.target, entry.content.confusables) == ("Pay/Get slip", ("Pay/List slips",))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (f"sep=;\r\n{SHEET}", "sep.csv"),
        (TABS, "tabs.csv"),
        (TABS.encode("utf-16"), "unicode-text.csv"),
        (TABS.encode("utf-16"), "unicode.txt"),
        (TABS.replace("\r\n", "\r"), "mac.csv"),
        ("\r".join(ASKED) + "\r", "mac.txt"),
        ("\n\n".join(ASKED).encode("utf-16-be"), "q.txt"),
        (f"sep=|\r\n{SHEET.replace(';', '|')}", "bar.csv"),
        (f'"What was\nasked";Query\n1;{ASKED[0]}\n2;"{ASKED[1]}"', "two-lines.csv"),
        ("\r".join(json.dumps({"query": one}) for one in ASKED), "mac.jsonl"),
        (json.dumps([{"query": one} for one in ASKED], indent=1), "list.json"),
        ('{"queries":\n[{"query":\n' + f'"{ASKED[0]}"}}, "{ASKED[1]}"]}}', "inside.json"),
        ("\n".join(json.dumps({"text": one}) for one in ASKED).encode("utf-16"), "wide.jsonl"),
    ],
)
def test_requests_are_read_as_catalogs_are(content: bytes | str, name: str) -> None:
    assert [row.text for row in read_queries(content, name)] == ASKED


SPEC = {
    "info": {"title": "Rooms", "version": "1"},
    "openapi": "3.0.0",
    "paths": {"/rooms": {"get": {"operationId": "listRooms", "responses": {}}}},
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SPEC).replace('"info": {', '"info":\n{', 1),
        json.dumps(SPEC, indent=1).replace(": {", ":\n{").replace("{\n", "{", 1),
        json.dumps(SPEC).replace('"info": {', '"info":\r{', 1),
        json.dumps(SPEC).replace('"info": {', '"info":\n\n{\n', 1) + "\n\n",
        '{"components":\n{' + f'"x": "{"x" * 1_100_000}"' + "},\n" + json.dumps(SPEC)[1:],
    ],
)
def test_a_document_is_one_wherever_its_second_line_begins(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "rooms.json").write_text(text, newline="")
    assert detect(path, path.name) == "document"
    assert [tool.name for tool in read_catalog(path).records] == ["RoomsV1/listRooms"]


@pytest.mark.parametrize("newline", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_json_lines_are_read_however_they_are_saved(newline: str, encoding: str, tmp_path: Path) -> None:
    rows = [{"name": f"Pay/{name}", "description": "Löhne."} for name in "ab"]
    text = newline.join(json.dumps(row, ensure_ascii=False) for row in rows)
    for name in ("tools.jsonl", "tools.json"):
        (path := tmp_path / name).write_bytes(text.encode(encoding))
        assert [tool.name for tool in read_catalog(path).records] == ["Pay/a", "Pay/b"]
    assert [number for number, _ in read_jsonl(path)] == [1, 2]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b'name,description\rA/b,"x\ry'),
        ("t.csv", b'na"me,description\r"A/b"x,y\r'),
        ("t.csv", "name,description\nA/b,x".encode("utf-16")[:-1]),
        ("t.csv", b"\xff\xfe\x00\xd8a"),
        ("t.csv", "name,description\nA/b,".encode("utf-16-le") + b"\x00\xd8\x01"),
        ("t.csv", b'name,"description\n' + b"x\n" * 100),
        ("t.csv", b"name,description\n" + b"x" * 1_200_000),
        ("t.csv", b"sep=\x00\nname,description\n"),
        ("t.csv", b'sep="\nname,description\nA/b,x'),
        ("t.csv", b"sep=\rname,description\rA/b,x"),
        ("t.jsonl", b"\xff\xfe{\x00\x01"),
        ("t.jsonl", b'{"name": ' + b"9" * 5000 + b"}"),
        ("t.json", b'{"a":\n{' + b'"b":[' * 50_000),
        ("t.json", b"{}\r{\r"),
        ("t.json", b"\x00\x00\xfe\xff\x00\x11\x00\x00"),
        ("t.txt", b"\x00a\x00b\xd8"),
    ],
)
def test_whatever_a_parser_raises_is_a_sentence(name: str, content: bytes, tmp_path: Path) -> None:
    (path := tmp_path / name).write_bytes(content)
    for read in (
        lambda: read_catalog(path, keep_going=True),
        lambda: read_rules(content, name, 10),
        lambda: read_queries(content[:900_000], name),
        lambda: list(read_jsonl(path)),
    ):
        try:
            read()
        except TraceError as error:
            assert error.where and error.message
