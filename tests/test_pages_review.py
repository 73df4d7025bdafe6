"""The review queue's pages: claims, decisions, conflicts that overwrite nothing, and why it is empty."""

import json

import pytest
from django.test import Client

from synthesis.models import Decision, ReviewItem, Sample, SecondShare
from synthesis.review import queue as review_queue
from synthesis.review import services as review_services
from synthesis.samples.decisions import seen_key
from tests.factories import make_rule, make_sample, make_tool

pytestmark = pytest.mark.django_db
SCRIPT = {"headers": {"Accept": "application/json"}}
FRAGMENT = {"headers": {"HX-Request": "true"}}
GOOD_EDIT = "what did I earn in March this year"


@pytest.fixture
def samples():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(3)]


@pytest.fixture
def reviewer(client_as):
    return client_as("reviewer")


@pytest.fixture
def signed_in(user_with):
    """signed_in("bea") -> a client of another reviewer."""

    def make(name: str) -> Client:
        client = Client()
        client.force_login(user_with("reviewer", username=name))
        return client

    return make


def opened(client, sample):
    """What the forms of the sample's page carry; the item is claimed by then."""
    page = client.get(f"/synthesis/review/{sample.pk}/")
    reading = page.context["reading"]
    assert reading.item is not None, reading.why
    return {"claim": str(reading.item.claim), "seen": page.context["seen"]}


def post(client, sample, verb, script=False, **fields):
    given = {**opened(client, sample), **fields}
    return client.post(f"/synthesis/review/{sample.pk}/{verb}/", given, **(SCRIPT if script else {}))


def edited(sample, **texts):
    return {"query": GOOD_EDIT, "trace": sample.trace, "answer": "New/GetSlip", **texts}


def human(sample):
    return Sample.objects.get(pk=sample.pk).human


@pytest.mark.parametrize(("role", "status"), [("expert", 403), ("product_manager", 403), ("admin", 302)])
def test_queue_is_for_reviewers_and_admins(client_as, samples, role, status):
    assert client_as(role).get("/synthesis/review/").status_code == status


def test_queue_claims_the_first_item_and_shows_it_under_its_sample(reviewer, samples):
    answer = reviewer.get("/synthesis/review/")
    assert answer.url == f"/synthesis/review/{samples[0].pk}/"
    item = ReviewItem.objects.get(sample=samples[0])
    assert (item.state, item.claimed_by.username) == ("claimed", "reviewer")
    assert opened(reviewer, samples[0])["claim"] == str(item.claim)


def test_two_reviewers_are_shown_different_items(reviewer, samples, signed_in):
    assert reviewer.get("/synthesis/review/").url != signed_in("bea").get("/synthesis/review/").url


def test_approval_is_recorded_with_its_seconds_and_answers_with_the_next_item(reviewer, samples):
    answer = post(reviewer, samples[0], "approve", seconds="4.5")
    assert answer.url == "/synthesis/review/"
    assert reviewer.get(answer.url).url == f"/synthesis/review/{samples[1].pk}/"
    decision = Decision.objects.get()
    assert human(samples[0]) == "approved"
    assert (decision.reviewer.username, decision.seconds) == ("reviewer", 4.5)


@pytest.mark.parametrize("seconds", ["", "soon", "nan", "-1", "1e9"])
def test_seconds_that_are_none_are_left_out(reviewer, samples, seconds):
    post(reviewer, samples[0], "approve", seconds=seconds)
    assert Decision.objects.get().seconds is None


def test_rejection_needs_a_reason_and_keeps_the_note_and_what_follows(reviewer, samples):
    assert post(reviewer, samples[0], "reject", reason="").status_code == 422
    assert human(samples[0]) == "pending"
    post(reviewer, samples[0], "reject", reason="unnatural", note="too stiff", follow_up="drop")
    decision = Decision.objects.get()
    assert (decision.reason, decision.note, decision.follow_up) == ("unnatural", "too stiff", "drop")


