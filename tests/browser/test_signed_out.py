"""A session that ends while somebody types takes nothing away."""

import pytest

from trace_site.people.sessions import Session

pytestmark = pytest.mark.browser


def test_typed_text_outlives_the_session_and_is_sent_after_signing_in_elsewhere(
    browser, site, user_with, look_alikes
):
    admin = user_with("admin", username="ada")
    context = browser.new_context(base_url=site)
    page = context.new_page()
    page.goto("/login/")
    page.fill("#id_username", admin.username)
    page.fill("#id_password", "pass")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site}/")
    page.goto("/webhooks/")
    page.fill("[name=url]", "https://example.com/typed")
    Session.objects.all().delete()
    page.evaluate("document.querySelector('[name=url]').form.requestSubmit()")
    page.wait_for_selector("text=You are signed out")
    with context.expect_page() as opened:
        page.click("text=in another tab")
    tab = opened.value
    tab.fill("#id_username", admin.username)
    tab.fill("#id_password", "pass")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"{site}/")
    page.go_back()
    assert page.input_value("[name=url]") == "https://example.com/typed"
    page.check("[value='rule.published']")
    page.click("text=Add the webhook")
    page.wait_for_selector("text=Copy the secret now")
    context.close()
