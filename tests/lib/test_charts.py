"""Geometry of the figures."""

import pytest

from trace_site.lib.charts import (
    Bar,
    Dot,
    DotChart,
    DotRow,
    Series,
    bar_chart,
    format_tick,
    line_chart,
    nice_ticks,
)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 3.7, [0, 1, 2, 3, 4]),
        (0, 0, [0, 0.25]),
        (0, 0.83, [0, 0.25, 0.5, 0.75, 1.0]),
        (0, 9000, [0, 2500, 5000, 7500, 10000]),
    ],
)
def test_ticks_are_round_and_hold_the_values(low, high, ticks):
    assert nice_ticks(low, high) == ticks


def test_curve_runs_from_the_top_left_to_the_bottom_right():
    chart = line_chart("Loss", [Series("train", [(0, 4.0), (100, 0.0)])])
    assert chart.curves[0].path == "M0.00,0.00 L100.00,100.00"
    assert (chart.x_ticks, chart.y_ticks) == (["0", "25", "50", "75", "100"], ["4", "3", "2", "1", "0"])


def test_long_curve_is_thinned_and_keeps_its_ends():
    chart = line_chart("Loss", [Series("train", [(x, 1.0) for x in range(10_000)])], most=50)
    assert chart.curves[0].path.count("L") == 49 and chart.table[-1] == ("train", 9999, 1.0)


def test_figure_without_points_has_no_curve():
    assert line_chart("Loss", [Series("train", [])]).curves == []


def test_bar_and_interval_are_shares_of_the_axis():
    row = bar_chart("Recall", [Bar("covered", 0.5, 0.4, 0.65, n=20)]).rows[0]
    assert (row.width, row.whisker) == (50.0, (40.0, 65.0))


def test_open_axis_ends_at_a_round_number_above_every_bound():
    chart = bar_chart("Samples", [Bar("HR", 70, 60, 83)], top=None)
    assert chart.ticks == ["0", "25", "50", "75", "100"]


def test_lines_of_a_plot_lie_at_its_ticks():
    bars = bar_chart("Latency", [Bar("trace", 103.2)], top=None)
    assert (bars.ticks, bars.grid) == (["0", "50", "100", "150"], [0.0, 33.33, 66.67, 100.0])
    curve = line_chart("Recall", [Series("k", [(0, 0.34), (12, 0.51)])])
    assert (curve.y_ticks, curve.y_grid) == (["0.6", "0.4", "0.2", "0"], [0.0, 33.33, 66.67])


@pytest.mark.parametrize(
    ("value", "text"),
    [(4072.6, "4,073"), (0.00015, "0.00015"), (0.7931, "0.793"), (435, "435"), (109.5, "110")],
)
def test_ticks_read_as_plain_numbers(value, text):
    assert format_tick(value) == text


def test_dots_stand_under_each_other_at_their_share_of_the_track():
    row = DotRow(
        "covered", 20, [Dot("champion", "circle", 0.5, 0.4, 0.65), Dot("embedding", "diamond", 0, 0, 1)]
    )
    assert [(y, dot.ends) for y, dot in row.lines] == [(7, (40.0, 50.0, 65.0)), (21, (0.0, 0.0, 100.0))]
    assert DotChart("What?", [row]).who == [("champion", "circle"), ("embedding", "diamond")]
