"""The review queue by keyboard alone, in a real Chromium: what each decision costs, and when keys rest."""

import pytest

from synthesis.models import Decision, ReviewItem, Sample, SecondShare
from tests.browser.reviewing import signed_in
from tests.factories import make_rule, make_sample, make_tool

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
BETTER = "what did I earn in March of this year, number"


def make_samples(count):
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(count)]


@pytest.fixture
def samples(transactional_db):
    return make_samples(4)


@pytest.fixture
def reviewer(browser, site, user_with):
    """reviewer("ann") -> a reviewer at the queue's first item."""
    people = []

    def make(name="ann", **context):
        people.append(signed_in(browser, site, user_with("reviewer", username=name), **context))
        return people[-1].open()

    yield make
    for person in people:
        person.close()


def human(sample):
    return Sample.objects.get(pk=sample if isinstance(sample, int) else sample.pk).human


def typed_over(person, text):
    """Replace the query's text as one types it; the presses of typing are no presses of reviewing."""
    person.page.keyboard.press("Control+a")
    person.page.keyboard.type(text)


def test_twenty_items_by_three_people_with_edits_rejections_undo_second_readings_and_adjudications(reviewer):
    SecondShare.objects.create(share=1.0)
    samples = [sample.pk for sample in make_samples(20)]
    ann = reviewer("ann")
    for number, sample in enumerate(samples):
        assert ann.shown() == sample
        before = ann.presses
        if number % 5 == 1:
            ann.press("r", "3")
            assert ann.presses - before == 2
        elif number % 5 == 2:
            ann.press("e")
            typed_over(ann, f"{BETTER} {number}")
            ann.press("Control+Enter")
            assert ann.presses - before == 2  # the edit itself, and one press
        else:
            ann.press("a")
            assert ann.presses - before == 1
        ann.has_left(sample)
        if number == 7:  # an edit, taken back and approved as it was
            ann.press("u")
            ann.on(sample)
            ann.press("a")
            ann.has_left(sample)
    assert set(map(human, samples)) == {"second"}
    bea = reviewer("bea")
    for sample in samples:  # agrees with every approval, with no rejection and no edit
        assert bea.shown() == sample
        bea.press("a")
        bea.has_left(sample)
    disputed = [sample for sample in samples if human(sample) == "disputed"]
    assert disputed == [sample for at, sample in enumerate(samples) if at % 5 in (1, 2) and at != 7]
    cleo = reviewer("cleo")
    for sample in disputed:
        assert cleo.shown() == sample
        verdicts = cleo.page.eval_on_selector_all(".side h2 ~ .chip", "chips => chips.map(c => c.innerText)")
        wanted = "reject" if samples.index(sample) % 5 == 1 else "edit"
        cleo.press(str(1 + next(at for at, words in enumerate(verdicts) if wanted in words)))
        cleo.has_left(sample)
    outcomes = {pk: human(pk) for pk in samples}
    assert [outcomes[pk] for pk in samples] == ["rejected" if at % 5 == 1 else "approved" for at in range(20)]
    edited = Sample.objects.get(pk=samples[2])
    assert (edited.query, edited.approved_how) == (f"{BETTER} 2", "adjudicated")
    made = Decision.objects.exclude(verdict="undo")
    assert ReviewItem.objects.filter(state="decided").count() == 20 + 20 + 7
    assert made.count() == 20 + 20 + 7 + 1 and Decision.objects.filter(verdict="undo").count() == 1


def test_undo_is_for_decisions_and_arrows_look_back_without_deciding(reviewer, samples):
    ann = reviewer()
    for sample in samples[:2]:
        ann.on(sample)
        ann.press("a")
    ann.on(samples[2])
    ann.press("ArrowLeft")
    ann.page.wait_for_selector(f'#item[data-shows="{samples[1].pk}"]')
    assert "by you" in ann.page.inner_text("#item .review-mine")
    ann.page.wait_for_timeout(150)
    ann.press("ArrowLeft")
    ann.page.wait_for_selector(f'#item[data-shows="{samples[0].pk}"]')
    ann.page.wait_for_timeout(150)
    ann.press("a", "r", "e", "u")  # an older decision is only looked at
    assert human(samples[0]) == "approved"
    ann.press("ArrowRight")
    ann.page.wait_for_selector(f'#item[data-shows="{samples[1].pk}"]')
    ann.page.wait_for_timeout(150)
    ann.press("ArrowRight")
    ann.on(samples[2])
    ann.press("ArrowRight")
    ann.on(samples[3])
    ann.press("ArrowLeft")
    ann.on(samples[2])
    ann.press("u")
    ann.on(samples[1])
    assert human(samples[1]) == "pending"


