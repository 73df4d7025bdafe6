"""Names to tokens and back over the public catalog, in the three formats: nothing is lost, the pair decides."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from catalog.core.tokens import FORMATS, NameIndex, split_name, tool_units
from tests.token_lists import list_json
from training.core.records import Units, list_parts, text_parts

FOLDER = Path(settings.TRACE_PUBLIC_DATA) / "catalog"
ODD = (
    "Zahlung/rück-überweisung.v2",
    "Pay Desk/make it",
    "Pay Desk/make it twice",
    "A/b",
    "A/b.c",
    "A/b-c/d",
    "b/A",
    "支付/退款",
)
NAMES = [
    *ODD,
    *(
        json.loads(line)["name"]
        for path in sorted(FOLDER.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ),
]
pytestmark = pytest.mark.skipif(
    len(NAMES) == len(ODD), reason="the public data is absent (set TRACE_PUBLIC_DATA)"
)
INDEX = {fmt: NameIndex(NAMES, fmt) for fmt in FORMATS}
# between names: at least one character that ends a name, whatever follows
GLUE = st.builds(
    "{}{}".format,
    st.sampled_from(
        [" ", ", ", ". ", "\n", " (", ") ", "; ", "? ", "… ", " – ", "\t", " “", "” ", " <", "> ", " & "]
    ),
    st.text(alphabet="ab ,;()\n", max_size=6).map(lambda text: text and text + " "),
)


def to_tokens(index: NameIndex, text: str) -> str:
    return "".join("".join(index.units[name]) if name else piece for piece, name in index.split(text))


def by_endpoint() -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in NAMES:
        found[split_name(name)[1]].append(name)
    return found


SHARED = {endpoint: names for endpoint, names in by_endpoint().items() if len(names) > 1}


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_name_alone_first_last_and_in_a_row_becomes_its_tokens_and_returns(fmt: str) -> None:
    index = INDEX[fmt]
    for name, following in zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True):
        token = "".join(tool_units(name, fmt))
        assert to_tokens(index, name) == token
        text = f"{name} {following}, not {name}. So {following}"
        tokens = to_tokens(index, text)
        other = "".join(tool_units(following, fmt))
        assert tokens == f"{token} {other}, not {token}. So {other}"
        assert index.to_names(tokens) == text


@given(st.lists(st.tuples(st.sampled_from(NAMES), GLUE), max_size=8), st.sampled_from(FORMATS))
def test_round_trip_of_any_text(parts: list[tuple[str, str]], fmt: str) -> None:
    index = INDEX[fmt]
    text = "".join(f"{name}{glue}" for name, glue in parts)
    tokens = to_tokens(index, text)
    assert tokens == "".join(f"{''.join(tool_units(name, fmt))}{glue}" for name, glue in parts)
    assert index.to_names(tokens) == text


@given(
    st.sampled_from(NAMES),
    st.sampled_from([".v9", "x", "_", "/more", "-all", "&z", ":1"]),
    st.sampled_from(FORMATS),
)
def test_a_name_inside_a_longer_word_stays_text(name: str, tail: str, fmt: str) -> None:
    longer = f"{name}{tail}"
    if longer not in INDEX[fmt].units:
        # of "desk/make it twice.v9" the tool "desk/make it" may be meant, "desk/make it twice" may not
        found = INDEX[fmt].names_in(longer)
        assert all(end < len(name) and longer[end] == " " for _, end, _ in found)
        assert found or to_tokens(INDEX[fmt], f"use {longer} now") == f"use {longer} now"
    assert to_tokens(INDEX[fmt], f"use x{name} now") == f"use x{name} now" or f"x{name}" in INDEX[fmt].units


@pytest.mark.parametrize("fmt", ["b", "c"])
def test_tools_that_share_an_endpoint_differ_by_the_pair(fmt: str) -> None:
    index = INDEX[fmt]
    assert sum(map(len, SHARED.values())) >= 2523
    for names in SHARED.values():
        row = " ".join(names)
        tokens = to_tokens(index, row)
        assert tokens.count(f"<<{split_name(names[0])[1]}>>") >= len(names)
        assert index.to_names(tokens) == row
        assert index.to_names(tokens.replace("> <", "><")) == "".join(names)


@pytest.mark.parametrize("fmt", ["b", "c"])
def test_a_pair_that_is_no_tool_stays_tokens(fmt: str) -> None:
    index, apis = INDEX[fmt], sorted({split_name(name)[0] for name in NAMES})
    for api, (endpoint, names) in zip(apis, SHARED.items(), strict=False):
        if f"{api}/{endpoint}" not in index.units:
            pair = "".join(tool_units(f"{api}/{endpoint}", fmt))
            assert index.to_names(f"{pair}, {names[0]}") == f"{pair}, {names[0]}"


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True), st.sampled_from(FORMATS))
def test_the_answer_list_is_one_text_for_training_and_filter(names: list[str], fmt: str) -> None:
    index = INDEX[fmt]
    written = list_json(names, fmt)
    parts = list_parts(names, index)
    assert "".join("".join(part.strings) if isinstance(part, Units) else part for part in parts) == written
    assert [index.to_names(token) for token in json.loads(written)] == names


@given(st.lists(st.tuples(st.sampled_from(NAMES), GLUE), max_size=6), st.sampled_from(FORMATS))
def test_training_turns_exactly_the_names_of_a_trace_into_tokens(
    parts: list[tuple[str, str]], fmt: str
) -> None:
    text = "".join(f"{name}{glue}" for name, glue in parts)
    units = [part.strings for part in text_parts(text, INDEX[fmt]) if isinstance(part, Units)]
    assert units == [tuple(tool_units(name, fmt)) for name, _ in parts]