def test_a_rejected_sample_is_written_again_unless_one_says_otherwise(reviewer, samples):
    post(reviewer, samples[0], "reject", reason="unnatural")
    assert Decision.objects.get().follow_up == "regenerate"


def test_rejection_for_another_reason_needs_a_note(reviewer, samples):
    page = post(reviewer, samples[0], "reject", reason="other")
    assert page.status_code == 422 and b"say in the note" in page.content
    assert post(reviewer, samples[0], "reject", reason="other", note="wrong year").status_code == 302


def test_edit_is_refused_with_what_the_filter_found_and_keeps_the_typed_text(reviewer, samples):
    given = edited(samples[0], query="call New/GetSlip for the pay document of March")
    page = post(reviewer, samples[0], "edit", **given)
    assert page.status_code == 422
    assert {failure["check"] for failure in page.context["failures"]} == {"leakage"}
    assert "required>call New/GetSlip for the pay document" in page.content.decode()
    assert '<mark class="evidence"' in page.content.decode()
    assert human(samples[0]) == "pending"


def test_a_good_edit_changes_the_text_and_approves(reviewer, samples):
    assert post(reviewer, samples[0], "edit", **edited(samples[0])).status_code == 302
    sample = Sample.objects.get(pk=samples[0].pk)
    assert (sample.human, sample.query, sample.approved_how) == ("approved", GOOD_EDIT, "edited")


def test_typing_is_checked_without_deciding_and_shown_beside_the_text_as_it_was(reviewer, samples):
    given = edited(samples[0], query="New/GetSlip please for me")
    page = post(reviewer, samples[0], "check", **given)
    assert b"leakage" in page.content and b"query as it was" in page.content
    assert not Decision.objects.exists()


def test_the_same_submission_sent_twice_is_one_decision_and_answered_twice(reviewer, samples):
    given = {**opened(reviewer, samples[0]), **edited(samples[0])}
    answers = [
        reviewer.post(f"/synthesis/review/{samples[0].pk}/edit/", given, **SCRIPT).status_code for _ in "ab"
    ]
    assert answers == [200, 200] and Decision.objects.count() == 1


def test_of_two_tabs_that_decide_differently_the_second_is_told(reviewer, samples):
    given = opened(reviewer, samples[0])
    reviewer.post(f"/synthesis/review/{samples[0].pk}/approve/", given, **SCRIPT)
    late = {**given, "reason": "leak"}
    answer = reviewer.post(f"/synthesis/review/{samples[0].pk}/reject/", late, **SCRIPT)
    assert answer.status_code == 409 and answer.json()["code"] == "conflict"
    assert human(samples[0]) == "approved" and Decision.objects.count() == 1
    page = reviewer.post(f"/synthesis/review/{samples[0].pk}/reject/", late)
    assert page.status_code == 409 and b"Nothing was changed" in page.content


def test_a_colleagues_decision_is_shown_and_not_overwritten(reviewer, samples, user_with):
    given = opened(reviewer, samples[0])
    review_queue.release(User("reviewer"))
    review_services.reject(sample=samples[0].pk, reviewer=user_with("admin"), reason="leak")
    page = reviewer.post(f"/synthesis/review/{samples[0].pk}/approve/", given)
    assert page.status_code == 409 and b"Nothing was changed" in page.content
    assert human(samples[0]) == "rejected"


def User(name):
    from django.contrib.auth.models import User as Users

    return Users.objects.get(username=name)


def test_a_text_that_changed_since_it_was_read_is_not_approved(reviewer, samples):
    given = opened(reviewer, samples[0])
    Sample.objects.filter(pk=samples[0].pk).update(query="another text altogether")
    page = reviewer.post(f"/synthesis/review/{samples[0].pk}/approve/", given)
    assert page.status_code == 409 and human(samples[0]) == "pending"


