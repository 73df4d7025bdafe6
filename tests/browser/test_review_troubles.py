"""The review queue when something stands in the way: nothing is decided unseen, nothing typed is lost."""

import re

import pytest
from django.db import transaction

from synthesis.models import Decision, ReviewItem
from synthesis.review import queue as review_queue
from tests.browser.reviewing import Reviewer, sign_in, signed_in
from tests.browser.test_review_keyboard import BETTER, human, make_samples, typed_over

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def samples(transactional_db):
    return make_samples(4)


@pytest.fixture
def ann(browser, site, samples, user_with):
    person = signed_in(browser, site, user_with("reviewer", username="ann")).open()
    yield person
    person.close()


@transaction.atomic
def passes(sample, giver, taker):
    """The item goes from one to another; no beat comes in between."""
    review_queue.release(giver)
    review_queue.claim_item(taker, ReviewItem.objects.get(sample=sample).pk)


def test_an_expired_session_keeps_the_typed_edit(ann, samples):
    ann.press("e")
    typed_over(ann, BETTER)
    ann.page.context.clear_cookies(name="sessionid")
    ann.press("Control+Enter")
    assert "signed out" in ann.problem() and human(samples[0]) == "pending"
    assert ann.page.input_value("#edit-query") == BETTER
    ann.page.click("#problem a")
    sign_in(ann.page, ann.user)
    ann.on(samples[0])
    assert ann.page.input_value("#edit-query") == BETTER and ann.page.is_visible("#edit")
    assert "here again" in ann.problem()
    ann.press("Control+Enter")
    ann.on(samples[1])
    assert human(samples[0]) == "approved"
    ann.open(f"/synthesis/review/{samples[0].pk}/")
    assert ann.page.evaluate("Object.keys(sessionStorage).filter(key => key.startsWith('trace-draft'))") == []


def test_a_lost_lease_is_told_and_the_text_kept(ann, samples, user_with):
    ann.press("e")
    typed_over(ann, BETTER)
    passes(samples[0], ann.user, user_with("reviewer", username="bea"))
    ann.page.evaluate("beat()")
    assert "somebody else has it" in ann.problem()
    assert ann.page.input_value("#edit-query") == BETTER
    ann.press("Control+Enter")
    ann.page.wait_for_selector("#problem:has-text('Nothing was changed')")
    assert not Decision.objects.exists() and ann.page.input_value("#edit-query") == BETTER
    ann.press("Escape", "s")
    ann.on(samples[1])


def test_a_lease_that_nobody_took_is_renewed_in_silence(ann, samples):
    ann.fetched_ahead()
    review_queue.release(ann.user)
    ann.page.evaluate("beat()")
    ann.page.wait_for_timeout(100)
    assert not ann.page.is_visible("#problem")
    assert set(ReviewItem.objects.filter(claimed_by=ann.user).values_list("sample", flat=True)) == {
        samples[0].pk,
        samples[1].pk,
    }
    ann.press("a")
    ann.on(samples[1])


@pytest.mark.parametrize("first", ["heartbeat", "skip"])
def test_what_is_skipped_is_not_kept_by_a_beat_sent_at_the_same_time(ann, samples, first):
    ann.fetched_ahead()
    slow, sent = [], []

    def held_or_counted(route):
        sent.append(route.request.url.rstrip("/").rsplit("/", 1)[1])
        if sent[-1] == first:
            slow.append(route)
        else:
            route.continue_()

    either = re.compile("/(heartbeat|skip)/$")
    ann.page.route(
        either, held_or_counted
    )  # both from one moment on: a beat of the page's own may be under way
    steps = [lambda: ann.page.evaluate("void beat()"), lambda: ann.press("s")]
    one, other = steps if first == "heartbeat" else reversed(steps)
    one()
    for _ in range(200):
        if slow:
            break
        ann.page.wait_for_timeout(25)
    other()
    ann.page.wait_for_timeout(300)
    assert sent == [first] and len(slow) == 1
    slow[0].continue_()
    ann.page.unroute(either)
    for sample in samples[1:]:
        ann.on(sample)
        ann.press("a")
    ann.on(samples[0])


def test_a_claim_given_back_meanwhile_is_taken_again_for_the_decision(ann, samples):
    review_queue.release(ann.user)
    ann.press("a")
    ann.on(samples[1])
    assert human(samples[0]) == "approved" and Decision.objects.count() == 1


