"""Files appear whole or not at all; bad input names its file and line."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_json, read_jsonl, read_text, write_atomic, write_jsonl

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@given(st.lists(st.dictionaries(text, text, max_size=4), max_size=5))
def test_json_lines_round_trip_any_text(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    assert write_jsonl(path, rows) == len(rows)
    assert [row for _, row in read_jsonl(path)] == rows


def test_hash_does_not_depend_on_key_order():
    assert content_hash({"a": 1, "b": [1, 2]}) == content_hash({"b": [1, 2], "a": 1})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": \n', r"rows.jsonl:2: not valid JSON"),
        (b'{"a": 1}\n\n[1]\n', r"rows.jsonl:3: expected a JSON object, found list"),
        (b'{"a": "\xff"}\n', r"rows.jsonl:1: not UTF-8"),
        (b'{"a": ' + b"[" * 100_000 + b"\n", r"rows.jsonl:1: not valid JSON"),
        (b'{"a": ["\\u0000"]}\n', r"rows.jsonl:1: a text holds a character that cannot be stored"),
        (b'{"\\ud83d": 1}\n', r"rows.jsonl:1: a text holds a character that cannot be stored"),
        (b"x" * 6_000_000, r"rows.jsonl:1: more than 5,000,000 characters in one line"),
    ],
)
def test_bad_line_names_file_and_line(tmp_path, content, message):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message):
        list(read_jsonl(path))


def test_pairs_of_surrogates_and_written_out_escapes_are_text(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(rb'{"a": "\ud83d\ude00", "b": "\\u0000"}')
    assert read_json(path) == {"a": "\N{GRINNING FACE}", "b": r"\u0000"}
    assert list(read_jsonl(path)) == [(1, read_json(path))]


def test_bom_is_read_as_text(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n')
    assert list(read_jsonl(path)) == [(1, {"a": 1})]


def test_missing_file_folder_and_huge_file_are_clear_errors(tmp_path):
    with pytest.raises(TraceError, match="does not exist"):
        read_json(tmp_path / "no.json")
    with pytest.raises(TraceError, match="is a folder"):
        read_text(tmp_path)
    with (tmp_path / "big.json").open("wb") as handle:
        os.truncate(handle.fileno(), 1_000_000_000)
    with pytest.raises(TraceError, match="1,000,000,000 bytes; the limit is 100,000,000"):
        read_text(tmp_path / "big.json")


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_atomic(path, "old")

    def disk_full(_fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trace_site.lib.files.os.fsync", disk_full)
    with pytest.raises(TraceError, match="No space left on device"):
        write_atomic(path, "new")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]