@pytest.mark.parametrize("claim", ["", "mine", "00000000-0000-0000-0000-000000000000"])
def test_a_decision_without_its_claim_is_refused(reviewer, samples, claim):
    given = {**opened(reviewer, samples[0]), "claim": claim}
    assert reviewer.post(f"/synthesis/review/{samples[0].pk}/approve/", given).status_code == 409
    assert human(samples[0]) == "pending"


def test_a_script_is_told_how_far_one_is(reviewer, samples):
    told = post(reviewer, samples[0], "approve", script=True).json()
    assert (told["today"], told["left"]) == (1, 2)
    assert told["last"] == {"sample": samples[0].pk, "words": f"approve of {samples[0].pk}"}


def test_undo_takes_back_ones_own_last_decision_and_shows_it_again(reviewer, samples):
    post(reviewer, samples[0], "approve")
    post(reviewer, samples[1], "reject", reason="leak")
    answer = reviewer.post("/synthesis/review/undo/")
    assert answer.url == f"/synthesis/review/{samples[1].pk}/"
    assert human(samples[1]) == "pending"
    page = reviewer.get(answer.url).context
    assert page["progress"]["today"] == 1 and page["previous"].sample_id == samples[0].pk
    assert page["reading"].item is not None


def test_undo_with_nothing_to_undo_says_so(reviewer, samples):
    page = reviewer.post("/synthesis/review/undo/", follow=True)
    assert b"no decision to undo" in page.content
    assert reviewer.post("/synthesis/review/undo/", **SCRIPT).status_code == 409


def test_skip_frees_the_item_and_it_comes_to_oneself_after_all_others(reviewer, samples):
    opened(reviewer, samples[0])
    answer = reviewer.post(f"/synthesis/review/{samples[0].pk}/skip/")
    assert ReviewItem.objects.get(sample=samples[0]).state == "open"
    assert reviewer.get(answer.url).url.endswith(f"/{samples[1].pk}/")
    for sample in samples[1:]:
        post(reviewer, sample, "approve")
    assert reviewer.get("/synthesis/review/").url.endswith(f"/{samples[0].pk}/")


def test_skipping_what_another_holds_leaves_it_to_them(reviewer, samples, signed_in):
    opened(signed_in("bea"), samples[0])
    assert reviewer.post(f"/synthesis/review/{samples[0].pk}/skip/", **SCRIPT).status_code == 200
    assert ReviewItem.objects.get(sample=samples[0]).claimed_by.username == "bea"


def test_chosen_part_of_the_queue_travels_along(reviewer, samples):
    other = make_sample()
    answer = reviewer.post(
        f"/synthesis/review/{samples[0].pk}/approve/?branch=rrb&round=1", opened(reviewer, samples[0])
    )
    assert answer.url == "/synthesis/review/?branch=rrb&round=1"
    assert reviewer.get(answer.url).url == f"/synthesis/review/{other.pk}/?branch=rrb&round=1"


@pytest.mark.parametrize(
    "filters", ["domain=hr", "style=explicit", "rule=SLIP_YEAR", "round=1", "branch=rule"]
)
def test_every_filter_narrows_and_is_kept_in_the_address(reviewer, samples, filters):
    make_sample(pk=1)
    assert reviewer.get(f"/synthesis/review/?{filters}").url.endswith(f"/?{filters}")
    name, value = filters.split("=")
    page = reviewer.get(f"/synthesis/review/{samples[0].pk}/?{filters}")
    assert str(page.context["active"][name]) == value


@pytest.mark.parametrize("filters", ["domain=none", "style=odd", "round=9", "batch=x", "tier=0"])
def test_unknown_filters_are_passed_over(reviewer, samples, filters):
    assert reviewer.get(f"/synthesis/review/?{filters}").url == f"/synthesis/review/{samples[0].pk}/"


# the item fetched ahead


def ahead(client, *besides, query=""):
    return client.post(f"/synthesis/review/next/{query}", {"besides": besides}, **FRAGMENT)


