"""The strip on every page: what answers now, how right it is, what is being made and how long that takes."""

import pytest
from django.urls import reverse

from evaluation.results.strip import first_tools, strip
from tests.factories import count_rollups, crown, make_evaluation, make_model, make_run, make_tool
from trace_site import jobs
from trace_site.access import ROLES
from trace_site.jobs import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def training():
    """A run with a fifth of it done."""
    job = jobs.enqueue("training", {}, title="train", wake=False)
    told = {"done": 30, "total": 150, "rate": 1.0, "note": "stage 1: loss 2.0"}
    Job.objects.filter(pk=job.pk).update(state="running", **told)
    return make_run(job=job)


def page(client, path="/rules/"):
    return client.get(path).content.decode()


@pytest.mark.parametrize("role", ROLES)
def test_without_a_model_every_role_reads_on_every_page_that_plain_search_answers(client_as, role):
    client = client_as(role)
    for path in ("/", "/rules/", "/evaluation/", "/account/"):
        assert "<b>Plain search</b> answers, no model yet" in page(client, path)


def test_who_has_no_role_reads_no_strip(client_as):
    client = client_as()
    assert 'id="strip"' not in page(client, "/account/")
    assert client.get(reverse("evaluation:strip")).status_code == 403


def test_a_champion_with_nothing_under_way_needs_no_strip(client_as):
    crown(make_model())
    assert 'id="strip"' not in page(client_as("expert"))


def test_the_strip_is_one_query_however_much_is_under_way(training, django_assert_num_queries):
    for _ in range(5):
        jobs.enqueue("evaluation", {"model": 1}, wake=False)
    with django_assert_num_queries(1):
        found = strip()
    assert (found.waiting, found.first.run, found.first.title) == (
        5,
        training.pk,
        f"Training run {training.pk}",
    )


def test_a_page_asks_for_the_strip_once(client_as, training, django_assert_num_queries):
    client = client_as("expert")
    with django_assert_num_queries(4):  # session, user, roles, strip
        client.get(reverse("evaluation:strip"))


def test_a_run_that_trains_is_linked_with_its_progress_and_polls(client_as, training):
    shown = page(client_as("reviewer"))
    assert f'<a href="/training/{training.pk}/">Training run {training.pk}</a>' in shown
    assert "about 2 min 0 s left" in shown and 'hx-trigger="every 5s"' in shown


def test_what_waits_says_so(client_as, training):
    Job.objects.filter(pk=training.job_id).update(state="queued")
    assert "waits for a worker" in page(client_as("admin"))


def test_the_share_of_right_first_tools_is_the_one_that_domains_are_counted_with(client_as):
    read, write = make_tool("Pay/Get"), make_tool("Pay/Set")
    make_evaluation(
        (read, ["Pay/Get"]), (read, ["Pay/Set"]), (write, ["Pay/Set"]), decode="embedding", model=None
    )
    count_rollups()
    assert first_tools(None) == (2, 3)
    assert (
        "first tool right in" in (shown := page(client_as("expert"))) and "2 of 3</a> test requests" in shown
    )
    assert "test requests, measured without rules" in " ".join(shown.split())


def test_a_champion_that_domains_are_not_counted_for_yet_is_not_measured(client_as, training):
    make_evaluation((make_tool("Pay/Get"), ["Pay/Get"]), decode="embedding", model=None)
    count_rollups()
    crown(make_model())
    assert "</a> answers" in (shown := page(client_as("expert"))) and "not measured yet" in shown


def test_once_all_is_done_the_strip_says_what_answers_and_polls_no_more(client_as):
    model = make_model()
    crown(model)
    shown = page(client_as("expert"), reverse("evaluation:strip"))
    assert f"<b>Model {model.pk}</b></a> answers" in shown and "hx-get" not in shown
