"""Exact neighbours, ties by name, and incremental writing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import lookalikes
from catalog.core.neighbours import top_k
from catalog.models import NeighbourList, Tool
from tests.factories import make_tool
from trace_site.lib.errors import TraceError


def brute_force(rows: np.ndarray, k: int) -> list[list[int]]:
    cosines = np.rint((rows @ rows.T).astype(np.float64) * 1_000_000)
    order = range(len(rows))
    return [sorted((j for j in order if j != i), key=lambda j, i=i: (-cosines[i, j], j))[:k] for i in order]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=3, max_size=3), min_size=1, max_size=12))
def test_top_k_equals_brute_force_also_on_ties(vectors: list[list[float]]) -> None:
    rows = np.array(vectors, dtype=np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    positions, cosines = top_k(rows, 4)
    assert positions.tolist() == brute_force(rows, 4)
    assert (np.diff(cosines, axis=1) <= 0).all()


def test_blocks_join_without_a_seam(monkeypatch) -> None:
    rows = np.random.default_rng(0).normal(size=(23, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    monkeypatch.setattr("catalog.core.neighbours.BLOCK", 5)
    assert top_k(rows, 13)[0].tolist() == brute_force(rows, 13)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 8), st.data())
def test_lists_brought_up_to_date_equal_lists_found_anew(
    seed: int, count: int, k: int, data: st.DataObject
) -> None:
    """Rows change, come and go; names are numbers, so that an order of names is an order of numbers."""
    draw = np.random.default_rng(seed)

    def unit(size: int) -> np.ndarray:
        rows = draw.integers(-2, 3, size=(size, 4)).astype(np.float32)  # many ties
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    before = dict(enumerate(unit(count)))
    gone = data.draw(st.sets(st.sampled_from(sorted(before)), max_size=3))
    changed = data.draw(st.sets(st.sampled_from(sorted(before)), max_size=3)) - gone
    came = data.draw(st.sets(st.integers(0, 60), max_size=3)) - before.keys()
    first, lists = sorted(before), top_k(np.array([before[name] for name in sorted(before)]), k)
    after = {name: row for name, row in before.items() if name not in gone}
    after |= dict(zip(sorted(changed | came), unit(len(changed | came)), strict=True))
    names = sorted(after)
    place = {name: number for number, name in enumerate(names)}
    same = after.keys() - changed - came
    known = {}
    for number, name in enumerate(first):
        if name in same:
            near = [(first[o], s) for o, s in zip(lists[0][number], lists[1][number], strict=True)]
            still = [(place[other], score) for other, score in near if other in same]
            known[place[name]] = ([other for other, _ in still], [score for _, score in still])
    rows = np.array([after[name] for name in names])
    if len(rows) == 0:
        return
    again, whole = top_k(rows, k, known=known), top_k(rows, k)
    assert again[0].tolist() == whole[0].tolist()
    assert again[1].tolist() == whole[1].tolist()


@pytest.fixture
def encoder(monkeypatch) -> list[str]:
    """Replaces the child process by letter counts; collects what was encoded."""
    seen: list[str] = []

    def encode(texts: list[dict[str, str]], *, echo: Any = None) -> tuple[list[str], np.ndarray]:
        seen.extend(row["text"] for row in texts)
        rows = np.array([[1 + row["text"].count(c) for c in "abcxyz"] for row in texts], dtype=np.float32)
        return [row["id"] for row in texts], rows / np.linalg.norm(rows, axis=1, keepdims=True)

    monkeypatch.setattr(lookalikes, "encode_texts", encode)
    return seen


@pytest.mark.django_db
def test_only_changed_texts_are_encoded_and_only_changed_lists_written(encoder: list[str]) -> None:
    for name in ("A/aa", "A/ab", "A/xyz", "A/xy"):
        make_tool(name)
    first = lookalikes.neighbours_update(k=2)
    assert (first["encoded"], first["changed"]) == (4, 4)
    assert lookalikes.neighbours_update(k=2)["changed"] == 0
    Tool.objects.filter(name="A/xy").update(description="yyyyyyyyyyy")
    encoder.clear()
    assert lookalikes.neighbours_update(k=2)["encoded"] == len(encoder) == 1


def lists() -> list[Any]:
    fields = ("tool", "neighbour_ids", "scores", "other_ids", "other_scores", "embedding_key")
    return list(NeighbourList.objects.order_by("tool").values_list(*fields))


@pytest.mark.django_db
def test_after_edits_the_stored_lists_are_those_of_a_fresh_start(encoder: list[str]) -> None:
    letters = ("aab", "abx", "xyz", "xy", "cab", "zzy", "bcx", "yab", "xcb", "aaz")
    tools = [make_tool(f"{api}/{word}") for word in letters for api in ("PayV1", "PayV2")]
    lookalikes.neighbours_update(k=3)
    Tool.objects.filter(pk=tools[4].pk).update(description="xxxxxxxxxxxxxzzz")
    Tool.objects.filter(pk=tools[7].pk).update(
        status="retired"
    )  # a newest version: the older one takes its place
    make_tool("PayV3/aab")
    encoder.clear()
    lookalikes.neighbours_update(k=3)
    assert len(encoder) == 2
    brought_up_to_date = lists()
    NeighbourList.objects.all().delete()
    lookalikes.neighbours_update(k=3)
    assert brought_up_to_date == lists()


@pytest.mark.django_db
def test_older_versions_are_nobodys_neighbour_among_operations(encoder: list[str]) -> None:
    for name in ("PayV1/aab", "PayV2/aab", "PayV1/xyz", "Other/abx"):
        make_tool(name)
    lookalikes.neighbours_update(k=3)
    ids = dict(Tool.objects.values_list("name", "pk"))
    known = dict(NeighbourList.objects.values_list("tool", "other_ids"))
    assert known[ids["PayV1/aab"]] is None
    assert sorted(known[ids["Other/abx"]]) == sorted([ids["PayV2/aab"], ids["PayV1/xyz"]])


@pytest.mark.django_db
def test_retired_tool_leaves_every_list(encoder: list[str]) -> None:
    tools = [make_tool(f"A/{'x' * n}") for n in range(1, 5)]
    lookalikes.neighbours_update(k=3)
    Tool.objects.filter(pk=tools[0].pk).update(status="retired")
    assert lookalikes.neighbours_update(k=3)["removed"] == 1
    assert all(tools[0].pk not in row.neighbour_ids for row in NeighbourList.objects.all())
    stored = NeighbourList.objects.get(pk=tools[1].pk)
    assert len(stored.neighbour_ids) == len(stored.scores) == 2


@pytest.mark.django_db
def test_stored_embedding_is_a_unit_vector(encoder: list[str]) -> None:
    make_tool("A/abc")
    lookalikes.neighbours_update()
    assert np.linalg.norm(Tool.objects.get().embedding) == pytest.approx(1, abs=1e-5)


@pytest.mark.django_db
def test_empty_catalog_is_said_so() -> None:
    with pytest.raises(TraceError, match="there are no tools"):
        lookalikes.neighbours_update()