def test_the_item_fetched_ahead_is_another_and_claimed(reviewer, samples):
    first = ReviewItem.objects.get(sample=samples[0])
    opened(reviewer, samples[0])
    for _ in "ab":  # asked again, the same one comes
        page = ahead(reviewer, first.pk)
        assert page.context["sample"].pk == samples[1].pk and b"<html" not in page.content
    assert ReviewItem.objects.filter(state="claimed").count() == 2


def test_nothing_ahead_is_said_as_an_empty_queue(reviewer, samples):
    items = [ReviewItem.objects.get(sample=sample).pk for sample in samples]
    for sample in samples:
        opened(reviewer, sample)
    page = ahead(reviewer, *items).content.decode()
    assert "data-item=" not in page and "data-poll=" in page


def test_the_next_item_needs_few_queries_whatever_the_queue(reviewer, samples, django_assert_max_num_queries):
    for _ in range(30):
        make_sample()
    with django_assert_max_num_queries(10):
        ahead(reviewer, query="?branch=rule")


def test_a_decision_needs_few_queries_whatever_the_queue(reviewer, samples, django_assert_max_num_queries):
    for _ in range(30):
        make_sample()
    given = opened(reviewer, samples[0])
    with django_assert_max_num_queries(20):
        reviewer.post(f"/synthesis/review/{samples[0].pk}/approve/", given, **SCRIPT)


def test_the_whole_page_needs_few_queries_whatever_the_queue(
    reviewer, samples, django_assert_max_num_queries
):
    for _ in range(30):
        make_sample()
    with django_assert_max_num_queries(18):
        reviewer.get(f"/synthesis/review/{samples[0].pk}/")


# leases


def held(client, sample):
    given = opened(client, sample)
    item = ReviewItem.objects.get(sample=sample)
    return item, {"items": json.dumps({item.pk: given["claim"]})}


def test_a_heartbeat_keeps_the_claim(reviewer, samples):
    item, given = held(reviewer, samples[0])
    ReviewItem.objects.filter(pk=item.pk).update(claimed_until="2020-01-01T00:00Z")
    answer = reviewer.post("/synthesis/review/heartbeat/", given).json()
    assert answer == {"items": {str(item.pk): str(item.claim)}}
    item.refresh_from_db()
    assert item.claimed_until.year > 2020


def test_a_heartbeat_claims_again_what_was_free(reviewer, samples):
    item, given = held(reviewer, samples[0])
    review_queue.release(item.claimed_by)
    answer = reviewer.post("/synthesis/review/heartbeat/", given).json()
    item.refresh_from_db()
    assert item.state == "claimed" and answer == {"items": {str(item.pk): str(item.claim)}}


def test_a_heartbeat_says_what_is_lost(reviewer, samples, signed_in):
    item, given = held(reviewer, samples[0])
    review_queue.release(item.claimed_by)
    opened(signed_in("bea"), samples[0])
    answer = reviewer.post("/synthesis/review/heartbeat/", given).json()
    assert answer == {"items": {str(item.pk): None}}


@pytest.mark.parametrize("items", ["", "[1]", '{"a": "b"}', "{1}", '{"1": "x"}'])
def test_a_heartbeat_that_says_nothing_sensible_is_refused(reviewer, samples, items):
    answer = reviewer.post("/synthesis/review/heartbeat/", {"items": items}, **SCRIPT)
    assert answer.status_code == 400 and answer.json()["code"] == "bad_items"


def test_leaving_gives_back_only_ones_own(reviewer, samples, signed_in):
    item, given = held(reviewer, samples[0])
    assert signed_in("bea").post("/synthesis/review/release/", given).json() == {"released": 0}
    assert reviewer.post("/synthesis/review/release/", given).json() == {"released": 1}
    item.refresh_from_db()
    assert item.state == "open"


def test_signing_out_gives_back_what_one_holds(reviewer, samples):
    opened(reviewer, samples[0])
    reviewer.post("/logout/")
    assert not ReviewItem.objects.filter(state="claimed").exists()


