"""Files of rules, JSON and CSV, without a database: what is read, what is refused, and that nothing is lost."""

import csv
import json
import re
import time
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.core.rules_file import RuleEntry, read_rules, to_json
from rules.core.tables import COLUMNS, write_table
from tests.rules.contents import AWKWARD, rules, texts
from trace_site.lib.cells import SPLITS, guard, starts_formula, unguard
from trace_site.lib.errors import TraceError
from trace_site.lib.letters import entered

RULE: dict[str, Any] = {"tool_name": "Pay/get", "confusables": ["Pay/getOld"], "rule_text": "Use Pay/get."}
HEAD = "tool_name,confusables,rule_text\r\n"
FIRST = tuple("=+-@＝＋－＠−\t\r\n")
CELL = st.one_of(st.text(), st.text(st.sampled_from(AWKWARD)))


def items(entries: list[RuleEntry]) -> list[dict[str, Any]]:
    return [to_json(entry.content, code=entry.code, domain=entry.domain) for entry in entries]


def read(data: bytes | str, shown: str = "f") -> list[dict[str, Any]]:
    file = read_rules(data if isinstance(data, bytes) else data.encode(), shown, 5000)
    assert file.problems.items == []
    return items(file.entries)


def problems(data: bytes | str) -> list[str]:
    file = read_rules(data if isinstance(data, bytes) else data.encode(), "f", 5000)
    return [f"{file.place(pointer)}: {sentence}" for pointer, sentence in file.problems.items]


def refusal(data: bytes | str, most: int = 5000) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read_rules(data if isinstance(data, bytes) else data.encode(), "f", most)
    return caught.value


@given(st.lists(rules(), min_size=1, max_size=3))
def test_what_is_written_reads_back_the_same_in_both_formats(drawn: list[dict[str, Any]]) -> None:
    stored = read(json.dumps([rule | {"code": f"R{n}", "domain": "hr"} for n, rule in enumerate(drawn)]))
    assert read(json.dumps(stored, ensure_ascii=False)) == stored
    table = write_table(stored)
    assert read(table) == stored
    assert write_table(read(table)) == table
    assert read(table.encode("utf-16")) == stored
    assert read(table.replace("\ufeff", "").encode("utf-16-le")) == stored


def test_public_rules_survive_the_table(settings) -> None:
    path = settings.TRACE_PUBLIC_DATA / "rules" / "rules.json"
    if not path.is_file():
        pytest.skip(f"no public rules at {path}")
    file = read_rules(path.read_bytes(), "rules.json", 5000)
    assert (len(file.entries), dict(file.problems.ignored)) == (123, {"evidence": 123})
    coded = [rule | {"code": f"R{n}"} for n, rule in enumerate(items(file.entries))]
    assert read(write_table(coded)) == coded


@given(CELL)
def test_guarding_a_cell_is_exactly_undone(cell: str) -> None:
    assert unguard(guard(cell)) == cell
    later = SPLITS.split(guard(cell))[2::2]
    assert not [part for part in later if starts_formula(part) and not part.startswith("'")]


@given(st.lists(rules(), min_size=1, max_size=2))
def test_no_cell_of_an_export_starts_a_formula_whatever_the_separator(drawn: list[dict[str, Any]]) -> None:
    stored = read(json.dumps([rule | {"code": f"R{n}", "domain": "hr"} for n, rule in enumerate(drawn)]))
    table = write_table(stored)[1:]
    cells = [cell for row in csv.reader(StringIO(table, newline="")) for cell in row]
    assert not [cell for cell in cells if cell[:1] in FIRST or cell.strip(' "')[:1] in FIRST]
    torn = [piece.strip(' "') for piece in re.split(r"[,;\t\r\n]", table)]  # a reader that knows no quotes
    assert not [piece for piece in torn if piece[:1] in FIRST]


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1",
        "＋1",
        "－1",
        "＠x",
        ' "=1',
        "'=1",
        "\u200b=1",
        "−1",
    ],
)
def test_every_start_of_a_formula_gets_an_apostrophe(cell: str) -> None:
    assert guard(cell).startswith("'") and unguard(guard(cell)) == cell


def test_a_cell_that_is_no_formula_stays_as_it_is() -> None:
    for cell in ("", "a=b", "'tis fine", "x - y", "1-2", '"quoted"', "don't"):
        assert guard(cell) == unguard(cell) == cell


