"""The playground shows an answer as it is made, and the pages about tokens and requests fit a telephone."""

import pytest

from evaluation.models import RequestLogPolicy
from evaluation.requests.log import requests
from tests.evaluation.endpoint_home import ask, champion, program, stub
from tests.factories import make_tool

__all__ = ["champion", "stub"]
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def tools(site):
    return [make_tool(name, permissions=["pay.read"]) for name in ("Pay/GetPaystub", "Pay/GetPayslip")]


def test_the_trace_appears_as_it_is_written_and_the_whole_answer_takes_its_place(
    open_page, site, champion, stub
):
    stub.word = 0.05
    page = open_page("expert")
    page.goto(f"{site}/evaluation/playground/?q=my+payslip&mode=both&model={champion.pk}&other=none")
    page.locator('[sse-swap="fast"] .tool').first.wait_for()
    written = page.locator('[sse-swap="text"]:has-text("Somebody asks for")')
    written.wait_for()
    early = written.text_content()
    page.locator("text=Committed to").wait_for()
    slot = page.locator(".answer-slot")
    assert slot.locator(".trace").text_content().startswith(early.strip()[:20])
    assert slot.get_attribute("aria-busy") is None and page.locator("[sse-swap]").count() == 0
    assert len([one for one in stub.asked if one["stream"]]) == 1  # it was not asked again


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_requests_and_tokens_fit_a_telephone(open_page, site, user_with, champion, scheme):
    RequestLogPolicy.objects.create(share=1.0)
    ask(
        program(user_with("expert", username="a-person-with-a-long-name")),
        query="payslip " * 60,
        mode="trace",
    )
    requests.flush()
    page = open_page("admin", width=390, scheme=scheme)
    page.goto(f"{site}/account/")
    page.check("input[value=these]")
    page.fill("textarea[name=permissions]", "payroll.read\nleave.book")
    page.fill("input[name=password]", "pass")
    page.click("text=Make a token")
    assert "2 permissions" in page.goto(f"{site}/account/").text()
    assert page.input_value("textarea[name=permissions]") == "payroll.read\nleave.book"
    for at in ("/account/", "/evaluation/requests/"):
        page.goto(f"{site}{at}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("tbody a").first.click()
    page.locator("text=Facts").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
