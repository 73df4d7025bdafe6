"""The map of clusters in a real browser: wheel, keys, touch, search, and the panel with its own address.

What is waited for is a function: the site's policy lets a plain expression be evaluated only once.
"""

import re

import numpy as np
import pytest

from catalog.models import Clustering
from tests.factories import make_cluster, make_domain, make_rule, make_tool

pytestmark = pytest.mark.browser


@pytest.fixture
def clusters(transactional_db):
    """Twelve clusters of three tools; the first is resolved."""
    clustering = Clustering.objects.create(domain=make_domain(), version=1, tau=0.8, algorithm="test")
    found = []
    for number in range(12):
        tools = [
            make_tool(f"Api{number}/Tool{letter}{number}", embedding=np.eye(12)[number] + 0.01 * place)
            for place, letter in enumerate("ABC")
        ]
        found.append(make_cluster(*tools, clustering=clustering, label=f"group {number}", position=number))
        if not number:
            make_rule(*tools, code="A_RULE")
    return found


@pytest.fixture
def open_map(open_page, clusters):
    def open_one(role="expert", path="/clusters/map/", **options):
        page = open_page(role, **options)
        page.goto(path)
        page.wait_for_function(
            "() => document.getElementById('map').clusterMap?.shown > 0"
        )  # it has been drawn
        return page

    return open_one


def camera(page):
    return page.evaluate("({...document.getElementById('map').clusterMap.camera})")


def on_screen(page, cluster):
    """Where a cluster's centre lies in the window."""
    return page.evaluate(
        """id => { const map = document.getElementById('map').clusterMap, i = map.place.get(id);
        const at = map.canvas.getBoundingClientRect(); return [at.left + map.sx[i], at.top + map.sy[i]]; }""",
        cluster.pk,
    )


def test_wheel_buttons_and_keys_zoom_about_the_point_they_mean(open_map, clusters):
    page = open_map()
    x, y = on_screen(page, clusters[3])
    before = camera(page)["k"]
    page.mouse.move(x, y)
    page.mouse.wheel(0, -400)
    page.wait_for_function("k => document.getElementById('map').clusterMap.camera.k > k", arg=before * 1.5)
    assert np.hypot(*(np.array(on_screen(page, clusters[3])) - (x, y))) < 2
    page.click("[data-map=fit]")
    page.wait_for_function(
        "k => Math.abs(document.getElementById('map').clusterMap.camera.k / k - 1) < 1e-6", arg=before
    )
    page.focus("#map-canvas")
    page.keyboard.press("+")
    assert camera(page)["k"] == pytest.approx(1.4 * before)
    page.keyboard.press("Shift+ArrowRight")
    assert camera(page)["x"] > 0


def test_click_opens_a_panel_whose_address_can_be_shared_and_left(open_map, clusters):
    page = open_map()
    page.mouse.click(*on_screen(page, clusters[5]))
    page.wait_for_selector("#panel-title >> text=group 5")
    assert page.url.endswith(f"?cluster={clusters[5].pk}")
    page.reload()
    page.wait_for_selector("#panel-title >> text=group 5")
    page.go_back()
    page.wait_for_selector("#map-panel", state="hidden")
    page.go_forward()
    page.wait_for_selector("#panel-title >> text=group 5")
    page.click("[data-map=close]")
    page.wait_for_url(lambda url: "cluster=" not in url)


@pytest.mark.parametrize("steps", ["back", "back forward"])
def test_panel_follows_an_address_that_changed_before_the_data_came(open_map, clusters, steps):
    page, held = open_map(), []
    page.mouse.click(*on_screen(page, clusters[5]))
    page.wait_for_selector("#panel-title >> text=group 5")
    page.route("**/clusters/map/*.json", lambda route: held.append(route))
    with page.expect_request("**/clusters/map/*.json"):
        page.reload()
    for step in steps.split():
        page.go_back() if step == "back" else page.go_forward()
    held[0].continue_()
    page.wait_for_function("() => document.getElementById('map').clusterMap?.shown > 0")
    page.wait_for_selector("#map-panel", state="visible" if steps.endswith("forward") else "hidden")