def test_csv_has_a_mark_crlf_and_one_rule_a_row() -> None:
    clause = {"when": "before 2024\nor so", "route_to": "Pay/getOld", "exception": True, "signals": ["2023"]}
    rule = read(json.dumps([RULE | {"code": "X", "domain": "hr", "clauses": [clause]}]))
    table = write_table(rule)
    assert table.startswith("\ufeff") and table.count("\r\n") == 2 and table.endswith("\r\n")
    header, row = csv.reader(StringIO(table[1:], newline=""))
    assert tuple(header) == COLUMNS
    assert row[5] == 'when: "before 2024\\nor so"\nroute_to: Pay/getOld\nexception: yes\nsignal: 2023'


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
def test_what_spreadsheets_save_is_recognised(separator: str, encoding: str) -> None:
    text = StringIO()
    writer = csv.writer(text, delimiter=separator)
    writer.writerow(["Rule text", "TOOL_NAME", "Confusables", "note"])
    writer.writerow(['Use Pay/get, não é; "x".', "Pay/get", "Pay/getOld; Pay/third\nPay/4th", "n"])
    writer.writerow(["", "", "", ""])
    file = read_rules(text.getvalue().encode(encoding), "f", 10)
    (rule,) = items(file.entries)
    assert rule["confusables"] == ["Pay/getOld", "Pay/third", "Pay/4th"]
    assert rule["rule_text"] == 'Use Pay/get, não é; "x".'
    assert (file.format, dict(file.problems.ignored)) == ("csv", {"note": 1})


def test_the_separator_line_of_excel_is_read_over() -> None:
    assert read(f"sep=;\r\n{HEAD.replace(',', ';')}A/b;A/c;t\r\n")[0]["tool_name"] == "A/b"


def test_clauses_and_tests_are_typed_as_lines_in_a_cell() -> None:
    cells = [
        "A/b",
        "A/c",
        "text",
        "When: x\nroute_to : A/c\nEXCEPTION: Yes\nsignal: a\nsignal: b\n\nwhen: y\nroute_to: A/b",
    ]
    text = StringIO()
    csv.writer(text).writerows(
        [[*HEAD.strip().split(","), "clauses", "tests"], [*cells, "query: q\ntool: A/b"]]
    )
    (rule,) = read(text.getvalue())
    assert rule["clauses"] == [
        {"when": "x", "route_to": "A/c", "exception": True, "signals": ["a", "b"]},
        {"when": "y", "route_to": "A/b", "exception": False, "signals": []},
    ]
    assert rule["tests"] == [{"query": "q", "tools": ["A/b"]}]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            "whan: x",
            "f:2, column clauses: holds the line 'whan: x'; every line begins with one of when:, route_to:",
        ),
        ("route_to: A/b", "f:2, column clauses: begins with route_to:; a clause begins with when:"),
        ("when: x", "f:2, column clauses, entry 1: 'route_to' is missing."),
        (
            "when: x\nroute_to: A/b\nroute_to: A/c",
            "f:2, column clauses: gives route_to: twice for the clause 'x'.",
        ),
        (
            "when: x\nroute_to: A/b\nexception: maybe",
            "f:2, column clauses: says exception: maybe; write yes or no.",
        ),
        ('when: "x', 'f:2, column clauses: holds "x, which is not one whole JSON string.'),
        ("x" * 32_767, "f:2, column clauses: has exactly 32,767 characters, where spreadsheets cut"),
    ],
)
def test_a_mistake_in_a_cell_names_line_column_and_value(cell: str, message: str) -> None:
    text = StringIO()
    csv.writer(text).writerows([[*HEAD.strip().split(","), "clauses"], ["A/b", "A/c", "t", cell]])
    assert problems(text.getvalue())[0].startswith(message)


def test_a_row_after_cells_with_line_breaks_is_named_by_its_own_line() -> None:
    rows = HEAD + '"A/b","A/c","one\r\ntwo\nthree"\r\nA/b,A/c,t,"x"\r\nA,A/c,t\r\nA/b,,t\r\n'
    assert problems(rows) == [
        "f:5: has more than 3 cells; the first one too many is 'x'. Quote cells that hold separators.",
        "f:6, column tool_name: 'A' is not a tool name; write API/ENDPOINT.",
        "f:7, column confusables: is empty.",
    ]


