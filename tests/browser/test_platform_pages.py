"""API docs, audit and webhooks in a real browser: the content security policy is kept, nothing overflows."""

import pytest

from tests.browser.reviewing import widths
from tests.factories import make_domain
from trace_site.audit import models as audit_models
from trace_site.audit_context import acting

pytestmark = pytest.mark.browser


def overflow(page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@widths
def test_the_api_docs_draw_every_operation_without_breaking_the_policy(open_page, width):
    page = open_page("admin", width)
    page.goto("/account/")
    page.click("text=The API's documentation")
    page.wait_for_selector(".opblock-tag")
    page.click("#operations-tag-webhooks")
    page.click("text=Add a webhook")
    page.wait_for_selector("text=Idempotency-Key")
    assert page.locator("text=Failed to load").count() == 0


def test_the_api_docs_keep_the_theme_that_was_chosen(open_page):
    page = open_page("admin", scheme="light")
    page.goto("/account/")
    page.get_by_role("button", name="Theme").click()
    page.goto("/api/v1/docs")
    page.wait_for_selector(".opblock-tag")
    for part in ("body", ".swagger-ui"):
        back = page.evaluate(f"getComputedStyle(document.querySelector('{part}')).backgroundColor")
        assert back == "rgb(28, 32, 34)"


@widths
def test_an_audit_line_unfolds_in_place(open_page, width, user_with):
    with acting(user_with("expert", username="erin"), "page /rules/1/edit/"):
        domain = make_domain("hr")
        domain.title = "Human resources, the whole of it"
        domain.save()
    audit_models.record(actor=None, action="domain.renamed", obj=domain, detail={"per_rule": 12})
    page = open_page("admin", width)
    page.goto("/audit/?object_type=domain")
    page.locator("summary", has_text="row changed").click()
    page.wait_for_selector("mark")
    assert "Human" in page.locator(".new mark").first.inner_text()
    assert overflow(page) <= 0


@widths
def test_a_webhook_is_added_by_hand(open_page, width):
    page = open_page("admin", width)
    page.goto("/webhooks/")
    page.fill("[name=url]", "https://ci.example.com/trace")
    page.check("[value='rule.published']")
    page.click("text=Add the webhook")
    page.wait_for_selector("text=Copy the secret now")
    assert overflow(page) <= 0
