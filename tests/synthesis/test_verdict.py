"""A verdict fails closed: only whole scores of 1 to 5 on all four axes, on the sample that was asked, can pass."""

import pytest

from synthesis.core.queries import AXES, THRESHOLDS, Verdict
from synthesis.core.recipe import default_recipe, read_recipe
from trace_site.lib.errors import TraceError

FULL = dict.fromkeys(AXES, 5)


def test_all_axes_at_their_thresholds_pass():
    assert Verdict("1", dict(THRESHOLDS)).passed
    assert Verdict("1", FULL).passed


@pytest.mark.parametrize("axis", AXES)
def test_one_below_the_threshold_fails_that_axis_alone(axis):
    assert Verdict("1", FULL | {axis: THRESHOLDS[axis] - 1}).failed_axes == (axis,)


@pytest.mark.parametrize("axis", AXES)
def test_a_missing_axis_fails(axis):
    assert Verdict("1", {name: 5 for name in AXES if name != axis}).failed_axes == (axis,)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(
    "score", ["5", 4.0, 4.9, True, None, [5], {"score": 5}, float("nan"), float("inf"), 0, -1, 6, 9, 10**9]
)
def test_a_score_that_is_no_whole_number_of_1_to_5_fails(axis, score):
    verdict = Verdict("1", FULL | {axis: score})
    assert verdict.failed_axes == (axis,)
    assert not verdict.passed


def test_no_scores_fail_on_every_axis_and_axes_nobody_asked_for_count_for_nothing():
    assert Verdict("1", {}).failed_axes == AXES
    assert Verdict("1", {"overall": 5, "passed": True}).failed_axes == AXES


def test_a_missing_threshold_fails_the_axis():
    assert Verdict("1", FULL, thresholds={"naturalness": 3}).failed_axes == AXES[1:]


@pytest.mark.parametrize("other", ["2", "", "1 ", "01"])
def test_a_verdict_on_another_sample_is_no_verdict(other):
    found = Verdict(other, FULL, calls=1).of("1")
    assert (found.id, found.scores, found.calls) == ("1", {}, 1)
    assert not found.passed
    assert found.critique
    assert Verdict("1", FULL).of("1").passed


def test_thresholds_come_from_the_recipe():
    recipe = read_recipe({"judge": {"thresholds": dict.fromkeys(AXES, 5)}})
    assert default_recipe().judge.thresholds == THRESHOLDS
    assert Verdict("1", FULL | {"label": 4}, thresholds=recipe.judge.thresholds).failed_axes == ("label",)
    for wrong in ({"label": 4}, dict.fromkeys(AXES, 6), dict.fromkeys(AXES, True), dict.fromkeys(AXES, "4")):
        with pytest.raises(TraceError):
            read_recipe({"judge": {"thresholds": wrong}})
