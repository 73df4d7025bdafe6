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
