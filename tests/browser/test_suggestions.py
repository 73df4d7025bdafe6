"""Suggested rules in the browser: nothing scrolls sideways, and a draft opens filled in."""

from rules.models import RuleSuggestion
from rules.suggestions.services import suggestion_dismiss, suggestions_start
from tests.factories import make_tool
from trace_site.jobs import run

SAYS = "Cancel a payment. For captured payments, use the Create a refund endpoint instead."


def test_a_suggestion_is_read_opened_and_fits_every_screen(open_page, site, tmp_path):
    make_tool("BankCheckoutServicesV1/cancelPaymentOfCustomerWithReference", description=SAYS)
    make_tool(
        "BankCheckoutServicesV1/createRefundOfPaymentWithReference", description="Create a refund. Pays back."
    )
    make_tool("PayV1/readSlip", description="Read a payslip.")
    make_tool("PayV2/readSlip", description="Read a payslip.")
    run(suggestions_start(wake=False).pk)
    row = RuleSuggestion.objects.get(kind="condition")
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = open_page("expert", width=width, scheme=scheme)
        for number, place in enumerate(("/rules/suggestions/", f"/rules/suggestions/{row.pk}/")):
            page.goto(site + place)
            wide = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide <= 0, (place, width)
            page.screenshot(path=tmp_path / f"{width}-{number}.png", full_page=True)
    page.goto(f"{site}/rules/suggestions/{row.pk}/")
    page.get_by_text("Open in the editor").click()
    page.wait_for_url("**/rules/new/**")
    assert page.locator("[name=text]").input_value() == row.content["text"]
    suggestion_dismiss(suggestion=row, reason="The names say it.", actor=None)
