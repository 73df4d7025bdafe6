"""The quality pages in a real browser: figures and forms at both widths, a share set by hand, a draw."""

import pytest

from synthesis.models import ReviewItem, SecondShare, SynthesisRun
from tests.browser.reviewing import widths
from tests.factories import make_rule, make_tool
from tests.synthesis.readings import read, read_by_two
from tests.synthesis.test_calibration import refused

pytestmark = pytest.mark.browser


def overflow(page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.fixture
def readings(transactional_db, user_with):
    """24 samples read twice, four of them differently; the judge refused three others."""
    ada, bob, cyd = (user_with("reviewer", username=name) for name in ("ada", "bob", "cyd"))
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    run = SynthesisRun.objects.create(branch="rule", writer="offline")
    texts = {"rule": make_rule(*tools, code="SLIP_YEAR"), "tools": tools, "run": run}
    read_by_two()
    for number in range(24):
        first = "reject" if number % 3 == 0 else "approve"
        second = "approve" if number % 6 == 0 else first
        third = [(cyd, "reject")] if first != second else []
        read(None, (ada, first), (bob, second), *third, **texts, style=("explicit", "implicit")[number % 2])
    for _ in range(3):
        refused(**texts)


@widths
def test_pages_fit_and_show_figures_with_their_number(open_page, readings, width):
    page = open_page("admin", width)
    for part, wanted in (("", "ada and bob"), ("judge/", "Judge offline"), ("reviewers/", "bob")):
        page.goto(f"/synthesis/quality/{part}")
        page.get_by_text(wanted).first.wait_for()
        assert overflow(page) <= 0, part
    page.goto("/synthesis/quality/")
    assert page.locator(".bar-figure").count() == 2
    page.click("summary:has-text('How these are counted')")
    assert page.get_by_text("1,000 draws, seed 0").is_visible()


@widths
def test_an_admin_sets_a_share_is_told_what_is_wrong_and_sets_it_back(open_page, readings, width):
    open_page.expected.append("422")
    page = open_page("admin", width)
    page.goto("/synthesis/quality/second/")
    field = page.get_by_label("every domain, every style, per cent")
    assert field.input_value() == "100"
    field.fill("120")
    page.click("main button:has-text('Save')")
    page.get_by_text("Nothing was saved").wait_for()
    assert field.input_value() == "120" and overflow(page) <= 0
    for percent in ("25", "100"):
        field.fill(percent)
        with page.expect_navigation():
            page.click("main button:has-text('Save')")
        page.get_by_text("1 share changed").wait_for()
        assert SecondShare.objects.get().share == int(percent) / 100


def test_a_reviewer_draws_what_the_judge_refused(open_page, readings):
    page = open_page("reviewer")
    page.goto("/synthesis/quality/judge/")
    page.fill("input[name=count]", "2")
    page.click("button:has-text('Draw from 3')")
    page.get_by_text("2 of 3 refused samples are in the queue").wait_for()
    assert ReviewItem.objects.filter(calibration=True).count() == 2
    assert page.get_by_text("Take unopened ones back").count() == 0