def test_two_tabs_on_one_item_make_one_decision_and_the_other_is_told(ann, samples):
    ann.fetched_ahead()
    other = Reviewer(ann.page.context.new_page(), ann.site, ann.user).open()
    while other.shown() != samples[0].pk:  # a row that a beat holds is passed over
        other.open()
    assert ann.shown() == samples[0].pk
    ann.press("a")
    ann.on(samples[1])
    other.press("r", "1")
    assert "Nothing was changed" in other.problem()
    assert other.shown() == samples[0].pk and human(samples[0]) == "approved"
    assert Decision.objects.count() == 1
    other.press("s")
    other.has_left(samples[0].pk)
    assert other.shown() in [sample.pk for sample in samples[1:]]  # a row that a beat holds is passed over


def test_a_colleagues_decision_is_told_on_the_item(ann, samples, user_with):
    passes(samples[0], ann.user, user_with("reviewer", username="bea"))
    ann.press("a")
    ann.page.wait_for_selector("#problem:has-text('bea has it now')")
    assert "Nothing was changed" in ann.problem() and ann.shown() == samples[0].pk
    assert human(samples[0]) == "pending"
    ann.page.evaluate("beat()")  # knows less about it
    assert "bea has it now" in ann.problem()


def test_without_a_network_the_item_stays_and_the_press_may_be_repeated(ann, samples):
    ann.fetched_ahead()
    ann.page.context.set_offline(True)
    ann.press("a")
    assert "cannot be reached" in ann.problem() and ann.shown() == samples[0].pk
    ann.page.context.set_offline(False)
    ann.press("a")
    ann.on(samples[1])
    assert human(samples[0]) == "approved" and not ann.page.is_visible("#problem")


def test_a_lost_answer_is_no_second_decision(ann, samples):
    ann.fetched_ahead()
    lost = []

    def lose(route):
        if lost:
            return route.continue_()
        lost.append(route.fetch())
        return route.abort()

    ann.page.route("**/approve/**", lose)
    ann.press("a")
    ann.problem()
    assert human(samples[0]) == "approved" and ann.shown() == samples[0].pk
    ann.press("a")
    ann.on(samples[1])
    assert Decision.objects.count() == 1


def test_the_item_fetched_ahead_is_shown_without_another_request(ann, samples):
    ann.fetched_ahead()
    asked = []
    ann.page.on("request", lambda request: asked.append(request.url))
    ann.page.route("**/review/next/**", lambda route: None)  # a network that never answers
    ann.press("a")
    ann.on(samples[1])
    assert not [url for url in asked if url.rstrip("/").rpartition("/")[2].isdecimal()]
    assert human(samples[0]) == "approved" and human(samples[1]) == "pending"


def test_nothing_new_shows_before_the_server_has_said_yes(ann, samples):
    ann.fetched_ahead()
    waiting = []
    ann.page.route("**/approve/**", lambda route: waiting.append(route))
    ann.press("a")
    ann.page.wait_for_timeout(300)
    assert ann.shown() == samples[0].pk and human(samples[0]) == "pending"
    ann.page.keyboard.press("r")
    assert not ann.page.is_visible("#reject")
    waiting[0].continue_()
    ann.on(samples[1])


def test_a_decided_item_whose_next_did_not_come_cannot_be_decided_again(ann, samples):
    ann.fetched_ahead()
    ann.page.route("**/review/next/**", lambda route: route.abort())
    ann.page.evaluate("queue.ahead.length = 0")
    ann.press("a")
    assert "Decided." in ann.problem()
    ann.press("a", "r", "e")
    assert not ann.page.is_visible("#reject") and Decision.objects.count() == 1
    ann.page.unroute("**/review/next/**")
    ann.page.click("#problem button")
    ann.on(samples[1])


def test_an_empty_queue_fills_itself_when_something_frees(ann, samples, user_with):
    bea = user_with("reviewer", username="bea")
    leave(ann)
    for item in ReviewItem.objects.all():
        review_queue.claim_item(bea, item.pk)
    ann.open()
    assert "4 left, 4 claimed by others" in ann.page.inner_text("#item")
    ann.page.evaluate("shown().dataset.poll = 1; waitForMore(shown())")
    review_queue.release(bea)
    ann.on(samples[0])


def test_leaving_gives_the_items_back(ann, samples):
    leave(ann)


def leave(ann):
    """A busy browser may end a page before that has said that it goes; then items come back when their time is over."""
    for _ in range(3):
        ann.fetched_ahead()
        ann.page.goto(f"{ann.site}/synthesis/samples/")
        for _ in range(100):
            if not ReviewItem.objects.filter(state="claimed").exists():
                return
            ann.page.wait_for_timeout(50)
        ann.open()
    raise AssertionError("the items are still claimed")


def test_reloading_keeps_the_item(ann, samples):
    ann.page.reload()
    ann.on(samples[0])
    ann.press("a")
    ann.has_left(samples[0].pk)
    assert human(samples[0]) == "approved"
