"""Somebody is invited by hand and signs in, without a mail server and without a password that travels."""

import pytest

from tests.browser.reviewing import widths

pytestmark = pytest.mark.browser
NEW = "tall green bicycle"


def overflow(page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@widths
def test_a_person_is_invited_sets_a_password_and_signs_in(open_page, browser, site, width):
    page = open_page("admin", width)
    page.goto("/people/")
    assert overflow(page) <= 0
    page.fill("#username", "erin")
    page.check("[value=expert]")
    page.click("aside button")
    link = page.inner_text("#link")
    assert link.startswith(site) and overflow(page) <= 0
    stranger = browser.new_context(base_url=site, viewport={"width": width, "height": 900})
    hers = stranger.new_page()
    hers.goto(link)
    hers.fill("#id_new_password1", NEW)
    hers.fill("#id_new_password2", NEW)
    assert overflow(hers) <= 0
    hers.click("text=Set it")
    hers.wait_for_selector("text=Your password is set")
    hers.fill("#id_username", "erin")
    hers.fill("#id_password", NEW)
    hers.keyboard.press("Enter")
    hers.wait_for_url(f"{site}/")
    hers.goto("/account/")
    assert "this one" in hers.inner_text("#sessions") and overflow(hers) <= 0
    page.goto("/people/")
    page.check("[value=program]")
    page.fill("#username", "desk-bot")
    page.click("aside button")
    page.wait_for_selector("text=desk-bot is a program's account")
    page.fill("#name", "copilot")
    page.check("[value=read]")
    page.check("[name=holds][value=these]")
    page.fill("#password", "pass")
    page.click("text=Make a token")
    assert page.inner_text("#secret").startswith("trs_") and overflow(page) <= 0
