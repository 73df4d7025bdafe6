"""The review queue: decisions, undo, conflicts that overwrite nothing, and why it is empty."""

import pytest

from synthesis import review
from synthesis.models import Decision, Sample
from synthesis.views_review import seen_key
from tests.factories import make_rule, make_sample, make_tool

pytestmark = pytest.mark.django_db


@pytest.fixture
def samples():
    tools = [make_tool("New/GetSlip"), make_tool("Old/GetSlip")]
    rule = make_rule(*tools, code="SLIP_YEAR")
    return [make_sample(rule=rule, tools=tools) for _ in range(3)]


@pytest.fixture
def reviewer(client_as):
    return client_as("reviewer")


def post(client, sample, verb, **fields):
    return client.post(f"/synthesis/review/{sample.pk}/{verb}/", {"seen": seen_key(sample), **fields})


@pytest.mark.parametrize(("role", "status"), [("expert", 403), ("product_manager", 403), ("admin", 302)])
def test_queue_is_for_reviewers_and_admins(client_as, samples, role, status):
    assert client_as(role).get("/synthesis/review/").status_code == status


def test_approval_is_recorded_and_answers_with_the_next_sample(reviewer, samples):
    answer = post(reviewer, samples[0], "approve")
    assert answer.url == f"/synthesis/review/{samples[1].pk}/"
    assert Sample.objects.get(pk=samples[0].pk).human == "approved"
    assert Decision.objects.get().reviewer.username == "reviewer"


def test_rejection_needs_a_reason_and_keeps_the_note(reviewer, samples):
    assert post(reviewer, samples[0], "reject", reason="").status_code == 422
    assert Sample.objects.get(pk=samples[0].pk).human == "pending"
    post(reviewer, samples[0], "reject", reason="unnatural", note="too stiff")
    decision = Decision.objects.get()
    assert (decision.verdict, decision.reason, decision.note) == ("reject", "unnatural", "too stiff")


def test_edit_is_refused_with_what_the_filter_found_and_keeps_the_typed_text(reviewer, samples):
    given = {
        "query": "call New/GetSlip for the pay document of March",
        "trace": samples[0].trace,
        "answer": "New/GetSlip",
    }
    page = post(reviewer, samples[0], "edit", **given)
    assert page.status_code == 422
    assert {failure["check"] for failure in page.context["failures"]} == {"leakage"}
    assert "call New/GetSlip for the pay document" in page.content.decode()
    assert Sample.objects.get(pk=samples[0].pk).human == "pending"


def test_a_good_edit_changes_the_text_and_approves(reviewer, samples):
    given = {
        "query": "what did I earn in March this year",
        "trace": samples[0].trace,
        "answer": "New/GetSlip",
    }
    assert post(reviewer, samples[0], "edit", **given).status_code == 302
    sample = Sample.objects.get(pk=samples[0].pk)
    assert (sample.human, sample.query) == ("approved", given["query"])


def test_typing_is_checked_without_deciding(reviewer, samples):
    given = {"query": "New/GetSlip please for me", "trace": samples[0].trace, "answer": "New/GetSlip"}
    page = post(reviewer, samples[0], "check", **given)
    assert b"leakage" in page.content and not Decision.objects.exists()


def test_a_colleagues_decision_is_shown_and_not_overwritten(reviewer, samples, user_with):
    review.reject(sample=samples[0].pk, reviewer=user_with("admin"), reason="other")
    page = post(reviewer, samples[0], "approve")
    assert page.status_code == 409 and b"Nothing was changed" in page.content
    assert Sample.objects.get(pk=samples[0].pk).human == "rejected"


def test_a_text_that_changed_since_it_was_read_is_not_approved(reviewer, samples):
    read = seen_key(samples[0])
    Sample.objects.filter(pk=samples[0].pk).update(query="another text altogether")
    page = reviewer.post(f"/synthesis/review/{samples[0].pk}/approve/", {"seen": read})
    assert page.status_code == 409 and Sample.objects.get(pk=samples[0].pk).human == "pending"


def test_undo_takes_back_ones_own_last_decision_and_shows_it_again(reviewer, samples):
    post(reviewer, samples[0], "approve")
    post(reviewer, samples[1], "reject", reason="leak")
    answer = reviewer.post("/synthesis/review/undo/")
    assert answer.url == f"/synthesis/review/{samples[1].pk}/"
    assert Sample.objects.get(pk=samples[1].pk).human == "pending"
    page = reviewer.get(answer.url).context
    assert page["progress"].today == 1 and page["last"].sample_id == samples[0].pk


def test_undo_with_nothing_to_undo_says_so(reviewer, samples):
    page = reviewer.post("/synthesis/review/undo/", follow=True)
    assert b"nothing_to_undo" in page.content or b"no decision to undo" in page.content


def test_skip_goes_on_and_the_skipped_comes_again_at_the_end(reviewer, samples):
    skipped = reviewer.get("/synthesis/review/", {"after": samples[0].pk})
    assert skipped.url.endswith(f"/{samples[1].pk}/")
    last = reviewer.get("/synthesis/review/", {"after": samples[2].pk})
    assert last.url.endswith(f"/{samples[0].pk}/")


def test_chosen_part_of_the_queue_travels_along(reviewer, samples):
    other = make_sample()
    answer = reviewer.post(
        f"/synthesis/review/{samples[0].pk}/approve/?branch=rrb", {"seen": seen_key(samples[0])}
    )
    assert answer.url == f"/synthesis/review/{other.pk}/?branch=rrb"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({}, "Nothing was written yet"),
        ({"machine": "pending"}, "being written"),
        ({"human": "approved"}, "Everything is decided"),
        ({"machine": "dropped"}, "Nothing passed the machine"),
    ],
)
def test_empty_queue_says_why_and_what_to_do(reviewer, state, words):
    if state:
        make_sample(**state)
    page = reviewer.get("/synthesis/review/").content.decode()
    assert words in page and 'class="button primary"' in page


def test_every_key_is_printed_on_its_button(reviewer, samples):
    page = reviewer.get(f"/synthesis/review/{samples[0].pk}/").content.decode()
    for key in ("a", "e", "r", "s", "u", "arrowleft", "arrowright", "?"):
        assert f'data-key="{key}"' in page
    assert page.count("data-digit=") == 9


def test_sidebar_count_is_for_those_who_review(client_as, samples):
    assert client_as("reviewer").get("/synthesis/review/count/").content == b"3"


def test_sidebar_count_is_empty_for_others(client_as, samples):
    assert client_as("product_manager").get("/synthesis/review/count/").content == b""


def test_review_page_needs_the_same_queries_for_one_sample_and_for_fifty(
    reviewer, samples, django_assert_max_num_queries
):
    for _ in range(50):
        make_sample()
    with django_assert_max_num_queries(20):
        reviewer.get(f"/synthesis/review/{samples[0].pk}/")
