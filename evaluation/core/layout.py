"""Where clusters lie on a map: near ones near, none upon another, the same on every run.

In: one vector a cluster (the mean of its tools' embeddings) and its number of tools. Out: whole coordinates and radii.
Two principal components give the start; each cluster is then drawn to its nearest ones and pushed from others, as in
UMAP (arXiv 1802.03426) with a = b = 1; last, circles that overlap are pushed apart.
"""

import numpy as np
import numpy.typing as npt

from catalog.core.neighbours import Rows, top_k

UNIT = 6.0  # radius of a circle of one tool: the area grows with the number of tools
GAP = 3.0  # between two circles
NEAREST = 8
EPOCHS = 150
REPELLED = 5  # others that push an end of an edge away, each epoch
FILLED = 0.40  # share of the map's square that circles cover, before overlaps are resolved
MOST_ROUNDS = 600

Points = npt.NDArray[np.float64]


def layout(
    vectors: Rows, sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(positions n x 2, radii n) around the origin. The rows must come in a fixed order: it settles ties."""
    radii = np.ceil(UNIT * np.sqrt(sizes))
    if len(sizes) < 2:
        return np.zeros((len(sizes), 2), dtype=np.int64), radii.astype(np.int64)
    points = _lying(embed(vectors))
    side = np.sqrt(np.pi * np.sum((radii + GAP) ** 2) / FILLED)
    spans = np.percentile(points, 98, axis=0) - np.percentile(points, 2, axis=0)
    scaled = (points - np.median(points, axis=0)) * (side / max(1e-9, float(np.sqrt(np.mean(spans**2)))))
    apart = spread(scaled, radii + GAP)
    return np.rint(apart - (apart.max(axis=0) + apart.min(axis=0)) / 2).astype(np.int64), radii.astype(
        np.int64
    )


def embed(vectors: Rows) -> Points:
    """n x 2, near rows near. Seeded, and what a matrix product gives is rounded: equal rows give equal points."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    points = _components(rows)
    heads, tails, weights = _links(rows)
    random = np.random.default_rng(0)
    for epoch in range(EPOCHS):
        step = 1.0 - epoch / EPOCHS
        moves = np.zeros_like(points)
        delta = points[heads] - points[tails]
        square = np.sum(delta * delta, axis=1)
        pull = delta * (-2.0 * weights / (1.0 + square))[:, None]
        _add(moves, heads, pull)
        _add(moves, tails, -pull)
        ends = np.repeat(heads, REPELLED)
        others = random.integers(0, len(points), len(ends))
        away = points[ends] - points[others]
        square = np.sum(away * away, axis=1)
        push = away * (2.0 / ((0.01 + square) * (1.0 + square)))[:, None]
        _add(moves, ends, np.clip(push, -4, 4))
        points = points + step * np.clip(moves / NEAREST, -2, 2)
    return points


def _lying(points: Points) -> Points:
    """Turned so that the longest way through the points is the horizontal one."""
    centred = points - points.mean(axis=0)
    (a, b), (_, d) = np.round(centred.T @ centred, 3)
    turn = round(0.5 * float(np.arctan2(2 * b, a - d)), 9)
    return centred @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])


def _components(rows: Rows) -> Points:
    """The first two principal components, at most 10 from the centre; a sign is fixed by the largest loading."""
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, -2:][:, ::-1]
    axes = axes * np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])
    points = np.zeros((len(rows), 2))
    points[:, : axes.shape[1]] = centred @ axes
    scale = np.abs(points).max()
    turn = np.arange(len(rows)) * 2.399963  # the golden angle: equal rows start beside each other, never upon
    nudge = np.stack([np.cos(turn), np.sin(turn)], axis=1) * 1e-3 * np.sqrt(np.arange(len(rows)))[:, None]
    return np.round(points * (10 / scale if scale > 0 else 1) + nudge, 6)


def _links(rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Points]:
    """(heads, tails, weights) of the nearest-neighbour graph: 1 to the nearest, falling with the distance."""
    places, cosines = top_k(rows, NEAREST)
    distance = np.sqrt(np.maximum(0.0, 2 - 2 * cosines))
    first, last = distance[:, :1], distance[:, -1:]
    weights = np.exp(-2 * (distance - first) / np.maximum(1e-6, last - first))
    heads = np.repeat(np.arange(len(rows)), places.shape[1])
    return heads, places.ravel(), np.round(weights.ravel(), 6)


def _add(moves: Points, at: npt.NDArray[np.int64], what: Points) -> None:
    for axis in (0, 1):
        moves[:, axis] += np.bincount(at, what[:, axis], minlength=len(moves))


def spread(points: Points, radii: Points) -> Points:
    """Push overlapping circles apart, each round; what is still crowded after a while is stretched as a whole."""
    points = points.copy()
    for round_ in range(MOST_ROUNDS):
        left, right = _crossing(points, radii)
        if not len(left):
            break
        delta = points[right] - points[left]
        distance = np.sqrt(np.sum(delta * delta, axis=1))
        turn = (left + right) * 2.399963
        apart = np.stack([np.cos(turn), np.sin(turn)], axis=1)
        ways = np.where(distance[:, None] > 1e-9, delta / np.maximum(distance, 1e-9)[:, None], apart)
        push = ways * (0.5 * (radii[left] + radii[right] - distance) + 0.05)[:, None]
        count = np.maximum(1, np.bincount(np.concatenate([left, right]), minlength=len(points)))
        moves = np.zeros_like(points)
        _add(moves, left, -push)
        _add(moves, right, push)
        points += moves / np.sqrt(count)[:, None]
        if round_ > 60:
            points *= 1.005
    return points


def _crossing(points: Points, radii: Points) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs of circles that overlap, found by a sweep along x."""
    order = np.argsort(points[:, 0], kind="stable")
    xs = points[order, 0]
    ends = np.searchsorted(xs, xs + radii[order] + radii.max(), side="right")
    counts = ends - np.arange(len(xs)) - 1
    left = np.repeat(np.arange(len(xs)), counts)
    offsets = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    left, right = order[left], order[left + 1 + offsets]
    near = np.abs(points[left, 1] - points[right, 1]) < radii[left] + radii[right]
    left, right = left[near], right[near]
    delta = points[right] - points[left]
    hit = np.sum(delta * delta, axis=1) < (radii[left] + radii[right] - 1e-6) ** 2
    return left[hit], right[hit]