def test_skip_puts_an_item_off_until_the_others_are_decided(reviewer, samples):
    ann = reviewer()
    ann.press("s")
    for sample in samples[1:]:
        ann.on(sample)
        ann.press("a")
    ann.on(samples[0])


def test_edit_shows_what_the_filter_refuses_where_and_how_it_differs(reviewer, samples):
    ann = reviewer()
    ann.press("e")
    typed_over(ann, "call New/GetSlip for my pay document")
    ann.page.wait_for_selector("#check mark.evidence")
    assert "query as it was" in ann.page.inner_text("#check").lower()
    with ann.page.expect_response(lambda response: response.status == 422):
        ann.press("Control+Enter")
    assert "leak" in ann.problem()
    assert ann.page.input_value("#edit-query") == "call New/GetSlip for my pay document"
    assert human(samples[0]) == "pending"
    ann.page.focus("#edit-query")
    typed_over(ann, BETTER)
    ann.press("Control+Enter")
    ann.on(samples[1])
    assert Sample.objects.get(pk=samples[0].pk).query == BETTER


def test_escape_leaves_an_edit_without_saving(reviewer, samples):
    ann = reviewer()
    ann.press("e")
    typed_over(ann, "something else")
    ann.press("Escape")
    assert not ann.page.is_visible("#edit") and ann.page.is_visible(".review-query")
    ann.open()
    assert not ann.page.is_visible("#edit")


def test_rejection_takes_a_note_and_remembers_what_follows(reviewer, samples):
    ann = reviewer()
    ann.press("r", "n")
    ann.page.keyboard.type("a 12 d")
    ann.press("Escape", "d", "2")
    ann.on(samples[1])
    decision = Decision.objects.get()
    assert (decision.reason, decision.note, decision.follow_up) == ("wrong_rule", "a 12 d", "drop")
    ann.press("r", "1")
    ann.on(samples[2])
    assert Decision.objects.latest("pk").follow_up == "drop"


def test_rejection_for_another_reason_asks_for_the_note(reviewer, samples):
    ann = reviewer()
    ann.press("r", "9")
    assert ann.page.evaluate("document.activeElement.id") == "reject-note"
    assert not Decision.objects.exists()
    ann.page.keyboard.type("wrong year")
    ann.press("Control+Enter")
    ann.on(samples[1])
    assert (Decision.objects.get().reason, Decision.objects.get().note) == ("other", "wrong year")


# when keys rest


def test_keys_rest_in_dialogs_and_while_typing(reviewer, samples):
    ann = reviewer()
    ann.press("?")
    ann.page.wait_for_selector("dialog#keys[open]")
    ann.press("a", "1", "u", "Escape")
    ann.press("r")
    ann.page.focus("#reject-note")
    ann.page.keyboard.type("a are 12")
    assert ann.page.input_value("#reject-note") == "a are 12"
    ann.press("Escape", "a", "Escape")
    ann.page.focus("#id_rule")
    ann.page.keyboard.type("ar3s")
    assert not Decision.objects.exists() and ann.shown() == samples[0].pk


def test_keys_rest_with_modifiers_and_when_held_down(reviewer, samples):
    ann = reviewer()
    ann.press("Control+u", "Alt+a", "Meta+a")
    ann.page.evaluate(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', bubbles: true, repeat: true}))"
    )
    ann.page.wait_for_timeout(200)
    assert not Decision.objects.exists()


def test_two_fast_presses_decide_only_what_was_seen(reviewer, samples):
    ann = reviewer()
    ann.fetched_ahead()
    ann.page.keyboard.type("aaa", delay=0)
    ann.on(samples[1])
    ann.page.wait_for_timeout(300)
    assert [human(sample) for sample in samples[:2]] == ["approved", "pending"]


def test_keys_rest_just_after_an_item_has_appeared(reviewer, samples):
    ann = reviewer()
    ann.fetched_ahead()
    press = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', bubbles: true}))"
    ann.page.evaluate(
        f"new MutationObserver(() => {{ if (shown().dataset.sample === '{samples[1].pk}') {press} }})"
        ".observe(review(), {childList: true})"
    )
    ann.press("a")
    ann.on(samples[1])
    ann.page.wait_for_timeout(300)
    assert human(samples[1]) == "pending"


def test_g_c_and_j_open_their_panes(reviewer, samples):
    samples[0].attempts.create(number=1, outcome="ready", judge={"label": 5})
    ann = reviewer()
    for key in ("j", "g", "c"):
        pane = f'details:has(> [data-key="{key}"])'
        if ann.page.query_selector(pane):
            assert ann.page.get_attribute(pane, "open") is None
            ann.press(key)
            assert ann.page.get_attribute(pane, "open") is not None
