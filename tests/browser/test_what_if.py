"""What if in the browser: a tick swaps figures and address, nothing scrolls sideways, no script is needed."""

from tests.factories import count_rollups, crown, make_cluster, make_evaluation, make_model, make_tool

NAMES = ("cancelPaymentOfCustomerWithReference", "createRefundOfPaymentWithReference", "readPaymentSlip")


def test_a_choice_is_ticked_shared_and_fits_every_screen(open_page, site, settings, tmp_path):
    settings.STORE_URL = (tmp_path / "store").as_uri()
    tools = [make_tool(f"BankCheckoutServicesV1/{name}") for name in NAMES]
    first = make_cluster(*tools, label="payments of customers or refunds")
    second = make_cluster(make_tool(), make_tool(), clustering=first.clustering, label="never asked")
    model = make_model()
    make_evaluation(
        *[(tools[0], [tools[1].name])] * 2, (tools[0], [tools[0].name]), model=model, decode="fast"
    )
    crown(model)
    count_rollups()
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = open_page("product_manager", width=width, scheme=scheme)
        page.goto(f"{site}/evaluation/what-if/")
        assert page.get_by_text("Nothing is picked yet").is_visible()
        page.get_by_text(second.label).click()
        page.locator("#what-if").get_by_text("Not measured", exact=True).wait_for()
        page.get_by_text(first.label).first.click()
        page.locator("#what-if").get_by_text("If these 2 are told apart").wait_for()
        assert "24 samples to write" in page.locator("#what-if-short").inner_text()
        assert f"gap={first.pk}" in page.url and f"gap={second.pk}" in page.url
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, width
    shared = open_page("reviewer", width=390, scripts=False)
    shared.goto(page.url)
    assert shared.locator("input[name=gap]:checked").count() == 2
    shared.get_by_text(second.label).first.click()
    shared.get_by_role("button", name="Show what they save").click()
    shared.locator("#what-if").get_by_text("If this is told apart").wait_for()
    assert f"gap={second.pk}" not in shared.url
