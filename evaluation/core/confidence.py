"""Whether a request has a tool at all, and whether the first tool of its answer is right: two logistic regressions.

In: features of requests on development benchmarks, and what is true of them. Out: `Fit`, two calibrated probabilities
a request, and the threshold below which a request is refused. Reliability: how often what was said with a confidence
came true.

Features: `first`, `lead`, `best` are log-probabilities of the ranking: of its first tool, of that over the second, of
the BEST tools together. A base with an encoder adds cosines of the request to the tools (`nearest`, the mean of the
NEAREST, `usual` over all, `stands_out` in standard deviations) and the `reading` itself, which tells what the request
is about; the pocket model, whether a rule speaks (`ruled`). A written list adds `listed`, the log-probability of its
first tool, and whether the ranking `agrees`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

BEST = 10  # tools of a ranking that features look at, however many were asked for
NEAREST = 5
FLOOR = -30.0  # of a log-probability
READING = "reading"
SCALARS = ("first", "lead", "best", "ruled", "nearest", "near", "usual", "stands_out", "listed", "agrees")
OF_LISTS = ("listed", "agrees")
FOLDS = 5
STEPS = 30  # of Newton's method, at most
LEAST = 20  # requests of either kind, below which nothing is learned
REFUSED_INSIDE = 0.05  # the most of the requests that have a tool
BINS = 10
Features = Mapping[str, Any]
Table = npt.NDArray[np.float64]


def ranking_features(ranking: Sequence[tuple[int, float]]) -> dict[str, float]:
    """Of (tool, log-probability), best first."""
    scores = [score for _, score in ranking[:BEST]] or [FLOOR]
    mass = sum(map(exp, scores))
    return {
        "first": round(max(FLOOR, scores[0]), 4),
        "lead": round(min(-FLOOR, scores[0] - scores[1]) if len(scores) > 1 else -FLOOR, 4),
        "best": round(log(mass) if mass else FLOOR, 4),
    }


def nearness(cosines: npt.NDArray[np.float32]) -> dict[str, float]:
    """How near the request lies to the tools, whether or not it may use them."""
    if not len(cosines):
        return {"nearest": 0.0, "near": 0.0, "usual": 0.0, "stands_out": 0.0}
    count = min(NEAREST, len(cosines))
    near = np.partition(cosines, -count)[-count:]
    nearest, usual = float(near.max()), float(cosines.mean())
    return {
        "nearest": round(nearest, 4),
        "near": round(float(near.mean()), 4),
        "usual": round(usual, 4),
        "stands_out": round((nearest - usual) / (float(cosines.std()) + 1e-6), 4),
    }


@dataclass(frozen=True, slots=True)
class Logistic:
    """A logistic regression over standardised columns; the first weight is the constant."""

    centre: list[float]
    scale: list[float]
    weights: list[float]

    def logits(self, rows: Table) -> Table:
        standard = (rows - self.centre) / self.scale
        found: Table = self.weights[0] + standard @ np.asarray(self.weights[1:])
        return found


def fit_logistic(rows: Table, labels: Table) -> Logistic:
    """Newton's method; L2 on all but the constant, stronger the more columns there are."""
    centre, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    columns = np.column_stack([np.ones(len(rows)), (rows - centre) / scale])
    penalty = np.full(columns.shape[1], 1 + rows.shape[1] / 4)
    penalty[0] = 1e-6
    weights = np.zeros(columns.shape[1])
    for _ in range(STEPS):
        chance = logistic(columns @ weights)
        slope = columns.T @ (chance - labels) + penalty * weights
        bend = (columns * (chance * (1 - chance))[:, None]).T @ columns + np.diag(penalty)
        step = np.linalg.solve(bend, slope)
        weights -= step
        if np.abs(step).max() < 1e-4:
            break
    return Logistic(*([round(float(value), 6) for value in part] for part in (centre, scale, weights)))


def logistic(values: Table) -> Table:
    found: Table = 1 / (1 + np.exp(-np.clip(values, -50, 50)))
    return found


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    confidence: float | None = None  # that the first tool is right
    fits: bool | None = None  # whether any tool does