# old links, and looking back


def test_a_link_to_what_another_reads_says_so(reviewer, samples, signed_in):
    opened(signed_in("bea"), samples[0])
    page = reviewer.get(f"/synthesis/review/{samples[0].pk}/")
    assert page.status_code == 200 and b"bea has it now" in page.content
    assert b"data-item=" not in page.content


def test_a_link_to_what_another_decided_says_so(reviewer, samples, signed_in):
    post(signed_in("bea"), samples[0], "approve")
    page = reviewer.get(f"/synthesis/review/{samples[0].pk}/").content.decode()
    assert "decided" in page and "data-item=" not in page and 'data-key="a"' not in page


def test_a_link_to_a_sample_that_never_waited_says_so(reviewer):
    sample = make_sample(machine="pending")
    page = reviewer.get(f"/synthesis/review/{sample.pk}/").content.decode()
    assert "data-item=" not in page and "On with the queue" in page


def test_own_decisions_are_looked_at_without_deciding_anew(reviewer, samples):
    for sample in samples[:2]:
        post(reviewer, sample, "approve")
    newest = reviewer.get(f"/synthesis/review/{samples[1].pk}/")
    assert newest.context["reading"].decision.sample_id == samples[1].pk
    assert newest.context["previous"].sample_id == samples[0].pk
    assert b"by you" in newest.content and b'data-key="a"' not in newest.content
    older = reviewer.get(f"/synthesis/review/{samples[0].pk}/")
    assert older.context["reading"].following == samples[1].pk
    assert b'data-key="u" disabled' in older.content


# second readings and adjudications


@pytest.fixture
def seconds():
    SecondShare.objects.create(share=1.0)


def read_by(client, sample, verb, **fields):
    assert post(client, sample, verb, **fields).status_code == 302


def test_a_second_reading_looks_like_a_first_one(reviewer, samples, signed_in, seconds):
    bea = signed_in("bea")
    first = bea.get(f"/synthesis/review/{samples[0].pk}/", **FRAGMENT).content.decode()
    read_by(bea, samples[0], "reject", reason="leak", note="says too much")
    second = reviewer.get(f"/synthesis/review/{samples[0].pk}/", **FRAGMENT)
    assert second.context["reading"].item.round == 2
    assert stripped(second.content.decode()) == stripped(first)


def stripped(page):
    """A fragment without what names one claim."""
    import re

    return re.sub(r'(data-item|data-claim|value|data-last)="[^"]*"', "", page)


def test_the_samples_page_keeps_a_first_decision_until_the_second_is_made(
    reviewer, samples, signed_in, seconds
):
    read_by(signed_in("bea"), samples[0], "reject", reason="leak", note="says too much")
    page = f"/synthesis/samples/{samples[0].pk}/"
    assert b"says too much" not in reviewer.get(page).content
    read_by(reviewer, samples[0], "reject", reason="leak")
    assert b"says too much" in reviewer.get(page).content


def test_the_first_reader_is_told_that_the_second_is_not_theirs(reviewer, samples, seconds):
    read_by(reviewer, samples[0], "approve")
    page = reviewer.get(f"/synthesis/review/{samples[0].pk}/")
    assert page.context["reading"].decision is not None and b"data-item=" not in page.content


def test_an_adjudicator_sees_both_wishes_and_no_names(reviewer, samples, signed_in, seconds):
    read_by(signed_in("bea"), samples[0], "reject", reason="leak", note="says too much")
    read_by(signed_in("carl"), samples[0], "edit", **edited(samples[0]))
    page = reviewer.get(f"/synthesis/review/{samples[0].pk}/")
    text = page.content.decode()
    assert "One reviewer" in text and "Another reviewer" in text
    assert "Gives the answer away" in text and "says too much" in text
    shown = text[text.index('<section id="item"') :]
    assert "bea" not in shown and "carl" not in shown
    verdicts = [side["decision"].verdict for side in page.context["reading"].sides]
    assert sorted(verdicts) == ["edit", "reject"]


