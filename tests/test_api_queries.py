"""The API of real queries and of prompts."""

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from catalog.models import LabelledQuery
from synthesis.models import PromptVersion
from tests.synthesis.rows import make_benchmark_query, make_book
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.rest.idempotency import IdempotencyKey

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(user_with):
    client = APIClient()
    client.force_authenticate(user_with("admin"))
    return client


def test_a_dry_run_tells_what_would_be_stored_and_never_what_was_found(api):
    make_benchmark_query("where is my badge for tower two")
    body = {
        "collection": "desk",
        "queries": ["mail my slip to dana.r@example.com", "where is my badge for tower two", "no"],
        "dry_run": True,
    }
    answer = api.post("/api/v1/queries", body, format="json", headers={"Idempotency-Key": "k-1"})
    assert answer.status_code == 200 and not LabelledQuery.objects.filter(use="few_shot").exists()
    rows = answer.json()["rows"]
    assert rows[0] == {
        "row": 1,
        "text": "mail my slip to [e-mail]",
        "replaced": ["e-mail"],
        "code": "",
        "reason": "",
    }
    assert [row["code"] for row in rows[1:]] == ["benchmark", "too_short"]
    assert "dana.r" not in str(answer.json()) + str(list(IdempotencyKey.objects.values()))


def test_queries_are_imported_listed_read_and_removed(api):
    body = {
        "collection": "desk",
        "queries": ["mail my slip to dana.r@example.com", "book the Maria Gonzales hall"],
    }
    answer = api.post("/api/v1/queries", {**body, "no_person": [2]}, format="json")
    assert (answer.status_code, answer.json()["added"], answer.json()["replaced"]) == (201, 2, {"e-mail": 1})
    listed = api.get("/api/v1/queries?q=slip").json()["results"]
    assert [row["text"] for row in listed] == ["mail my slip to [e-mail]"]
    assert api.get(f"/api/v1/queries/{listed[0]['id']}").json()["replaced"] == ["e-mail"]
    assert api.delete(f"/api/v1/queries/{listed[0]['id']}").status_code == 204
    assert [row["text"] for row in api.get("/api/v1/queries").json()["results"]] == [
        "book the Maria Gonzales hall"
    ]
    kept = str([*AuditEntry.objects.values(), *AuditChange.objects.values()])
    assert "dana.r" not in kept and "[e-mail]" in kept


def test_benchmark_queries_are_not_among_the_real_ones(api):
    row = make_benchmark_query("where is my badge for tower two")
    assert api.get("/api/v1/queries").json()["results"] == []
    assert api.delete(f"/api/v1/queries/{row.pk}").status_code == 404


def test_prompts_are_listed_with_their_texts_and_filled_in(api):
    make_book()
    PromptVersion.objects.create(hash="0ld", name="judge", source="Judge it kindly.")
    listed = {row["name"]: row for row in api.get("/api/v1/synthesis/prompts").json()["results"]}
    assert (
        set(listed) == {"query_rule", "query_rrb", "trace", "judge", "suggest_rule"}
        and listed["judge"]["versions"] == 1
    )
    texts = api.get("/api/v1/synthesis/prompts/judge").json()["texts"]
    assert [one["text"] for one in texts][1:] == ["Judge it kindly."] and texts[0]["hash"] == listed["judge"][
        "hash"
    ]
    query = {"rule": "hr/PAYSLIP_PERIOD", "kind": "explicit", "number": 6, "critique": "too stiff"}
    found = api.get("/api/v1/synthesis/prompts/query_rule/preview", query).json()
    assert "numbered 6 in" in found["text"] and "too stiff" in found["text"]
    assert found["characters"] == len(found["text"]) and found["schema"]["type"] == "object"
    page = api.get("/api/v1/synthesis/prompts/query_rule/preview", {"kind": "explicit"})
    assert page.status_code == 400 and page.json()["message"] == "rule: choose a rule or a tool."
    assert reverse("api-prompts") == "/api/v1/synthesis/prompts"