@pytest.mark.parametrize(
    ("data", "code", "where", "message"),
    [
        (b"", "bad_rules", "f", "is empty"),
        (b"\xef\xbb\xbf \n", "bad_rules", "f", "is empty"),
        (b'[{"tool_name": "A/b"', "bad_json", "f:1:21", "it ends in the middle"),
        (b'[\n{"tool_name": "A/b",}]', "bad_json", "f:2:21", "not valid JSON"),
        (b'{"tool_name": "A/b"}\n{"a": 1}', "bad_json", "f:2:1", "Extra data"),
        (b"[" * 100_000, "bad_json", "f", "nested too deeply"),
        (b"[" * 60 + b"]" * 60, "bad_json", "f", "nested deeper"),
        (b"[" + b"9" * 5000 + b"]", "bad_json", "f", "not valid JSON"),
        (HEAD.encode() + b"A/b,A/c,caf\xe9", "bad_encoding", "f:2:12", "not UTF-8 text (byte 0xE9)"),
        ("\ufeff".encode("utf-16-le") + b"a", "bad_encoding", "f:1:1", "not UTF-16 text"),
        (b"PK\x03\x04rest", "bad_encoding", "f", "this is a workbook"),
        (HEAD.encode() + b"A/b,A/c,a\0b", "bad_text", "f:2:10", "a NUL"),
        (HEAD.encode() + b'A/b,A/c,"open', "bad_csv", "f:2", "never closed"),
        (HEAD.encode() + b'A/b,A/c,"a"b', "bad_csv", "f:2", "not valid CSV"),
        (b"name,text\r\nA/b,x", "bad_csv", "f:1", "no column 'tool_name' and no 'confusables' and no"),
        (HEAD.strip().encode() + b",rule text\r\n", "bad_csv", "f:1", "the column 'rule_text' twice"),
        (b"<html>", "bad_csv", "f:1", "found: <html>"),
    ],
)
def test_a_file_nobody_can_read_is_refused_with_its_place(
    data: bytes, code: str, where: str, message: str
) -> None:
    error = refusal(data)
    assert (error.code, error.where) == (code, where)
    assert message in error.message


def test_a_file_with_too_many_rules_is_refused_in_both_formats() -> None:
    assert refusal(json.dumps([RULE] * 3), most=2).code == "too_large"
    assert refusal(HEAD + "A/b,A/c,t\n" * 3, most=2).where == "f:4"
    assert problems("[]") == ["f#: holds no rules."] and problems(HEAD) == ["f: holds no rules."]


BASE = '"tool_name": "A/b", "confusables": ["A/c"]'


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (f'{BASE}, "tool_name": "A/x", "rule_text": "t"', "tool_name: stands twice"),
        (
            f'{BASE}, "rule_text": "t", "clauses": [{{"when": "x", "when": "y", "route_to": "A/b"}}]',
            "clauses/0/when: stands twice",
        ),
        (f'{BASE}, "rule_text": "a\\u0000b"', "rule_text: holds a character"),
        (f'{BASE}, "rule_text": "a\\ud800"', "rule_text: holds a character"),
        (f'{BASE}, "rule_text": NaN', "rule_text: must be text, not a number"),
        (f'{BASE}, "rule_text": "{"x" * 10_001}"', "rule_text: has 10,001 characters"),
        (
            '"tool_name": "A/b", "confusables": ["A/c", " A/c"], "rule_text": "t"',
            "confusables: names the same",
        ),
    ],
)
def test_what_json_hides_is_named(fields: str, problem: str) -> None:
    assert problems(f"[{{{fields}}}]")[0].startswith(f"f#/0/{problem}")


def test_fields_the_format_does_not_know_are_counted_and_not_kept() -> None:
    clause = {"when": "x", "route_to": "A/b", "comment": "c"}
    data = [RULE | {"evidence": "e", "clauses": [clause]}, RULE | {"evidence": {"deep": []}}]
    file = read_rules(json.dumps(data).encode(), "f", 10)
    assert dict(file.problems.ignored) == {"evidence": 2, "clauses.comment": 1}
    assert "evidence" not in items(file.entries)[0]


@given(texts(200))
def test_texts_are_trimmed_at_both_ends_and_kept_inside(text: str) -> None:
    (rule,) = read(json.dumps([RULE | {"rule_text": text}]))
    assert rule["rule_text"] == entered(text).strip()


@given(st.one_of(st.binary(max_size=300), CELL.map(lambda text: (HEAD + text).encode("utf-8", "replace"))))
def test_any_bytes_are_read_or_refused_never_worse(data: bytes) -> None:
    try:
        read_rules(data, "f", 10)
    except TraceError as error:
        assert error.code in {"bad_rules", "bad_json", "bad_csv", "bad_encoding", "bad_text", "too_large"}


ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(COLUMNS), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*COLUMNS, "other"]), ANY_JSON))
def test_any_value_in_any_field_is_a_located_problem_or_a_rule(fields: dict[str, Any]) -> None:
    file = read_rules(json.dumps([RULE | fields]).encode(), "f", 10)
    assert all(pointer.startswith("/0") for pointer, _ in file.problems.items)
    assert len(file.entries) == (not file.problems.items)


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([RULE | {"confusables": [{"a": n} for n in range(300_000)]}]),
        json.dumps([RULE | {"clauses": [1] * 900_000}]),
        json.dumps([{"clauses": [{}] * 100}] * 5000),
        '[{"a":' * 19 + "1" + "}]" * 19,
        HEAD + "A/b,A/c," + "x" * 4_000_000,
        HEAD + "=\n" * 4999,
    ],
    ids=["not-unique", "long-list", "many-problems", "deep", "one-cell", "short-rows"],
)
def test_hostile_files_are_refused_quickly(data: str) -> None:
    start = time.process_time()
    assert problems(data)
    assert time.process_time() - start < 10
