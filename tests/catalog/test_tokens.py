"""Token strings, the ledger and the substitution of names by tokens."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.ledger import LedgerRow, assign_slots
from catalog.core.tokens import FORMATS, NameIndex, clause_token, split_name, tool_units
from tests.token_lists import list_json
from trace_site.lib.errors import TraceError

WORD = st.text(alphabet="abAB09_-. ", min_size=1, max_size=6).filter(
    lambda s: s.strip() == s and s.strip("-. ")
)
NAMES = st.lists(st.builds("{}/{}".format, WORD, WORD), min_size=1, max_size=6, unique=True)


def test_name_splits_at_the_first_slash() -> None:
    assert split_name("Pay/v1/post") == ("Pay", "v1/post")


@pytest.mark.parametrize("name", ["", "Pay", "/x", "Pay/"])
def test_name_without_both_parts_is_refused(name: str) -> None:
    with pytest.raises(TraceError, match="API/ENDPOINT"):
        split_name(name)


def test_units_of_the_three_formats() -> None:
    assert tool_units("Pay/make it", "a") == ["<<Pay&&make it>>"]
    assert tool_units("Pay/make it", "b") == ["<<Pay>>", "<<make it>>"]
    assert tool_units("Pay/make it", "c") == ["<tid>", "<<Pay>>", "<<make it>>", "</tid>"]


def test_ledger_never_renumbers_and_never_reuses_a_slot() -> None:
    first = assign_slots([], ["B/x", "A/x"])
    second = assign_slots(first, ["A/x", "A/new"])
    third = assign_slots(second, ["A/x", "A/new", "B/x"])
    assert [(r.slot, r.string, r.state) for r in second if r.family == "flat"] == [
        (0, "<<A&&x>>", "active"),
        (1, "<<B&&x>>", "retired"),
        (2, "<<A&&new>>", "active"),
    ]
    assert {(r.family, r.slot, r.string) for r in third} == {(r.family, r.slot, r.string) for r in second}
    assert all(r.state == "active" for r in third)


def test_api_and_endpoint_of_one_name_share_a_slot() -> None:
    ledger = assign_slots([], ["Pay/Pay"])
    assert [r for r in ledger if r.family == "part"] == [LedgerRow("part", 0, "<<Pay>>")]
    assert [r.string for r in ledger if r.family == "wrap"] == ["<tid>", "</tid>"]


def test_tokens_of_clauses_stay_as_they_are() -> None:
    clauses = [
        LedgerRow("clause", 0, clause_token("hr", "R", 1), "retired"),
        LedgerRow("clause", 1, "<<hr/R#2>>"),
    ]
    ledger = assign_slots(clauses, ["Pay/Pay"])
    assert [row for row in ledger if row.family == "clause"] == clauses


def test_two_tools_with_one_flat_token_are_refused() -> None:
    with pytest.raises(TraceError, match="would share"):
        assign_slots([], ["A&&B/C", "A/B&&C"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("use Pay/get.", ["Pay/get"]),
        ("use Pay/get.v2 now", ["Pay/get.v2"]),
        ("use Pay/get-all, not Pay/get", ["Pay/get-all", "Pay/get"]),
        ("use Pay/getter", []),
        ("use XPay/get", []),
        ("(My Pay/get) or Pay/get", ["My Pay/get", "Pay/get"]),
        ("Pay/get/Pay/get", []),
        ("Pay/get", ["Pay/get"]),
    ],
)
def test_longest_whole_name_wins(text: str, expected: list[str]) -> None:
    index = NameIndex(["Pay/get", "Pay/get.v2", "Pay/get-all", "My Pay/get"], "a")
    assert [name for _, _, name in index.names_in(text)] == expected


def to_tokens(index: NameIndex, text: str) -> str:
    return "".join("".join(index.units[name]) if name else piece for piece, name in index.split(text))


@given(NAMES, st.sampled_from("abc"), st.text(alphabet="ab /.,<&>\n", max_size=20), st.data())
def test_substitution_there_and_back(names: list[str], fmt: str, glue: str, data: st.DataObject) -> None:
    index = NameIndex(names, fmt)
    chosen = data.draw(st.lists(st.sampled_from(names), max_size=4))
    text = glue + f" {glue} ".join(chosen) + glue
    assert index.to_names(to_tokens(index, text)) == text


@given(NAMES, st.sampled_from("abc"))
def test_every_name_between_spaces_is_replaced(names: list[str], fmt: str) -> None:
    index = NameIndex(names, fmt)
    text = "".join(f"[{name}] " for name in names)
    assert to_tokens(index, text) == "".join(f"[{''.join(tool_units(name, fmt))}] " for name in names)


@given(NAMES, st.sampled_from("abc"), st.data())
def test_tools_are_named_by_whole_token_sequences_in_reading_order(
    names: list[str], fmt: str, data: st.DataObject
) -> None:
    index = NameIndex(names, fmt)
    chosen = data.draw(st.lists(st.sampled_from(names), max_size=6))
    text = "; ".join(["".join(index.units[name]) for name in chosen])
    assert index.named(f"spelled {names[0]}, <tid>, {text}") == chosen


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_slots_are_permanent_over_any_history(history: list[list[str]]) -> None:
    ledger: list[LedgerRow] = []
    seen: dict[tuple[str, str], int] = {}
    for names in history:
        ledger = assign_slots(ledger, names)
        for row in ledger:
            assert seen.setdefault((row.family, row.string), row.slot) == row.slot
        for family in ("flat", "part", "wrap"):
            slots = [row.slot for row in ledger if row.family == family]
            assert slots == list(range(len(slots)))


@pytest.mark.parametrize(
    "endpoint", ['say "so"', "App\\Http::show", "\\", '\\"', "List<T>", "a&&b", "x>>", "</tid>"]
)
def test_a_list_of_tokens_is_json_and_names_come_back(endpoint: str) -> None:
    names = [f"Pay/{endpoint}", "Pay/x"]
    for fmt in FORMATS:
        index = NameIndex(names, fmt)
        written = list_json(names[:1], fmt)
        assert index.named(written) == names[:1] and len(json.loads(written)) == 1
        assert index.to_names("".join(tool_units(names[0], fmt))) == names[0]
