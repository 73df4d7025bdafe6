"""Geometry of the two figures the site draws: curves, and bars with confidence intervals.

In: numbers. Out: dataclasses whose coordinates are per cent of the plot, so that a template needs no arithmetic
and the figure stretches to any width while its text stays readable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: a name and its (x, y) points in order of x."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    path: str
    last: str
    number: int


@dataclass(frozen=True, slots=True)
class LineChart:
    title: str
    x_label: str
    y_label: str
    curves: list[Curve]
    x_ticks: list[str]
    y_ticks: list[str]
    table: list[tuple[str, float, float]]


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a bar chart. low and high are the confidence interval, n what it was measured on."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    tone: str = "accent"
    href: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class DrawnBar:
    bar: Bar
    width: float
    whisker: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class BarChart:
    title: str
    unit: str
    rows: list[DrawnBar]
    ticks: list[str]
    grid: list[float] = field(default_factory=lambda: [25.0, 50.0, 75.0])


def line_chart(
    title: str, series: Iterable[Series], *, x_label: str = "step", y_label: str = "loss", most: int = 400
) -> LineChart:
    """Curves on one plot. Long curves are thinned to `most` points; the table keeps 60 of them."""
    kept = [Series(one.name, _thin(one.points, most)) for one in series if one.points]
    xs = [x for one in kept for x, _ in one.points] or [0.0]
    ys = [y for one in kept for _, y in one.points] or [0.0]
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1)
    ticks = nice_ticks(min(0.0, min(ys)), max(ys))
    y_low, y_high = ticks[0], ticks[-1]
    curves = [
        Curve(
            one.name, _path(one.points, x_low, x_high, y_low, y_high), format_tick(one.points[-1][1]), number
        )
        for number, one in enumerate(kept, start=1)
    ]
    x_ticks = [format_tick(x_low + (x_high - x_low) * share / 4) for share in range(5)]
    table = [(one.name, x, y) for one in kept for x, y in _thin(one.points, 60)]
    return LineChart(
        title, x_label, y_label, curves, x_ticks, [format_tick(t) for t in reversed(ticks)], table
    )


def bar_chart(title: str, bars: Iterable[Bar], *, unit: str = "", top: float | None = 1.0) -> BarChart:
    """Horizontal bars from 0 to `top` (None: the largest value or bound)."""
    rows = list(bars)
    reach = [bound for bar in rows for bound in (bar.value, bar.high) if bound is not None]
    end = top if top is not None else nice_ticks(0.0, max(reach, default=1.0))[-1]
    drawn = [DrawnBar(bar, _share(bar.value or 0.0, end), _whisker(bar, end)) for bar in rows]
    return BarChart(title, unit, drawn, [format_tick(end * share / 4) for share in range(5)])


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Evenly spaced round numbers that hold [low, high]."""
    span = (high - low) or abs(high) or 1.0
    rough = span / count
    power = 10.0 ** floor(log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    first = floor(low / step + 1e-9)
    last = max(ceil(high / step - 1e-9), first + 1)
    return [round(index * step, 10) for index in range(first, last + 1)]


def format_tick(value: float) -> str:
    if value == round(value) or abs(value) >= 100:
        return f"{round(value):,}"
    return f"{value:.3g}"


def _thin(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most `most` points, evenly taken, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    last = len(points) - 1
    return [points[round(index * last / (most - 1))] for index in range(most)]


def _path(
    points: Sequence[tuple[float, float]], x_low: float, x_high: float, y_low: float, y_high: float
) -> str:
    places = (
        f"{100 * (x - x_low) / (x_high - x_low):.2f},{100 - 100 * (y - y_low) / (y_high - y_low):.2f}"
        for x, y in points
    )
    return "M" + " L".join(places)


def _share(value: float, end: float) -> float:
    return round(min(100.0, max(0.0, 100.0 * value / end)), 2) if end else 0.0


def _whisker(bar: Bar, end: float) -> tuple[float, float] | None:
    if bar.low is None or bar.high is None:
        return None
    return _share(bar.low, end), _share(bar.high, end)