@dataclass(frozen=True, slots=True)
class Fit:
    """`names`: the features that are read. Without requests that no tool answers `fits` and `threshold` are None."""

    names: list[str]
    right: Logistic
    fits: Logistic | None
    threshold: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Fit":
        right, fits = (Logistic(**stored[name]) if stored[name] else None for name in ("right", "fits"))
        assert right is not None
        return cls(list(stored["names"]), right, fits, stored["threshold"])

    def verdict(self, features: Features) -> AnswerVerdict:
        """Nothing is known of features of another kind of model."""
        if any(name not in features for name in self.names):
            return AnswerVerdict()
        row, fits = _columns([features], self.names), None
        if self.fits is not None:
            logit = self.fits.logits(_columns([features], self.names, of_request=True))
            row = np.column_stack([row, logit])
            fits = None if self.threshold is None else bool(logistic(logit)[0] >= self.threshold)
        return AnswerVerdict(round(float(logistic(self.right.logits(row))[0]), 4), fits)


def fit(features: Sequence[Features], has_tool: Sequence[bool], is_right: Sequence[bool]) -> Fit | None:
    """None with too few requests to learn from. What one regression says of a request that it has not seen is a
    column of the other, and what the threshold is chosen on."""
    names = [name for name in (*SCALARS, READING) if all(name in row for row in features)]
    inside, right = np.asarray(has_tool, float), np.asarray(is_right, float)
    if not names or not enough(right):
        return None
    rows = _columns(features, names)
    if not enough(inside):
        return Fit(names, fit_logistic(rows, right), None, None)
    asked = _columns(features, names, of_request=True)
    unseen = out_of_fold(asked, inside)
    chosen = threshold(logistic(unseen[inside == 1]).tolist())
    return Fit(
        names, fit_logistic(np.column_stack([rows, unseen]), right), fit_logistic(asked, inside), chosen
    )


def enough(labels: Table) -> bool:
    return bool(min(labels.sum(), len(labels) - labels.sum()) >= LEAST)


def out_of_fold(rows: Table, labels: Table) -> Table:
    """What a regression says of each row that was fitted without it."""
    found = np.zeros(len(rows))
    order = np.random.default_rng(0).permutation(len(rows))
    for number in range(FOLDS):
        left_out = order[number::FOLDS]
        kept = np.setdiff1d(order, left_out)
        found[left_out] = fit_logistic(rows[kept], labels[kept]).logits(rows[left_out])
    return found


def threshold(inside: Sequence[float]) -> float:
    """The largest that refuses at most REFUSED_INSIDE of the requests that have a tool."""
    return round(sorted(inside)[int(REFUSED_INSIDE * len(inside))], 6)


def _columns(features: Sequence[Features], names: Sequence[str], of_request: bool = False) -> Table:
    """The features as rows; those of the request alone have its reading too and nothing of a list."""
    columns = [name for name in names if name != READING and not (of_request and name in OF_LISTS)]
    reading = of_request and READING in names
    rows = [
        [float(row[name]) for name in columns] + (list(row[READING]) if reading else []) for row in features
    ]
    return np.asarray(rows, dtype=np.float64)


class Bin(NamedTuple):
    """Answers given with a confidence from `low` to `high`: what was said of each, and what came true."""

    low: float
    high: float
    said: list[float]
    right: list[float]


class Reliability(NamedTuple):
    n: int
    error: float | None  # expected calibration error
    bins: list[Bin]


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> Reliability:
    """Expected calibration error over bins of equal width (Naeini, Cooper and Hauskrecht, AAAI 2015; formula 3 of Guo
    et al., On Calibration of Modern Neural Networks, 2017): the distance between confidence and share of right answers
    in a bin, weighted by how many answers fall into it."""
    bins = [Bin(number / BINS, (number + 1) / BINS, [], []) for number in range(BINS)]
    for said, true in zip(confidences, right, strict=True):
        own = bins[min(BINS - 1, int(said * BINS))]
        own.said.append(said)
        own.right.append(float(true))
    distance = sum(abs(sum(one.said) - sum(one.right)) for one in bins)
    return Reliability(len(right), distance / len(right) if right else None, bins)
