"""The REST API of synthesis: runs, estimates, books, samples with their attempts, yield per rule."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from synthesis.models import SynthesisRun
from tests.synthesis.rows import make_book
from tests.synthesis.runs_made import make_call, make_dropped, make_ready, make_slip_rule, make_started_run
from tests.tokens import token_of
from trace_site.jobs import Job

pytestmark = pytest.mark.django_db
API = "/api/v1/synthesis"


@pytest.fixture
def api(user_with):
    """api("expert") -> a client with that user's token."""

    def login(*roles: str) -> APIClient:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {token_of(user_with(*roles))}")
        return client

    return login


@pytest.fixture
def run() -> SynthesisRun:
    run = make_started_run()
    rule = make_slip_rule()
    make_ready(run, rule)
    make_dropped(run, rule)
    return run


def test_a_run_is_started_once_and_told_where_it_is(api) -> None:
    make_book()
    client, body = api("expert"), {"branch": "rule", "rule": "PAYSLIP_PERIOD", "recipe": {"retries": 2}}
    sent: dict[str, Any] = {"format": "json", "HTTP_IDEMPOTENCY_KEY": "one"}
    first = client.post(f"{API}/runs", body, **sent)
    again = client.post(f"{API}/runs", body, **sent)
    assert (first.status_code, again.json()) == (201, first.json())
    run = SynthesisRun.objects.get()
    assert first["Location"] == f"{API}/runs/{run.pk}"
    assert (run.params["rule"], run.params["recipe"]["retries"], run.created_by.username) == (
        "PAYSLIP_PERIOD",
        2,
        "expert",
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "/branch"),
        ({"branch": "rule", "rule": "NO_SUCH"}, "NO_SUCH"),
        ({"branch": "rule", "per_rule": 0}, "/per_rule"),
        ({"branch": "rule", "per_rule": 1_000_000}, "/per_rule"),
        ({"branch": "rule", "anchors": 100_001}, "/anchors"),
        ({"branch": "rule", "budget": {"calls": -1}}, "/budget/calls"),
        ({"branch": "rule", "budget": {"money": "nan"}}, "/budget/money"),
        ({"branch": "rule", "recipe": {"query": [[]] * 200}}, "more than 200 values"),
        ({"branch": "rule", "recipe": {"retries": 10**400}}, "very many digits"),
        ({"branch": "rule", "recipe": {"retries": 99}}, "retries"),
        ({"branch": "rule", "recipe": {"colour": 1}}, "colour"),
        ({"branch": "rule", "recipe": "fast"}, "/recipe"),
        ({"branch": "rule", "colour": "red"}, "/colour"),
    ],
)
def test_a_refused_start_names_the_field_and_starts_nothing(api, body, told) -> None:
    answer = api("admin").post(f"{API}/runs", body, format="json")
    assert (answer.status_code, SynthesisRun.objects.count()) == (400, 0)
    assert told in answer.json()["message"]


def test_an_estimate_counts_what_is_missing_and_starts_nothing(api) -> None:
    make_book()
    answer = api("expert").post(f"{API}/estimate", {"branch": "rule"}, format="json").json()
    assert (answer["plan"]["new"], answer["samples"]["value"], answer["calls"]["value"]) == (12, 12, 0)
    assert answer["seconds"]["basis"] and not Job.objects.exists()
    assert {row["style"] for row in answer["plan"]["rows"]} == {"explicit", "implicit", "exception"}


def test_a_run_shows_its_funnel_as_a_whole_and_in_parts(api, run) -> None:
    make_ready(run)
    found = api("reviewer").get(f"{API}/runs/{run.pk}", {"by": "rule"}).json()
    total = found["funnel"]["total"]
    assert (total["planned"], total["ready"], total["dropped"], total["retries"]) == (3, 2, 1, 4)
    assert found["funnel"]["checks"] == [
        {"name": "near_duplicate", "count": 2},
        {"name": "leakage", "count": 1},
    ]
    assert found["funnel"]["axes"] == [{"name": "label", "count": 1}]
    assert found["funnel"]["errors"] == [{"name": "llm_truncated", "count": 1}]
    assert [(row["rule"], row["planned"]) for row in found["funnel"]["groups"]] == [("", 1), ("SLIP_YEAR", 2)]
    part = api("expert").get(f"{API}/runs/{run.pk}", {"rule": "SLIP_YEAR"}).json()["funnel"]["total"]
    assert (part["planned"], part["attempts"]) == (2, 5)


