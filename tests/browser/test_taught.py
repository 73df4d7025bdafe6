"""What the rules taught, where only a browser can tell: nothing scrolls sideways, and filters work by themselves."""

import pytest

from evaluation.models import Evaluation
from tests import test_pages_taught
from tests.test_pages_taught import models, rule, tools  # fixtures  # noqa: F401

pytestmark = pytest.mark.browser
measured = test_pages_taught.measured  # a fixture


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), pytest.param(1280, "dark", marks=pytest.mark.long)]
)
def test_pages_of_what_was_taught_fit_and_draw_their_figures(open_page, measured, rule, width, scheme):  # noqa: F811
    page = open_page("expert", width=width, scheme=scheme)
    reports = (
        "",
        "before-after/",
        "grid/?table=ranked",
        "samples-a-rule/",
        "latency/",
        "compare/",
    )
    of = Evaluation.objects.filter(decode="trace", model__isnull=False).order_by("-pk")
    reports += (f"{of[0].pk}/", f"models/{of[0].model_id}/", f"compare/?a={of[0].pk}&b={of[1].pk}")
    for address in ("/", *(f"/evaluation/{name}" for name in reports), f"/rules/{rule.pk}/"):
        page.goto(address)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address
    page.goto("/evaluation/")
    box = page.locator(".dot-figure .dot-circle").first.bounding_box()
    assert box["width"] == pytest.approx(box["height"], abs=1)


def test_before_and_after_is_narrowed_to_what_the_rules_broke(open_page, measured):
    page = open_page("product_manager")
    page.goto("/evaluation/before-after/")
    page.get_by_label("Which way").select_option("b")
    page.locator("#flips").get_by_role("button", name="Show").click()
    page.wait_for_url("**flip=b**")
    assert page.locator("#flips tbody tr .chip", has_text="only B").count() == 8
