"""The prompts' preview follows its form, and the wizard of the real queries works on a narrow screen."""

import pytest

from catalog.models import LabelledQuery
from tests.synthesis.rows import make_book

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_preview_follows_what_is_chosen_and_typed(open_page):
    make_book()
    page = open_page("admin")
    page.goto("/synthesis/prompts/query_rrb/")
    page.wait_for_selector("#preview pre")
    page.wait_for_load_state("networkidle")
    with page.expect_response("**/prompts/tools/?tool=CarPool*"):
        page.fill("#id_tool", "CarPool/BookCar")
    page.wait_for_load_state("networkidle")
    with page.expect_response("**/preview/**"):
        page.select_option("select[name=tier]", "medium")
    page.wait_for_function(
        "() => document.querySelector('#preview').innerText.includes('Write one medium request')"
    )
    with page.expect_response("**/preview/**critique=too*"):
        page.fill("textarea[name=critique]", "too stiff")
    page.wait_for_function("() => document.querySelector('#preview').innerText.includes('too stiff')")
    page.wait_for_load_state("networkidle")


def test_the_wizard_fits_a_phone_and_stores_what_was_read(open_page):
    page = open_page("admin", width=390)
    page.goto("/catalog/queries/import/")
    page.fill("input[name=collection]", "desk")
    page.fill(
        "textarea[name=pasted]", "mail the slip to x.y@example.com today\nwho approves the trip to ghent"
    )
    page.click("text=Preview")
    assert page.locator("s").inner_text() == "x.y@example.com"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.check("input[name=leave-2]")
    page.click("text=Store the queries")
    page.wait_for_url("**/catalog/queries/")
    assert list(LabelledQuery.objects.values_list("text", flat=True)) == ["mail the slip to [e-mail] today"]
