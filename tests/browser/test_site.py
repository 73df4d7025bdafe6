"""What only a browser can tell: typing, keys, themes, narrow screens."""

import pytest

from catalog.models import Clustering
from tests.browser.reviewing import widths
from tests.factories import make_cluster, make_rule, make_run
from trace_site.jobs import Job, enqueue

pytestmark = pytest.mark.browser


def test_catalog_narrows_while_typing_and_the_address_follows(open_page, look_alikes):
    page = open_page("reviewer")
    page.goto("/catalog/")
    page.keyboard.press("/")
    page.keyboard.type("abroad")
    page.wait_for_selector("#tools tbody tr:only-child")
    page.wait_for_url("**/catalog/?q=abroad*")


def test_theme_switch_is_remembered(open_page):
    page = open_page("admin")
    page.goto("/")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Theme").click()
    page.reload()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (light, page.evaluate("localStorage['trace-theme']")) == (
        "rgb(255, 255, 255)",
        "dark",
    ) and dark != light


def test_system_theme_is_followed_until_somebody_chooses(open_page):
    page = open_page("admin", scheme="dark")
    page.goto("/")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"


@widths
def test_no_page_scrolls_sideways(open_page, look_alikes, width):
    rule = make_rule(*look_alikes, code="A_RULE_WITH_A_VERY_LONG_CODE_THAT_NEVER_ENDS_ON_ONE_LINE_OF_A_PHONE")
    cluster = make_cluster(*look_alikes, clustering=Clustering.objects.get())
    page = open_page("admin", width=width)
    paths = [
        "/",
        "/catalog/",
        f"/catalog/tools/{look_alikes[3].pk}/",
        "/clusters/",
        f"/clusters/{cluster.pk}/",
    ]
    paths += [
        "/rules/",
        f"/rules/{rule.pk}/",
        f"/rules/{rule.pk}/edit/",
        "/rules/new/",
        "/jobs/",
        "/audit/",
        "/account/",
    ]
    paths += ["/catalog/imports/", "/catalog/imports/new/"]
    wide = []
    for path in paths:
        page.goto(path)
        page.wait_for_load_state("networkidle")
        root = "document.documentElement"
        if page.evaluate(f"{root}.scrollWidth > {root}.clientWidth"):
            wide.append(path)
    assert wide == []


def test_menu_of_a_phone_opens_and_closes_from_the_keyboard(open_page):
    page = open_page("expert", width=390)
    page.goto("/")
    assert not page.is_visible("#nav")
    page.get_by_role("button", name="Menu").press("Enter")
    page.wait_for_selector("#nav a:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector("#nav", state="hidden")


def test_first_tab_stop_skips_to_the_content(open_page):
    page = open_page("expert")
    page.goto("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#main:focus")


def test_table_sorts_by_the_chosen_column(open_page, look_alikes):
    first, second, third, _ = look_alikes
    edges = [[first.pk, second.pk, 0.9], [first.pk, third.pk, 0.7], [second.pk, third.pk, 0.8]]
    cluster = make_cluster(*look_alikes, edges=edges)
    page = open_page("reviewer")
    page.goto(f"/clusters/{cluster.pk}/")
    pairs = page.locator("#pairs tbody td:first-child").all_text_contents
    unsorted = pairs()
    page.get_by_role("button", name="Two tools").click()
    assert pairs() == sorted(unsorted) != unsorted
    page.get_by_role("button", name="Two tools").click()
    assert pairs() == sorted(unsorted, reverse=True)


def test_the_strip_tells_how_far_a_training_is_and_moves_nothing(open_page):
    job = enqueue("training", {}, title="train", wake=False)
    make_run(job=job)
    page = open_page("reviewer")
    page.goto("/rules/")
    strip, top = page.locator("#strip"), page.locator("main").bounding_box()["y"]
    assert "waits for a worker" in strip.inner_text()
    Job.objects.filter(pk=job.pk).update(state="running", done=5, total=10, rate=0.1, note="stage 1")
    page.get_by_text("about 50 s left").wait_for()
    assert page.locator("main").bounding_box()["y"] == top