def test_an_adjudication_ends_it(reviewer, samples, signed_in, seconds):
    read_by(signed_in("bea"), samples[0], "reject", reason="leak")
    read_by(signed_in("carl"), samples[0], "approve")
    read_by(reviewer, samples[0], "approve")
    sample = Sample.objects.get(pk=samples[0].pk)
    assert (sample.human, sample.approved_how) == ("approved", "adjudicated")


# an empty queue


@pytest.mark.parametrize(
    ("state", "words", "may"),
    [
        ({}, "Nothing was written yet", False),  # a reviewer starts no run
        ({"machine": "pending"}, "being written", True),
        ({"human": "approved"}, "Everything is decided", False),  # and builds no snapshot
        ({"machine": "dropped"}, "Nothing passed the machine", True),
    ],
)
def test_empty_queue_says_why_and_what_one_may_do(reviewer, client_as, state, words, may):
    if state:
        make_sample(**state)
    page = reviewer.get("/synthesis/review/").content.decode()
    assert words in page and ('class="button primary"' in page) == may
    assert 'class="button primary"' in client_as("admin").get("/synthesis/review/").content.decode()


def test_empty_queue_says_what_others_hold_and_when_it_frees(reviewer, samples, signed_in):
    bea = signed_in("bea")
    for sample in samples[:2]:
        opened(bea, sample)
    ReviewItem.objects.filter(sample=samples[2]).update(assigned_to=User("bea"))
    page = " ".join(reviewer.get("/synthesis/review/", **FRAGMENT).content.decode().split())
    page = page.replace("\xa0", " ")
    assert "<b>3 left</b>, 2 claimed by others (the oldest frees in 4 minutes), 1 assigned to others" in page


def test_empty_selection_offers_what_waits_elsewhere(reviewer, samples):
    page = reviewer.get("/synthesis/review/?branch=rrb").content.decode()
    assert "Nothing waits in this selection" in page and "3 wait elsewhere" in page
    assert "See the batch" not in page


def test_whoever_has_read_a_batch_to_its_end_is_led_back_to_it(reviewer, samples):
    page = reviewer.get("/synthesis/review/?batch=7").content.decode()
    assert "3 wait elsewhere" in page and 'href="/synthesis/batches/7/"' in page


# what is on the page


def test_every_key_is_printed_on_its_button(reviewer, samples):
    page = reviewer.get(f"/synthesis/review/{samples[0].pk}/").content.decode()
    for key in ("a", "e", "r", "s", "u", "arrowleft", "arrowright", "?"):
        assert f'data-key="{key}"' in page
    assert page.count("data-digit=") == 9


def test_the_judge_is_folded_away_until_it_is_opened(reviewer, samples, monkeypatch):
    monkeypatch.setattr("synthesis.quality.calibration.CONTROLS", 0)
    samples[0].attempts.create(number=1, outcome="ready", judge={"label": 5, "critique": "very natural"})
    page = reviewer.get(f"/synthesis/review/{samples[0].pk}/").content.decode()
    start = page.index('<details class="card machine">')
    assert page.count("very natural") == 1 and page.index("very natural") > start


def test_offline_samples_are_labelled(reviewer, samples):
    assert b">offline" in reviewer.get(f"/synthesis/review/{samples[0].pk}/").content.replace(b"</svg>", b">")


def test_sidebar_count_is_for_those_who_review(client_as, samples):
    assert client_as("reviewer").get("/synthesis/review/count/").content == b"3"


def test_sidebar_count_is_not_told_to_others(client_as, samples):
    assert client_as("product_manager").get("/synthesis/review/count/").status_code == 403


def test_the_seen_text_is_named_by_its_words(samples):
    named = seen_key(samples[0])
    samples[0].query += "!"
    assert seen_key(samples[0]) != named