def test_cancel_and_resume_say_when_it_is_too_late(api, run) -> None:
    client = api("expert")
    late = client.post(f"{API}/runs/{run.pk}/cancel", format="json")
    assert (late.status_code, late.json()["code"]) == (409, "job_state")
    assert client.post(f"{API}/runs/{run.pk}/resume", {}, format="json").status_code == 409
    Job.objects.update(state="queued")
    assert (
        client.post(f"{API}/runs/{run.pk}/cancel", format="json").json()["run"]["job"]["state"] == "cancelled"
    )
    budget = {"budget": {"calls": 50}}
    assert client.post(f"{API}/runs/{run.pk}/resume", budget, format="json").json()["started_with"][
        "budget"
    ] == {"calls": 50}
    assert Job.objects.get().state == "queued"


def test_a_budget_below_what_is_spent_is_refused(api) -> None:
    run = make_started_run("failed")
    make_call(run)
    make_call(run)
    answer = api("admin").post(f"{API}/runs/{run.pk}/resume", {"budget": {"calls": 1}}, format="json")
    assert answer.status_code == 400 and Job.objects.get().state == "failed"


def test_books_and_calls_are_those_of_the_ledger(api, run) -> None:
    make_call(run)
    make_call(run, state="failed", error_code="llm_timeout", purpose="judge")
    client = api("reviewer")
    books = client.get(f"{API}/runs/{run.pk}/books").json()
    assert (books["total"]["calls"], books["total"]["failed"], books["total"]["cost"]) == (2, 1, 0.5)
    assert books["errors"] == [{"name": "llm_timeout", "count": 1}]
    assert client.get(f"{API}/runs/{run.pk}").json()["spent"] == {"calls": 2, "tokens": 240, "money": 0.5}
    calls = client.get(f"{API}/runs/{run.pk}/calls", {"error": "llm_timeout"}).json()["results"]
    assert [call["purpose"] for call in calls] == ["judge"]


def test_samples_are_filtered_by_what_became_of_them(api, run) -> None:
    client = api("reviewer")

    def found(**query: str) -> list[str]:
        return [row["machine"] for row in client.get(f"{API}/samples", query).json()["results"]]

    assert found(check="leakage") == found(axis="label") == found(error="llm_truncated") == ["dropped"]
    assert found(check="near_duplicate") == ["ready"]
    assert found(outcome="filtered", run=str(run.pk)) == ["dropped", "ready"]
    assert found(stale="current") == []
    assert client.get(f"{API}/samples", {"check": "colour"}).status_code == 400
    rows = client.get(f"{API}/samples", {"machine": "dropped"}).json()["results"]
    assert rows[0]["why"] == "llm_truncated"


def test_a_sample_shows_every_attempt_and_why_it_is_stale(api, run) -> None:
    dropped = run.samples.get(machine="dropped")
    found = api("reviewer").get(f"{API}/samples/{dropped.pk}").json()
    assert [attempt["outcome"] for attempt in found["attempts"]] == ["filtered", "judged_out", "error"]
    assert found["attempts"][0]["filter_failures"][0]["span"] == [5, 16]
    assert found["thresholds"]["label"] == 4
    assert found["stale"]["level"] in ("content", "outdated") and found["stale"]["reasons"]


@pytest.mark.parametrize(("path", "queries"), [("samples", 5), ("runs", 5), ("yield", 8)])
def test_lists_need_the_same_queries_for_ten_rows_and_for_sixty(
    api, path, queries, django_assert_num_queries
) -> None:
    client = api("reviewer")
    counts = []
    for size in (10, 50):
        for number in range(size):
            run = make_started_run()
            make_dropped(run, make_slip_rule(f"RULE_{size}_{number}"))
        with django_assert_num_queries(queries):
            counts.append(len(client.get(f"{API}/{path}", {"limit": 200}).json()["results"]))
    assert counts == [10, 60]


def test_yield_lists_the_rules_that_miss_most_first(api, run) -> None:
    make_slip_rule("NOTHING_YET")
    rows = api("expert").get(f"{API}/yield", {"target": 2}).json()["results"]
    assert [(row["code"], row["ready"], row["missing"]) for row in rows] == [
        ("NOTHING_YET", 0, 2),
        ("SLIP_YEAR", 1, 1),
    ]
    assert (rows[1]["attempts"], rows[1]["attempts_per_ready"], rows[1]["near_duplicates"]) == (5, 5.0, 1)
    page = api("admin").get(f"{API}/yield", {"limit": 1}).json()
    assert (len(page["results"]), page["next"]) == (1, "1")


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
def test_who_may_not_write_is_told_which_role_may(api, run, role) -> None:
    answer = api(role).post(f"{API}/runs", {"branch": "rule"}, format="json")
    assert answer.status_code == 403 and "domain expert or admin" in answer.json()["message"]
