"""8,323 tools, 500 more, 500 fewer, 100 back: every id keeps its tool, in old traces and in old exports."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from catalog.core.ledger import LedgerRow, assign_slots
from catalog.core.tokens import FORMATS, NameIndex, tool_units
from tests.token_lists import list_json
from trace_site.lib.errors import TraceError
from training.core.recipe import Recipe
from training.core.records import Snapshot, Units, list_parts, stage2_records, text_parts

SIZE, ADDED, RETIRED, BACK = 8_323, 500, 500, 100
FIRST = 1_000  # the id of the first tool token in some vocabulary


def synthetic_names() -> list[str]:
    """As many tools as the public catalog has, with endpoints shared by about a third of them."""
    return [f"Api{at // 9}/{'list' if at % 3 == 0 else f'do-{at}'}{at % 9}" for at in range(SIZE)]


def public_names() -> list[str]:
    files = [Path(settings.TRACE_PUBLIC_DATA) / "catalog" / f"{domain}.jsonl" for domain in ("hr", "finance")]
    if not all(file.is_file() for file in files):
        pytest.skip(f"the public catalog is not at {settings.TRACE_PUBLIC_DATA}")
    return [
        json.loads(line)["name"] for file in files for line in file.read_text(encoding="utf-8").splitlines()
    ]


class Story:
    """The catalog and its ledger at four moments: as it was, after 500 came, after 500 left, after 100 came back."""

    def __init__(self, names: Sequence[str]) -> None:
        came = [f"New{at // 7}/{names[at].partition('/')[2]}" for at in range(ADDED)]
        left = names[7 :: len(names) // RETIRED][:RETIRED]
        kept = [name for name in [*names, *came] if name not in set(left)]
        self.left, self.back = left, left[:BACK]
        self.catalogs = [list(names), [*names, *came], kept, [*kept, *self.back]]
        self.ledgers: list[list[LedgerRow]] = []
        for catalog in self.catalogs:
            self.ledgers.append(assign_slots(self.ledgers[-1] if self.ledgers else [], catalog))

    def snapshot(self, at: int, **facts: Any) -> Snapshot:
        tokens = [
            {"family": r.family, "slot": r.slot, "string": r.string, "state": r.state}
            for r in self.ledgers[at]
        ]
        tools = [{"name": name, "description": name} for name in self.catalogs[at]]
        given = {"tools": tools, "neighbours": {}, "rules": [], "tokens": tokens, "samples": []} | facts
        return Snapshot(**given, hash="h", catalog_hash="c")


@pytest.fixture(scope="module", params=["synthetic", "public"])
def story(request: pytest.FixtureRequest) -> Story:
    return Story(public_names() if request.param == "public" else synthetic_names())


def test_the_stories_have_the_sizes_they_claim(story: Story) -> None:
    assert [len(catalog) for catalog in story.catalogs] == [SIZE, SIZE + 500, SIZE, SIZE + 100]
    assert len(set(story.catalogs[3])) == SIZE + 100


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_later_ledger_begins_with_the_earlier_one(story: Story, fmt: str) -> None:
    moments = [story.snapshot(at).family_strings(fmt) for at in range(4)]
    for before, after in pairwise(moments):
        assert after[: len(before)] == before
    assert len(moments[1]) > len(moments[0])
    assert moments[1] == moments[2] == moments[3]  # leaving and coming back change no row and add none


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_tool_keeps_its_ids(story: Story, fmt: str) -> None:
    before, after = (ids_of(story.snapshot(at), fmt) for at in (0, 3))
    for name in story.catalogs[0]:
        assert [before[unit] for unit in tool_units(name, fmt)] == [
            after[unit] for unit in tool_units(name, fmt)
        ]


@pytest.mark.parametrize("fmt", FORMATS)
def test_old_traces_and_answers_still_mean_the_same_tools(story: Story, fmt: str) -> None:
    """Ids written before, read with the ledger of today: retired tools included."""
    index, ids = NameIndex(story.catalogs[0], fmt), ids_of(story.snapshot(0), fmt)
    later = story.snapshot(3).family_strings(fmt)
    everyone = NameIndex({*story.catalogs[0], *story.catalogs[3]}, fmt)
    for first, second in zip(story.left, story.catalogs[0], strict=False):
        trace = f"Not {first} but {second}: it is older."
        written = [
            p if isinstance(p, str) else [ids[unit] for unit in p.strings] for p in text_parts(trace, index)
        ]
        read = "".join(
            p if isinstance(p, str) else "".join(later[number - FIRST] for number in p) for p in written
        )
        assert everyone.to_names(read) == trace
        answer = "".join(
            p if isinstance(p, str) else "".join(p.strings) for p in list_parts([first, second], index)
        )
        assert answer == list_json([first, second], fmt)


@pytest.mark.parametrize("fmt", FORMATS)
def test_an_export_made_before_reads_right_with_the_ledger_of_after(story: Story, fmt: str) -> None:
    ids, later = ids_of(story.snapshot(0), fmt), story.snapshot(3).family_strings(fmt)
    spec = [
        {"name": name, "ids": [ids[unit] for unit in tool_units(name, fmt)]} for name in story.catalogs[0]
    ]
    for tool in spec:
        assert [later[number - FIRST] for number in tool["ids"]] == tool_units(tool["name"], fmt)


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_retired_tool_is_a_tombstone_that_nothing_answers_with(story: Story, fmt: str) -> None:
    gone = story.left[BACK:]
    snapshot = story.snapshot(3, samples=[{"id": 1, "branch": "rrb", "query": "q", "answer": [gone[0]]}])
    with pytest.raises(TraceError, match=r"sample 1 answers with"):
        stage2_records(snapshot, Recipe(format=fmt, retrieval="n"))
    index = NameIndex((tool["name"] for tool in snapshot.tools), fmt)
    assert set(gone).isdisjoint(index.units)
    assert set(story.back) <= set(index.units)
    assert not any(isinstance(part, Units) for part in text_parts(f"Use {gone[0]}.", index))


def test_states_follow_the_catalog_and_slots_have_no_gaps(story: Story) -> None:
    for catalog, ledger in zip(story.catalogs, story.ledgers, strict=True):
        active = {row.string for row in ledger if row.state == "active"}
        assert active == {"<tid>", "</tid>"}.union(*(tool_units(n, f) for n in catalog for f in ("a", "b")))
        for family in ("flat", "part", "wrap"):
            slots = [row.slot for row in ledger if row.family == family]
            assert sorted(slots) == list(range(len(slots)))


def ids_of(snapshot: Snapshot, fmt: str) -> dict[str, int]:
    """The id of each token: its place in the ledger's order, as bases.add_tokens appends them."""
    return {string: FIRST + offset for offset, string in enumerate(snapshot.family_strings(fmt))}
