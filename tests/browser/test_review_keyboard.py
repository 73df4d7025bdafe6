"""The review queue by keyboard and by touch, in a real Chromium."""

import pytest

from synthesis.models import Decision, Sample
from tests.factories import make_rule, make_sample, make_tool

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def samples():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(4)]


def open_queue(browser, site, user, **viewport):
    context = browser.new_context(
        viewport=viewport or {"width": 1280, "height": 900}, has_touch=bool(viewport)
    )
    page = context.new_page()
    page.goto(f"{site}/login/?next=/synthesis/review/")
    page.fill("[name=username]", user.username)
    page.fill("[name=password]", "pass")
    page.press("[name=password]", "Enter")
    page.wait_for_selector("#review[data-sample]")
    return page


@pytest.fixture
def page(browser, site, samples, user_with):
    page = open_queue(browser, site, user_with("reviewer"))
    yield page
    page.context.close()


def on_screen(page, sample):
    """Wait until the sample is shown and the keys listen again."""
    page.wait_for_selector(f'#review[data-sample="{sample.pk}"]:not([aria-busy])')
    page.wait_for_timeout(200)


def human(sample):
    return Sample.objects.get(pk=sample.pk).human


def test_keys_approve_reject_skip_undo_and_move(page, samples):
    on_screen(page, samples[0])
    page.keyboard.press("a")
    on_screen(page, samples[1])
    assert human(samples[0]) == "approved"
    page.keyboard.press("r")
    page.wait_for_selector("dialog#reject[open]")
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    on_screen(page, samples[2])
    assert Decision.objects.latest("pk").reason == "unnatural"
    page.keyboard.press("s")
    on_screen(page, samples[3])
    page.keyboard.press("ArrowLeft")
    on_screen(page, samples[2])
    page.keyboard.press("u")
    on_screen(page, samples[1])
    assert human(samples[1]) == "pending"


def test_edit_shows_what_the_filter_refuses_then_saves_with_ctrl_enter(page, samples):
    on_screen(page, samples[0])
    page.keyboard.press("e")
    page.fill("#edit-query", "call New/GetSlip for my pay document")
    page.wait_for_selector("#check .tone-bad")
    with page.expect_response(lambda response: response.status == 422):
        page.keyboard.press("Control+Enter")
    on_screen(page, samples[0])
    assert page.is_visible("#edit .tone-bad")
    assert page.input_value("#edit-query") == "call New/GetSlip for my pay document"
    assert human(samples[0]) == "pending"
    page.fill("#edit-query", "what did I earn in March of this year")
    page.keyboard.press("Control+Enter")
    on_screen(page, samples[1])
    assert Sample.objects.get(pk=samples[0].pk).query == "what did I earn in March of this year"


def test_keys_are_dead_while_typing_and_in_dialogs(page, samples):
    on_screen(page, samples[0])
    page.keyboard.press("?")
    page.wait_for_selector("dialog#keys[open]")
    page.keyboard.press("a")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    page.focus("#reject-note")
    page.keyboard.type("a are 12")
    assert page.input_value("#reject-note") == "a are 12"
    page.keyboard.press("Escape")
    assert not Decision.objects.exists()


def test_two_fast_presses_decide_only_what_was_seen(page, samples):
    on_screen(page, samples[0])
    page.keyboard.type("aa", delay=0)
    on_screen(page, samples[1])
    page.wait_for_timeout(300)
    assert [human(sample) for sample in samples[:2]] == ["approved", "pending"]


def test_a_colleagues_decision_is_shown(page, samples, user_with):
    on_screen(page, samples[0])
    Sample.objects.filter(pk=samples[0].pk).update(human="rejected")
    page.keyboard.press("a")
    page.wait_for_selector("#review .tone-warn:has-text('Nothing was changed')")
    assert human(samples[0]) == "rejected"


def test_queue_works_by_touch_on_a_phone_without_sideways_scroll(browser, site, samples, user_with):
    page = open_queue(browser, site, user_with("reviewer"), width=390, height=844)
    on_screen(page, samples[0])
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.tap('[data-key="a"]')
    on_screen(page, samples[1])
    page.tap('[data-key="r"]')
    page.tap('label:has([data-digit="1"])')
    page.tap("dialog#reject [data-submit]")
    on_screen(page, samples[2])
    assert [human(sample) for sample in samples[:2]] == ["approved", "rejected"]
    page.context.close()
