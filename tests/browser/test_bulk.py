"""Bulk approval by keyboard alone, and at the width of a phone."""

import pytest

from synthesis.models import Sample
from tests.synthesis.rows import make_book, make_sample

pytestmark = pytest.mark.browser


def test_rows_are_opened_ticked_and_approved_by_keyboard(open_page):
    version = make_book()
    samples = [make_sample(version) for _ in range(4)]
    page = open_page("reviewer")
    page.goto("/synthesis/review/bulk/")
    page.locator("main form button").first.click()
    rows = page.locator(".bulk-row summary")
    rows.first.focus()
    for _ in range(3):
        page.keyboard.press("Enter")
        page.locator(".bulk-row:focus-within input[name=token]").wait_for()
        page.keyboard.press("Space")
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Space")  # the third is not ticked after all
    assert page.locator("[data-approve]").inner_text().split() == ["Approve", "2", "ticked"]
    page.locator("[data-approve]").focus()
    page.keyboard.press("Enter")
    page.locator(".bulk-outcomes").wait_for()
    assert page.locator(".bulk-outcomes li").count() == 2
    assert rows.count() == 2
    approved = Sample.objects.filter(human="approved", approved_how="bulk").order_by("pk")
    assert [row.pk for row in approved] == [samples[0].pk, samples[1].pk]


def test_at_390_pixels_nothing_is_cut_off_and_the_texts_are_there_unopened(open_page):
    version = make_book()
    samples = [make_sample(version) for _ in range(3)]
    page = open_page("reviewer", width=390)
    page.goto("/synthesis/review/bulk/")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    take = page.locator("main form button").first
    box = take.bounding_box()
    assert box["x"] + box["width"] <= 390
    take.click()
    page.locator(".bulk-row").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    text = page.inner_text(".bulk-rows")
    assert all(sample.query in text and "GetPayslip" in text for sample in samples)
    page.locator(".bulk-row summary").first.click()
    page.get_by_label("Approve it as it stands").check()
    page.locator("[data-approve]").click()
    page.locator(".bulk-outcomes").wait_for()
    assert Sample.objects.filter(approved_how="bulk").count() == 1
