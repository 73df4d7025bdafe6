"""Catalogs as spreadsheets save them."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.importers.read import COLUMNS, read_catalog, read_csv
from catalog.core.importers.rows import CatalogFile, collect
from trace_site.lib.cells import guard, unguard
from trace_site.lib.errors import TraceError
from trace_site.lib.letters import entered


def load(folder: Path, text: str | bytes) -> CatalogFile:
    path = folder / "tools.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return collect("csv", read_csv(path, "tools.csv"), None)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_spreadsheet_gives_the_same_tools(
    delimiter: str, encoding: str, newline: str, tmp_path: Path
) -> None:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=newline, quoting=csv.QUOTE_ALL)
    writer.writerow(["Description ", "NAME", "owner", "permissions", "deprecated", "version"])
    writer.writerow(["Liest, was; da\tist", "Pay/lesen", "me", "a.read; b.read", "Yes", "1.10"])
    writer.writerow([])
    writer.writerow(["Two\nlines", "Pay/zwei", "", "", "", ""])
    [first, second] = load(tmp_path, out.getvalue().encode(encoding)).records
    assert (first.name, first.description) == ("Pay/lesen", "Liest, was; da\tist")
    assert (first.permissions, first.deprecated, first.version) == (("a.read", "b.read"), True, "1.10")
    assert (second.where, second.deprecated) == ("tools.csv:4", False)


def test_spreadsheet_is_recognised_and_read_through_the_front_door(tmp_path: Path) -> None:
    path = tmp_path / "tools.csv"
    path.write_text("sep=;\nname;description\nA/b;x\n")
    file = read_catalog(path)
    assert (file.format, [record.name for record in file.records]) == ("csv", ["A/b"])


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("name,text\nA/b,x\n", "tools.csv:1", "no column 'description' .found: name, text."),
        ("A/b,x\n", "tools.csv:1", "no column 'name'"),
        ("name,description,name\n", "tools.csv:1", "the column 'name' twice"),
        ("sep=,\n\n", "tools.csv:2", "no column 'name' and no 'description' .found: nothing"),
    ],
)
def test_unusable_header_is_refused_with_what_to_do(
    text: str, where: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        load(tmp_path, text)
    assert caught.value.where == where and caught.value.hint


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("A/c", "'description' is missing"),
        ("A/c,", "'description' is empty"),
        (",x", "'name' is empty"),
        ("A/c,x,maybe", "'deprecated' must be true or false, not 'maybe'"),
        ("A/c,x,no,more", "4 cells under 3 columns"),
        ("A/c,x,no,=1+1", "4 cells under 3 columns"),
        ("Ac,x", "written API/ENDPOINT"),
        (b"A/\xe9,x", "not UTF-8 text; save the sheet as CSV UTF-8"),
        ('A/c,"x"y,no', "not valid CSV"),
    ],
)
def test_bad_row_is_listed_with_its_line_and_the_good_ones_stay(
    row: str | bytes, message: str, tmp_path: Path
) -> None:
    row = row if isinstance(row, bytes) else row.encode()
    file = load(tmp_path, b'name,description,deprecated\nA/a,"one\ntwo",no\n' + row + b"\nA/z,last,no\n")
    [error] = file.errors
    assert error.where == "tools.csv:4" and message in error.message
    assert [record.name for record in file.records] == ["A/a", "A/z"][: 1 if "valid CSV" in message else 2]


@pytest.mark.parametrize("text", ['A/b,"never closed\n' + "x\n" * 600_000, "," * 2_000_000, "\n" * 1_100_000])
def test_endless_row_is_stopped_at_its_line(text: str, tmp_path: Path) -> None:
    file = load(tmp_path, "name,description\nA/a,x\n" + text)
    assert len(file.records) == 1
    assert (
        "more than 1,000,000 characters" in file.errors[0].message
        or "too many lines" in file.errors[0].message
    )


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("'=1+1", "=1+1"), ("'-5", "-5"), ("''@x", "'@x"), ("'tis", "'tis"), ("=1", "=1"), ("'", "'"), ("", "")],
)
def test_apostrophe_before_a_formula_is_removed(cell: str, expected: str) -> None:
    assert unguard(cell) == expected


TEXT = (
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
    .map(lambda text: entered(text).strip())
    .filter(bool)
)
PART = TEXT.filter(lambda text: "/" not in text and text.isprintable())
ROW = st.fixed_dictionaries(
    {
        "name": st.builds("{}/{}".format, PART, PART),
        "description": TEXT,
        "permissions": st.lists(TEXT.filter(lambda text: ";" not in text), max_size=3, unique=True),
        "deprecated": st.booleans(),
        "version": st.just("") | TEXT,
    }
)


@given(rows=st.lists(ROW, min_size=1, max_size=5), delimiter=st.sampled_from(",;\t"))
def test_what_a_careful_export_writes_comes_back(rows, delimiter, tmp_path_factory) -> None:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS[:5], delimiter=delimiter)
    writer.writeheader()
    for row in rows:
        cells = {
            **row,
            "permissions": ";".join(row["permissions"]),
            "deprecated": str(row["deprecated"]).lower(),
        }
        writer.writerow({key: guard(cell) for key, cell in cells.items()})
    file = load(tmp_path_factory.mktemp("csv"), out.getvalue())
    assert file.errors == []
    for row, record in zip(rows, file.records, strict=True):
        content = record.content("d")
        assert {key: content[key] for key in row} == row
