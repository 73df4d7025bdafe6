"""The map's geometry: the same every time, nothing upon another, near where it reads alike."""

import numpy as np
import pytest

from evaluation.core.layout import GAP, layout


def groups(count=240, width=24, kinds=6, seed=1):
    """Vectors around a few centres, with the kind of each."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(kinds, width))
    kind = np.arange(count) % kinds
    return (centres[kind] + random.normal(scale=0.25, size=(count, width))).astype(np.float32), kind


def overlaps(points, radii):
    delta = points[:, None].astype(float) - points[None].astype(float)
    away = np.sqrt((delta**2).sum(-1)) - radii[:, None] - radii[None]
    return int((away[np.triu_indices(len(points), 1)] < 0).sum())


def test_same_input_gives_the_same_map():
    rows, _ = groups()
    sizes = np.arange(len(rows)) % 20 + 2
    first, second = layout(rows, sizes), layout(rows.copy(), sizes.copy())
    assert (first[0] == second[0]).all() and (first[1] == second[1]).all()


def test_circles_never_overlap_and_their_area_is_the_number_of_tools():
    rows, _ = groups()
    sizes = np.arange(len(rows)) % 24 + 2
    points, radii = layout(rows, sizes)
    assert overlaps(points, radii + GAP / 2 - 1) == 0
    assert radii[sizes == 8][0] == pytest.approx(2 * radii[sizes == 2][0], abs=1)


@pytest.mark.parametrize(
    "rows",
    [
        np.ones((60, 5), np.float32),
        np.zeros((60, 5), np.float32),
        np.eye(1, 4, dtype=np.float32),
        np.eye(2, 4, dtype=np.float32),
        np.eye(3, 4, dtype=np.float32),
        np.zeros((0, 1), np.float32),
        np.linspace(0, 1, 30, dtype=np.float32).reshape(-1, 1),
    ],
    ids=["equal", "zero", "one", "two", "three", "none", "one-dimensional"],
)
def test_degenerate_vectors_still_give_a_map(rows):
    points, radii = layout(rows, np.full(len(rows), 3))
    assert points.shape == (len(rows), 2) and np.isfinite(points).all()
    assert overlaps(points, radii) == 0


def test_clusters_that_read_alike_lie_beside_each_other():
    rows, kind = groups()
    points, _ = layout(rows, np.full(len(rows), 4))
    away = ((points[:, None] - points[None]) ** 2).sum(-1).astype(float)
    np.fill_diagonal(away, np.inf)
    nearest = np.argsort(away, axis=1)[:, :5]
    assert (kind[nearest] == kind[:, None]).mean() > 0.95
