"""Records: which samples and formats a cell trains on, and what is real tokens in them."""

from collections import Counter
from pathlib import Path

import pytest

from catalog.core.tokens import NameIndex
from tests.training.small_snapshot import NAMES, sample, write_snapshot
from trace_site.lib.errors import TraceError
from training.core.parts import Units, list_parts, query_parts, text_parts
from training.core.recipe import Recipe
from training.core.records import (
    load_snapshot,
    stage1_records,
    stage2_records,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_snapshot(tmp_path / "snapshot")


@pytest.mark.parametrize(("fmt", "extra"), [("a", 0), ("b", 2), ("c", 2)])
def test_stage1_has_three_formats_and_two_more_for_pairs(folder: Path, fmt: str, extra: int) -> None:
    records = stage1_records(load_snapshot(folder), Recipe(format=fmt))
    kinds = Counter(record.kind for record in records)
    assert kinds["desc2token"] == kinds["token2desc"] == kinds["mcts"] == len(NAMES)
    assert len(kinds) == 3 + extra
    assert len(records) == (3 + extra) * len(NAMES)


def test_choice_holds_the_gold_tool_among_its_nearest(folder: Path) -> None:
    records = stage1_records(load_snapshot(folder), Recipe(format="a", mcts_negatives=2))
    choice = next(r for r in records if r.kind == "mcts" and r.id == "Time/Book Leave")
    units = {part.strings[0] for part in choice.prompt if isinstance(part, Units)}
    assert units == {"<<Time&&Book Leave>>", "<<PayV1&&GetSlip>>", "<<PayV1&&ListRuns>>"}
    assert choice.answer == (Units(("<<Time&&Book Leave>>",)),)


def test_choices_are_shuffled_by_the_seed(folder: Path) -> None:
    snapshot = load_snapshot(folder)
    orders = {
        tuple(
            p.strings
            for r in stage1_records(snapshot, Recipe(seed=seed))
            for p in r.prompt
            if not isinstance(p, str)
        )
        for seed in range(4)
    }
    assert len(orders) == 4
    assert stage1_records(snapshot, Recipe(seed=1)) == stage1_records(snapshot, Recipe(seed=1))


@pytest.mark.parametrize(("retrieval", "count", "traced"), [("n", 5, 0), ("r", 5, 5), ("r+R", 10, 10)])
def test_each_retrieval_cell_takes_its_samples(folder: Path, retrieval: str, count: int, traced: int) -> None:
    records = stage2_records(load_snapshot(folder), Recipe(retrieval=retrieval))
    assert (len(records), sum(bool(r.thinking) for r in records)) == (count, traced)


def test_retrieval_none_has_no_records(folder: Path) -> None:
    assert stage2_records(load_snapshot(folder), Recipe(retrieval="none")) == []


def test_a_sample_without_a_trace_gets_an_empty_thinking_part(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path, [sample(1, trace="")])
    (record,) = stage2_records(load_snapshot(folder), Recipe(retrieval="r"))
    assert record.thinking == ()


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 40, 40), (0.5, 50, 70), (1.0, 80, 80)])
def test_empty_thinking_share_adds_records_and_takes_none(
    tmp_path: Path, share: float, low: int, high: int
) -> None:
    folder = write_snapshot(tmp_path, [sample(number, branch="rrb") for number in range(40)])
    records = stage2_records(load_snapshot(folder), Recipe(retrieval="r", empty_thinking_share=share))
    assert low <= len(records) <= high
    assert sum(bool(record.thinking) for record in records) == 40


def test_names_in_a_trace_become_units_and_the_rest_stays_text() -> None:
    index = NameIndex(["Pay/Get"], "c")
    assert text_parts("Use Pay/Get, then <<Pay&&Get>>.", index) == (
        "Use ",
        Units(("<tid>", "<<Pay>>", "<<Get>>", "</tid>")),
        ", then <<Pay&&Get>>.",
    )


def test_the_answer_is_a_json_list_of_tokens() -> None:
    index = NameIndex(NAMES, "a")
    parts = list_parts(["PayV1/GetSlip", "PayV2/GetSlip"], index)
    text = "".join(part if isinstance(part, str) else "".join(part.strings) for part in parts)
    assert text == '["<<PayV1&&GetSlip>>", "<<PayV2&&GetSlip>>"]'


def test_permissions_are_named_only_when_the_request_carries_them() -> None:
    assert query_parts("q") == ("q",)
    assert query_parts("q", ["a.read", "b"]) == ("q", "\nPermissions: a.read, b")


def test_token_order_follows_the_ledger_with_retired_slots_kept(folder: Path) -> None:
    strings = load_snapshot(folder).family_strings("a")
    assert strings[0] == "<<Old&&Gone>>"
    assert len(strings) == len(NAMES) + 1
    assert load_snapshot(folder).family_strings("c")[:2] == ["<tid>", "</tid>"]


def test_an_unknown_tool_in_an_answer_is_refused(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path, [sample(1, answer=["No/Such"])])
    with pytest.raises(TraceError, match="No/Such"):
        stage2_records(load_snapshot(folder), Recipe(retrieval="r"))


def test_a_cell_without_any_sample_is_refused(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path, [sample(0)])
    with pytest.raises(TraceError, match="no sample"):
        stage2_records(load_snapshot(folder), Recipe(retrieval="r"))


def test_an_unfinished_snapshot_is_refused(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    with pytest.raises(TraceError, match="unfinished"):
        load_snapshot(folder)


def test_a_changed_file_is_refused(folder: Path) -> None:
    (folder / "tools.jsonl").write_text("")
    with pytest.raises(TraceError, match="not the one the manifest describes"):
        load_snapshot(folder)