def test_gap_is_found_and_opened_without_a_mouse(open_map, clusters):
    page = open_map()
    page.focus("#map-canvas")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "() => document.getElementById('map-spoken').textContent.includes('of pairs told apart')"
    )
    said = page.text_content("#map-spoken")
    assert re.match(r"group \d+: (no rule|resolved), 3 tools, \d+ % of pairs told apart", said)
    assert page.text_content("#map-tip") == said
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#panel-title >> text={said.split(':')[0]}")
    assert page.evaluate("document.activeElement.id") == "panel-title"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "map-canvas"


def test_search_lights_up_what_it_finds_and_flies_there(open_map, clusters):
    page = open_map()
    page.fill("#map-q", "toolb7")
    page.wait_for_selector("#map-results [role=option]")
    lit = page.evaluate("[...document.getElementById('map').clusterMap.lit].length")
    assert lit == 1
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel-title >> text=group 7")
    page.wait_for_function("() => document.getElementById('map').clusterMap.details.size > 0")
    tools = page.evaluate(
        "id => document.getElementById('map').clusterMap.details.get(id).tools.length", clusters[7].pk
    )
    assert tools == 3
    page.click("#map-panel >> text=Write a rule")
    page.wait_for_url("**/rules/new/**")
    assert f"tools={'%2C'.join(map(str, clusters[7].tool_ids))}" in page.url


def test_key_shows_one_state_alone(open_map, clusters):
    page = open_map()
    page.click("[data-state=resolved]")
    assert page.evaluate("[...document.getElementById('map').clusterMap.lit].length") == 1
    assert page.get_attribute("[data-state=resolved]", "aria-pressed") == "true"
    page.click("[data-state=resolved]")
    assert page.evaluate("document.getElementById('map').clusterMap.lit") is None


def test_labels_never_lie_on_each_other(open_map, clusters):
    page = open_map()
    page.evaluate("{ const map = document.getElementById('map').clusterMap; map.camera.k *= 2; map.draw(); }")
    boxes = page.evaluate("document.getElementById('map').clusterMap.taken")
    assert len(boxes) >= 3
    for place, one in enumerate(boxes):
        for two in boxes[place + 1 :]:
            apart = one["right"] <= two["left"] or two["right"] <= one["left"]
            assert apart or one["bottom"] <= two["top"] or two["bottom"] <= one["top"]


def test_colours_follow_the_theme(open_map, clusters):
    page = open_map()
    pixel = (
        "[...document.getElementById('map').clusterMap.pen.getImageData(3, 3, 1, 1).data].slice(0, 3).join()"
    )
    assert page.evaluate(pixel) == "255,255,255"
    page.get_by_role("button", name="Theme").click()
    page.wait_for_function(f"() => {pixel} !== '255,255,255'")


def test_fingers_move_and_pinch_and_a_tap_opens(open_map, clusters, browser):
    page = open_map(width=390)
    client = page.context.new_cdp_session(page)
    client.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

    def touch(kind, *points):
        client.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]}
        )

    box = page.locator("#map-canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = camera(page)
    touch("touchStart", (x - 30, y), (x + 30, y))
    for step in range(1, 6):
        touch("touchMove", (x - 30 - 10 * step, y), (x + 30 + 10 * step, y))
    touch("touchEnd")
    pinched = camera(page)
    assert pinched["k"] > 1.8 * before["k"]
    touch("touchStart", (x, y))
    touch("touchMove", (x - 50, y))
    touch("touchEnd")
    assert camera(page)["x"] > pinched["x"]
    page.click("[data-map=fit]")
    page.wait_for_function(
        """() => { const map = document.getElementById('map').clusterMap;
        return Math.abs(map.camera.k / map.fitted().k - 1) < 1e-6; }"""
    )
    at = on_screen(page, clusters[4])
    touch("touchStart", at)
    touch("touchEnd")
    page.wait_for_selector("#panel-title >> text=group 4")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
