"""Geometry of the figures the site draws: curves, bars with confidence intervals, and dots beside each other.

In: numbers. Out: dataclasses whose coordinates are per cent of the plot, so that a template needs no arithmetic
and the figure stretches to any width while its text stays readable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10

DOT_LINE = 14  # pixels between two dots of one row


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: a name and its (x, y) points in order of x; `band`: (x, lowest, highest) where points are means."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    path: str
    last: str
    band: str = ""


@dataclass(frozen=True, slots=True)
class LineChart:
    title: str
    x_label: str
    y_label: str
    curves: list[Curve]
    x_ticks: list[str]
    y_ticks: list[str]
    table: list[tuple[str, float, float]]
    note: str = ""

    @property
    def y_grid(self) -> list[float]:
        """Where the lines of the ticks lie, in per cent from above; the lowest is the axis."""
        return [round(100 * place / (len(self.y_ticks) - 1), 2) for place in range(len(self.y_ticks) - 1)]


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
    grid: list[float]


@dataclass(frozen=True, slots=True)
class Dot:
    """One mean with its interval. shape: circle, square or diamond, so that no dot is told by colour alone."""

    who: str
    shape: str
    value: float
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, mean and high in per cent of the track."""
        return _share(self.low, 1), _share(self.value, 1), _share(self.high, 1)


@dataclass(frozen=True, slots=True)
class DotRow:
    """What is compared on n queries: dots under each other on one track, and in a word what follows."""

    label: str
    n: int
    dots: list[Dot]
    href: str = ""
    word: str = ""
    tone: str = ""

    @property
    def height(self) -> int:
        return DOT_LINE * len(self.dots)

    @property
    def lines(self) -> list[tuple[int, Dot]]:
        """Each dot with how far down it stands, in pixels."""
        return [(DOT_LINE * place + DOT_LINE // 2, dot) for place, dot in enumerate(self.dots)]


@dataclass(frozen=True, slots=True)
class DotChart:
    """Shares from 0 to 1."""

    title: str
    rows: list[DotRow]
    ticks: list[str] = field(default_factory=lambda: ["0", "0.25", "0.5", "0.75", "1"])
    grid: list[float] = field(default_factory=lambda: [0.0, 25.0, 50.0, 75.0, 100.0])

    @property
    def who(self) -> list[tuple[str, str]]:
        """(name, shape) of everybody who is drawn."""
        return list(dict.fromkeys((dot.who, dot.shape) for row in self.rows for dot in row.dots))


def line_chart(
    title: str,
    series: Iterable[Series],
    *,
    x_label: str = "step",
    y_label: str = "loss",
    most: int = 400,
    log: bool = False,
    note: str = "",
    rows: int = 60,
) -> LineChart:
    """Curves on one plot. Long curves are thinned to `most` points; the table keeps `rows` of them.

    `log`: powers of ten on the y axis, values of zero and less left out.
    """
    kept = []
    for one in series:
        points, band = _thin(one.points, most), one.band
        if log:
            points = [(x, log10(y)) for x, y in points if y > 0]
            band = [(x, log10(low), log10(high)) for x, low, high in band if low > 0]
        if points:
            kept.append((one.name, points, band))
    xs = [x for _, points, _ in kept for x, _ in points] or [0.0]
    ys = [y for _, points, _ in kept for _, y in points]
    ys = [*ys, *(y for _, _, band in kept for _, *ends in band for y in ends)] or [0.0]
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1)
    ticks = log_ticks(min(ys), max(ys)) if log else nice_ticks(min(0.0, min(ys)), max(ys))

    def place(x: float, y: float) -> str:
        """In per cent of the plot, y downwards."""
        across = 100 * (x - x_low) / (x_high - x_low)
        return f"{across:.2f},{100 - 100 * (y - ticks[0]) / (ticks[-1] - ticks[0]):.2f}"

    def told(value: float) -> float:
        return 10.0**value if log else value

    curves = []
    for name, points, band in kept:
        path = "M" + " L".join(place(x, y) for x, y in points)
        area = ""
        if any(high > low for _, low, high in band):
            around = [*((x, low) for x, low, _ in band), *((x, high) for x, _, high in reversed(band))]
            area = "M" + " L".join(place(x, y) for x, y in around) + " Z"
        curves.append(Curve(name, path, format_tick(told(points[-1][1])), area))
    across = [x_low + (x_high - x_low) * share / 4 for share in range(5)]
    x_ticks = [format_tick(round(x) if x_high - x_low >= 8 else x) for x in across]
    table = [(name, x, told(y)) for name, points, _ in kept for x, y in _thin(points, rows)]
    y_ticks = [format_tick(told(tick)) for tick in reversed(ticks)]
    return LineChart(title, x_label, y_label, curves, x_ticks, y_ticks, table, note)


def bar_chart(title: str, bars: Iterable[Bar], *, unit: str = "", top: float | None = 1.0) -> BarChart:
    """Horizontal bars from 0 to `top` (None: the largest value or bound)."""
    rows = list(bars)
    reach = [bound for bar in rows for bound in (bar.value, bar.high) if bound is not None]
    ticks = nice_ticks(0.0, max(reach, default=1.0)) if top is None else [top * part / 4 for part in range(5)]
    end = ticks[-1]
    drawn = []
    for bar in rows:
        known = bar.low is not None and bar.high is not None
        whisker = (_share(bar.low or 0.0, end), _share(bar.high or 0.0, end)) if known else None
        drawn.append(DrawnBar(bar, _share(bar.value or 0.0, end), whisker))
    return BarChart(
        title, unit, drawn, [format_tick(tick) for tick in ticks], [_share(tick, end) for tick in ticks]
    )


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Evenly spaced round numbers that hold [low, high]."""
    span = (high - low) or abs(high) or 1.0
    rough = span / count
    power = 10.0 ** floor(log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    first = floor(low / step + 1e-9)
    last = max(ceil(high / step - 1e-9), first + 1)
    return [round(index * step, 10) for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Whole exponents of ten, or halves when there is less than one, that hold [low, high] (both exponents)."""
    step = 1.0 if high - low > 1 else 0.25 if high - low > 0.25 else 0.1
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(index * step, 10) for index in range(first, max(last, first + 1) + 1)]


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


def _share(value: float, end: float) -> float:
    return round(min(100.0, max(0.0, 100.0 * value / end)), 2) if end else 0.0
