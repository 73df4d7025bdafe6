"""The review queue at 390 px by touch, and without scripts."""

import pytest

from synthesis.models import Decision, Sample
from tests.browser.reviewing import signed_in
from tests.browser.test_review_keyboard import BETTER, human, make_samples

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def samples(transactional_db):
    return make_samples(6)


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_by_touch_everything_is_in_reach_and_nothing_scrolls_sideways(browser, site, samples, user_with):
    ann = signed_in(browser, site, user_with("reviewer"), **PHONE).open()
    page = ann.page
    assert fits(page)
    box = page.locator('[data-key="a"]').bounding_box()
    assert box["y"] > 844 / 2 and box["y"] + box["height"] <= 844 and box["height"] >= 44
    page.tap('[data-key="a"]')
    ann.on(samples[1])
    page.tap('[data-key="r"]')
    assert fits(page)
    assert all(
        box["height"] >= 40
        for box in page.locator("[data-digit]").evaluate_all(
            "buttons => buttons.map(b => b.getBoundingClientRect().toJSON())"
        )
    )
    page.tap('[data-digit="1"]')
    ann.on(samples[2])
    page.tap('[data-key="e"]')
    page.fill("#edit-query", BETTER)
    page.wait_for_selector("#check .tone-good")
    assert fits(page)
    page.tap("[data-submit-key]")
    ann.on(samples[3])
    page.tap('[data-key="s"]')
    ann.on(samples[4])
    page.tap('[data-key="u"]')
    ann.on(samples[2])
    assert [human(sample) for sample in samples] == ["approved", "rejected", *["pending"] * 4]
    ann.close()


def test_without_scripts_the_forms_decide_and_go_on(browser, site, samples, user_with):
    ann = signed_in(browser, site, user_with("reviewer"), java_script_enabled=False).open()
    ann.page.click('[data-key="a"]')
    ann.page.wait_for_selector(f'#item[data-sample="{samples[1].pk}"]')
    ann.page.click('[data-key="s"]')
    ann.page.wait_for_selector(f'#item[data-sample="{samples[2].pk}"]')
    ann.page.click('[data-key="u"]')
    ann.page.wait_for_selector(f'#item[data-sample="{samples[0].pk}"]')
    assert Decision.objects.count() == 2 and Sample.objects.filter(human="approved").count() == 0
    ann.close()
