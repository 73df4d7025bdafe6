"""Records: which samples and formats a cell trains on, and what is real tokens in them."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.core.tokens import FORMATS, NameIndex, tool_units
from tests.training.small_snapshot import NAMES, sample, tool, write_snapshot
from trace_site.lib.errors import TraceError
from training.core.memorization import stage1_records
from training.core.recipe import MEMOS, RETRIEVALS, Recipe
from training.core.records import (
    Parts,
    Record,
    Snapshot,
    Units,
    list_parts,
    load_snapshot,
    query_parts,
    stage2_records,
    text_parts,
)
from training.core.stages import passes


def spelled(parts: Parts) -> str:
    """Text with tool tokens in square brackets."""
    return "".join(part if isinstance(part, str) else f"[{''.join(part.strings)}]" for part in parts)


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


def crowd(count: int, **override: Any) -> Snapshot:
    """Tools in a ring, each near the ten that follow it; two in eleven share a description."""
    names = [f"Api{number // 7}/do-{number}" for number in range(count)]
    tools = [
        tool(name, f"Does the thing of kind {at // 2 if at % 11 < 2 else at}")
        for at, name in enumerate(names)
    ]
    near = {name: [names[(at + step) % count] for step in range(11)] for at, name in enumerate(names)}
    facts = {"tools": tools, "neighbours": near, "rules": [], "tokens": [], "samples": []}
    return Snapshot(**{**facts, "hash": "h", "catalog_hash": "c", **override})


def choices(records: list[Record]) -> dict[str, list[Units]]:
    return {r.id: [p for p in r.prompt if isinstance(p, Units)] for r in records if r.kind == "mcts"}


@pytest.mark.parametrize("fmt", ["a", "b", "c"])
def test_the_gold_tool_stands_at_each_place_equally_often(fmt: str) -> None:
    records = stage1_records(crowd(3000), Recipe(format=fmt, mcts_negatives=7))
    gold = {r.id: r.answer[0] for r in records if r.kind == "mcts"}
    places = Counter(shown.index(gold[name]) for name, shown in choices(records).items())
    expected = 3000 / 8
    chi_square = sum((places[place] - expected) ** 2 / expected for place in range(8))
    assert chi_square < 24.3  # the 0.1 % point of seven degrees of freedom


def test_negatives_are_the_nearest_and_never_the_gold_a_retired_tool_or_a_tool_described_in_the_same_words() -> (
    None
):
    whole = crowd(200)
    retired = {name for at, name in enumerate(whole.neighbours) if at % 3 == 0}
    snapshot = crowd(200, tools=[row for row in whole.tools if row["name"] not in retired])
    words = {row["name"]: row["description"] for row in snapshot.tools}
    index = NameIndex(words, "a")
    for name, shown in choices(stage1_records(snapshot, Recipe(format="a", mcts_negatives=4))).items():
        names = [index.tokens[part.strings[0]] for part in shown]
        near = [n for n in snapshot.neighbours[name] if n in words and n != name and words[n] != words[name]]
        assert names.count(name) == 1
        assert sorted(names) == sorted([name, *near[:4]])


def test_choices_do_not_depend_on_the_order_of_the_tools() -> None:
    snapshot = crowd(60)
    turned = crowd(60, tools=snapshot.tools[::-1])
    assert choices(stage1_records(snapshot, Recipe())) == choices(stage1_records(turned, Recipe()))


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


CELLS = [(f, m, r) for f in FORMATS for m in MEMOS for r in RETRIEVALS]


@pytest.mark.parametrize(("fmt", "memo", "retrieval"), CELLS)
def test_every_cell_of_the_grid_has_its_records(folder: Path, fmt: str, memo: str, retrieval: str) -> None:
    snapshot, recipe = (
        load_snapshot(folder),
        Recipe(format=fmt, memo=memo, retrieval=retrieval, base="some/base"),
    )
    memorized = stage1_records(snapshot, recipe) if memo != "none" else []
    assert len(memorized) == {"none": 0}.get(memo, (3 if fmt == "a" else 5) * len(NAMES))
    assert all(bool(record.thinking) == (memo == "mr") for record in memorized)
    found = [stage2_records(snapshot, recipe.with_cell(retrieval=step)) for step in passes(recipe)]
    counts = [(len(records), sum(bool(record.thinking) for record in records)) for records in found]
    plain, reasoned, ruled = (5, 0), (5, 5), (10, 10)
    wanted = {
        "none": [],
        "n": [plain],
        "r": [reasoned],
        "r+R": [ruled],
        "n>r": [plain, reasoned],
    }
    assert counts == wanted[retrieval]


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_reasoning_memo_reasons_from_facts_and_commits_to_the_answer(folder: Path, fmt: str) -> None:
    records = stage1_records(load_snapshot(folder), Recipe(format=fmt, memo="mr"))
    said = {r.kind: spelled(r.thinking) for r in records if r.id == "PayV1/GetSlip"}
    slip, runs, newer = (spelled((Units(tuple(tool_units(name, fmt))),)) for name in NAMES[:3])
    start = tool_units("PayV2/MakeRun", fmt)
    asked = "The description asks for: Reads a pay slip. "
    near = (
        f"Near it stands {runs}, which is about lists, runs; {newer}, which is about newer;"
        f" [{''.join(start)}], which is about starts, run."
    )
    assert said["desc2token"] == f"{asked}{near} So it is {slip}."
    assert said["mcts"] == said["desc2token"]
    assert said["token2desc"] == near
    if fmt != "a":
        assert said["desc2api"].endswith("So it is [<<PayV1>>].")
        assert "[<<PayV2>>], which is about newer" in said["desc2api"]
        assert said["api2endpoint"] == (
            f"{asked}Near it stands [<<ListRuns>>], which is about lists, runs."
            " Only here: reads, slip. So it is [<<GetSlip>>]."
        )


def test_a_reasoning_memo_never_spells_the_name_of_its_tool(folder: Path) -> None:
    for record in stage1_records(load_snapshot(folder), Recipe(format="a", memo="mr")):
        text = "".join(part for part in record.thinking if isinstance(part, str))
        assert record.id not in text
        assert "<<" not in text


def test_a_tool_without_look_alikes_reasons_too(folder: Path) -> None:
    alone = replace(load_snapshot(folder), neighbours={})
    records = stage1_records(alone, Recipe(format="c", memo="mr"))
    said = {record.kind: spelled(record.thinking) for record in records if record.id == "Time/Book Leave"}
    assert said["token2desc"] == "Only here: books, leave."
    assert said["desc2token"].startswith(
        "The description asks for: Books leave. Only here: books, leave. So it is"
    )


def test_a_deprecated_look_alike_is_called_that(folder: Path) -> None:
    snapshot = load_snapshot(folder)
    snapshot.tools[1]["deprecated"] = True
    (record, *_) = stage1_records(snapshot, Recipe(format="a", memo="mr"))
    assert "which is about lists, runs and is deprecated;" in spelled(record.thinking)


def test_empty_thinking_share_adds_memos_without_their_reasoning(folder: Path) -> None:
    snapshot = load_snapshot(folder)
    both = stage1_records(snapshot, Recipe(memo="mr", empty_thinking_share=1.0))
    plain = stage1_records(snapshot, Recipe(memo="m", empty_thinking_share=1.0))
    assert [record for record in both if not record.thinking] == plain
    assert len(both) == 2 * len(plain)


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


def test_clause_tokens_follow_the_ledger_too_and_belong_to_no_format() -> None:
    rows = [(1, "<<hr/R#2>>", "active"), (0, "<<hr/R#1>>", "retired")]
    tokens = [{"family": "clause", "slot": at, "string": text, "state": state} for at, text, state in rows]
    snapshot = crowd(1, tokens=tokens)
    assert snapshot.clause_strings() == ["<<hr/R#1>>", "<<hr/R#2>>"]
    assert [snapshot.family_strings(fmt) for fmt in "abc"] == [[], [], []]
    with pytest.raises(TraceError, match="gaps or repeats"):
        crowd(1, tokens=tokens[:1]).clause_strings()


STATEMENTS = [
    {"token": "<<hr/R#1>>", "text": "From 2024 on use A/new", "stance": "use", "tools": ["A/new"]},
    {"token": "<<hr/R#2>>", "text": "Never call A/old", "stance": "not", "tools": ["A/old"]},
    {
        "token": "<<hr/R#4>>",
        "text": "A/new and A/old read slips",
        "stance": "tells",
        "tools": ["A/new", "A/old"],
    },
]


@pytest.mark.parametrize(
    ("changed", "tokens"),
    [
        ({"answer": ["A/new"]}, ("<<hr/R#1>>", "<<hr/R#4>>")),
        ({"answer": ["A/old"]}, ("<<hr/R#4>>",)),
        ({"answer": ["A/other"]}, ()),
        ({"answer": ["A/new"], "domain": "finance"}, ()),
        ({"answer": ["A/new"], "branch": "rrb", "rule": None}, ()),
        ({"answer": ["A/new"], "branch": "imported", "rule": None}, ()),
    ],
)
def test_clauses_that_lead_to_the_answer_speak_in_a_sample(changed, tokens) -> None:
    rules = [{"domain": "hr", "code": "R", "statements": STATEMENTS}, {"domain": "finance", "code": "R"}]
    row = sample(0, **{"branch": "rule", "rule": "R", **changed})
    assert crowd(1, rules=rules).decisive_clauses(row) == tokens


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
