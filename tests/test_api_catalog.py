"""/api/v1 tools, domains, clusters and imports: what they answer, whom they refuse, and what happens twice."""

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.core.tool import search_words
from catalog.models import CatalogImport, NeighbourList, Tool
from tests.factories import make_cluster, make_domain, make_rule, make_tool
from tests.tokens import token_of

pytestmark = pytest.mark.django_db


def tool(name: str, **fields: Any) -> Tool:
    return make_tool(name, words=search_words(name), **fields)


def lines(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def row(name: str, description: str = "Reads a payslip.", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": description, **fields}


@pytest.fixture
def api(client, user_with):
    """api("expert") -> a client with that user's token."""

    def login(*roles: str) -> Any:
        client.defaults["HTTP_AUTHORIZATION"] = f"Token {token_of(user_with(*roles))}"
        return client

    return login


def send(
    client: Any, path: str = "/api/v1/imports", headers: dict[str, str] | None = None, **body: Any
) -> Any:
    return client.post(path, body, content_type="application/json", headers=headers or {})


def names(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [result["name"] for result in response.json()["results"]]


# tools


def test_tools_are_found_filtered_and_paged(api):
    old, alike, other = tool("A/Old", deprecated=True), tool("A/Alike"), tool("B/Other")
    tool("B/Gone", status="retired")
    make_cluster(old, alike)
    make_rule(other, old)
    client = api("reviewer")
    expected = {
        "": ["A/Alike", "A/Old", "B/Other"],
        "?api=B": ["B/Other"],
        "?state=deprecated": ["A/Old"],
        "?state=retired": ["B/Gone"],
        "?clustered=no": ["B/Other"],
        "?ruled=yes": ["A/Old", "B/Other"],
        "?q=alike": ["A/Alike"],
    }
    assert {query: names(client.get(f"/api/v1/tools{query}")) for query in expected} == expected
    first = client.get("/api/v1/tools?limit=2").json()
    assert (first["total"], first["next"]) == (3, "A/Old")
    assert names(client.get("/api/v1/tools?limit=2&after=A/Old")) == ["B/Other"]


def test_search_says_what_it_took_a_word_for(api):
    client = api("expert")
    send(client, domain="hr", content=lines(row("Nova/GetPayslip")))
    answer = client.get("/api/v1/tools?q=paysilp").json()
    assert (answer["results"][0]["name"], answer["meant"]) == ("Nova/GetPayslip", {"paysilp": ["payslip"]})


def test_pages_of_a_search_follow_each_other(api):
    for number in range(7):
        tool(f"A/Payslip{number}")
    client, seen, after = api("expert"), [], ""
    while after is not None:
        answer = client.get("/api/v1/tools", {"q": "payslip", "limit": 3, "after": after}).json()
        seen += [result["name"] for result in answer["results"]]
        after = answer["next"]
    assert seen == [f"A/Payslip{number}" for number in range(7)]


@pytest.mark.parametrize("query", ["state=gone", "clustered=maybe", "limit=0", "limit=201", "colour=red"])
def test_unknown_filters_are_named(api, query):
    response = api("expert").get(f"/api/v1/tools?{query}")
    assert (response.status_code, response.json()["code"]) == (400, "bad_input")
    assert query.partition("=")[0] in response.json()["message"]


def test_a_tool_is_read_by_number_and_by_name(api):
    one = tool("Pay<b>/Get/Deep&Put", permissions=["read"])
    client = api("expert")
    by_number = client.get(f"/api/v1/tools/{one.pk}").json()
    by_name = client.get("/api/v1/tools/named/Pay%3Cb%3E/Get/Deep%26Put").json()
    assert by_number == by_name
    assert by_number["tokens"]["a"] == "<<Pay<b>&&Get/Deep&Put>>" and by_number["permissions"] == ["read"]
    assert client.get("/api/v1/tools/999999").json()["code"] == "not_found"
    assert client.get("/api/v1/tools/named/No/Such").status_code == 404


def test_neighbours_twins_and_revisions_of_a_tool(api):
    client = api("expert")
    send(client, domain="hr", content=lines(row("PayV1/x"), row("PayV2/x"), row("Other/x")))
    send(client, domain="hr", content=lines(row("PayV1/x", "Reads it as PDF.")))
    one, two, other = (Tool.objects.get(name=name) for name in ("PayV1/x", "PayV2/x", "Other/x"))
    NeighbourList.objects.create(tool=one, neighbour_ids=[other.pk, two.pk], scores=[0.9, 0.8])
    near = client.get(f"/api/v1/tools/{one.pk}/neighbours").json()["results"]
    assert [(hit["tool"]["name"], hit["score"]) for hit in near] == [("Other/x", 0.9), ("PayV2/x", 0.8)]
    twins = client.get(f"/api/v1/tools/{one.pk}/twins").json()["results"]
    assert [(twin["tool"]["name"], twin["newer"]) for twin in twins] == [("PayV2/x", True)]
    history = client.get(f"/api/v1/tools/{one.pk}/revisions").json()["results"]
    assert [revision["data"]["description"] for revision in history] == [
        "Reads it as PDF.",
        "Reads a payslip.",
    ]
    assert history[0]["imported_by"] == CatalogImport.objects.latest("pk").pk


def test_domains_count_their_tools_and_clusters_name_theirs(api):
    one, two = tool("A/One"), tool("A/Two", deprecated=True)
    tool("A/Gone", status="retired")
    make_domain("empty")
    cluster = make_cluster(one, two, label="one or two")
    client = api("product_manager")
    rows = {domain["slug"]: domain for domain in client.get("/api/v1/domains").json()["results"]}
    assert [rows["hr"][key] for key in ("active", "deprecated", "retired")] == [2, 1, 1]
    assert rows["empty"]["active"] == 0 and rows["empty"]["retired"] == 0
    [listed] = client.get("/api/v1/clusters?domain=hr").json()["results"]
    assert (listed["label"], listed["tools"], listed["domain"]) == ("one or two", [one.pk, two.pk], "hr")
    assert client.get(f"/api/v1/clusters/{cluster.pk}").json() == listed
    assert listed["edges"] == [[one.pk, two.pk, 0.9]]
    assert listed["reasons"] == [["each is near the other, by a cosine of at least 0.80"]]
    make_cluster(one, two)  # a newer clustering
    assert client.get(f"/api/v1/clusters/{cluster.pk}").status_code == 404


def test_lists_need_the_same_queries_for_ten_rows_and_for_sixty(api):
    client = api("expert")
    paths = [
        "/api/v1/tools?limit=100",
        "/api/v1/tools?q=reads&limit=100",
        "/api/v1/clusters",
        "/api/v1/imports",
    ]

    def grow(start: int, end: int) -> list[int]:
        for number in range(start, end):
            made = [tool(f"A/x{number}a"), tool(f"A/x{number}b")]
            clustering = getattr(grow, "clustering", None)
            grow.clustering = make_cluster(*made, clustering=clustering).clustering
            CatalogImport.objects.create(
                filename="f", format="jsonl", domain=made[0].domain, digest="", counts={}, actor=None
            )
        counts = []
        for path in paths:
            with CaptureQueriesContext(connection) as queries:
                assert client.get(path).status_code == 200
            counts.append(len(queries))
        return counts

    few = grow(0, 10)
    assert grow(10, 60) == few and max(few) <= 8


# imports


def test_dry_run_answers_what_would_happen_and_writes_nothing(api):
    client = api("expert")
    send(client, domain="hr", content=lines(row("A/One"), row("A/Two"), row("A/Three")))
    make_rule(Tool.objects.get(name="A/One"), code="ONE")
    content = lines(row("A/One", "Reads it as PDF."), row("A/Three", deprecated=True), row("A/New"))
    response = send(client, domain="HR", content=content, dry_run=True, filename="tools.jsonl")
    answer = response.json()
    assert (response.status_code, CatalogImport.objects.count()) == (200, 1)
    assert {key: count for key, count in answer["counts"].items() if count} == {
        "added": 1,
        "changed": 2,
        "removed": 1,
        "deprecated": 1,
    }
    assert answer["changed"][0]["changes"] == [
        {"field": "description", "before": "Reads a payslip.", "after": "Reads it as PDF."}
    ]
    assert [made["name"] for made in answer["added"]] == ["A/New"]
    assert [gone["name"] for gone in answer["removed"]] == ["A/Two"]
    assert {line["name"]: line["count"] for line in answer["impact"]}["rules"] == 1


def test_import_applies_and_says_where_it_is(api):
    client = api("admin")
    response = send(client, domain="hr", content=lines(row("A/One")), filename="tools.jsonl")
    assert response.status_code == 201
    answer = client.get(response["Location"]).json()
    assert answer == response.json()
    assert (answer["filename"], answer["actor"], answer["counts"]["added"]) == ("tools.jsonl", "admin", 1)
    assert [made["name"] for made in answer["done"]["added"]] == ["A/One"]


def test_file_of_a_form_is_imported(api):
    file = SimpleUploadedFile("tools.jsonl", lines(row("A/One")).encode())
    response = api("expert").post("/api/v1/imports", {"file": file, "domain": "hr"})
    assert response.status_code == 201 and response.json()["filename"] == "tools.jsonl"


def test_json_document_may_stand_as_it_is(api):
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Pay", "version": "1"},
        "paths": {
            "/slips": {"get": {"operationId": "listSlips", "summary": "Lists payslips.", "responses": {}}}
        },
        "webhooks": {"paid": {"post": {"summary": "Tells of a payment."}}},
    }
    response = send(api("expert"), domain="hr", content=document)
    assert response.status_code == 201, response.content
    assert "webhooks" in response.json()["notes"][0]  # what is no tool by design is told
    assert response.json()["format"] == "openapi" and Tool.objects.get().endpoint == "listSlips"


def test_bad_row_refuses_the_file_or_is_skipped_when_asked(api):
    client = api("expert")
    content = lines(row("A/One"), row("A/Two", ""))
    refused = send(client, domain="hr", content=content, filename="t.jsonl")
    assert (refused.status_code, refused.json()["code"], Tool.objects.count()) == (400, "bad_rows", 0)
    assert refused.json()["extra"]["errors"][0].startswith("t.jsonl:2: 'description' is empty")
    done = send(client, domain="hr", content=content, filename="t.jsonl", skip_bad_rows=True)
    assert (done.status_code, done.json()["counts"]["skipped"], Tool.objects.count()) == (201, 1, 1)


@pytest.mark.parametrize(
    "body",
    [
        {"domain": "hr"},
        {"content": "x"},
        {"domain": "hr", "content": ""},
        {"domain": "hr", "content": "\x01\x02"},
        {"domain": "!!", "content": '{"name": "A/x", "description": "d"}'},
        {"domain": "hr", "content": "x", "format": "word"},
        {"domain": "hr", "content": "<?xml version='1.0'?><html/>"},
        {"domain": "hr", "content": '{"openapi": "3.0.0", "paths": 7}'},
        {"domain": "hr", "content": "{", "colour": "red"},
    ],
)
def test_bad_files_are_refused_with_a_sentence_and_leave_nothing(api, body, settings, tmp_path):
    settings.TRACE_HOME = tmp_path
    response = send(api("expert"), **body)
    assert response.status_code == 400, response.content
    assert response.json()["message"] and response.json()["code"]
    assert not Tool.objects.exists() and not CatalogImport.objects.exists()
    assert not list(tmp_path.glob("uploads/*"))


def test_plan_of_the_dry_run_is_what_is_applied_or_nothing(api):
    client, content = api("expert"), lines(row("A/One"))
    plan = send(client, domain="hr", content=content, dry_run=True).json()["plan"]
    send(client, domain="hr", content=lines(row("A/One", "Written meanwhile.")))
    response = send(client, domain="hr", content=content, plan=plan)
    assert (response.status_code, response.json()["code"]) == (409, "stale_preview")
    assert Tool.objects.get().description == "Written meanwhile."


def test_import_sent_twice_with_one_key_is_applied_once(api):
    client, key = api("expert"), {"Idempotency-Key": "k1"}
    first = send(client, headers=key, domain="hr", content=lines(row("A/One")))
    again = send(client, headers=key, domain="hr", content=lines(row("A/One")))
    assert (again.status_code, again.json()) == (201, first.json())
    assert again["Idempotent-Replayed"] == "true" and CatalogImport.objects.count() == 1
    other = send(client, headers=key, domain="hr", content=lines(row("A/Two")))
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")


def test_refused_import_with_a_key_may_be_corrected_and_sent_again(api):
    client, key = api("expert"), {"Idempotency-Key": "k1"}
    assert send(client, headers=key, domain="hr", content=lines(row("A/One", ""))).status_code == 400
    assert send(client, headers=key, domain="hr", content=lines(row("A/One"))).status_code == 201


def test_undo_over_the_api_and_its_refusals(api):
    client = api("expert")
    first = send(client, domain="hr", content=lines(row("A/One"))).json()["id"]
    rule = make_rule(Tool.objects.get(), code="KEEP_ONE")
    plan = client.get(f"/api/v1/imports/{first}/undo").json()
    assert plan["reasons"] == ["Tools it added are named by KEEP_ONE."] and plan["retire"] == [
        Tool.objects.get().pk
    ]
    refused = send(client, f"/api/v1/imports/{first}/undo")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    second = send(client, domain="hr", content=lines(row("A/One", "Reads it as PDF."))).json()["id"]
    done = send(client, f"/api/v1/imports/{second}/undo")
    assert (done.status_code, done.json()["undone_by"]) == (200, "expert")
    assert Tool.objects.get(pk=rule.published.target_id).description == "Reads a payslip."
    twice = send(client, f"/api/v1/imports/{second}/undo")
    assert (twice.status_code, twice.json()["code"]) == (409, "bad_state")
    assert send(client, "/api/v1/imports/999/undo").status_code == 404


@pytest.mark.parametrize("role", ["reviewer", "product_manager"])
def test_readers_read_and_do_not_write(api, role):
    client = api(role)
    assert client.get("/api/v1/imports").status_code == 200
    for path in ("/api/v1/imports", "/api/v1/imports/1/undo"):
        refused = send(client, path, domain="hr", content=lines(row("A/One")))
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
    assert not Tool.objects.exists()


@pytest.mark.parametrize("path", ["tools", "tools/1", "domains", "clusters", "imports", "imports/1/undo"])
def test_nothing_is_read_without_a_token(client, path):
    assert client.get(f"/api/v1/{path}").status_code == 401


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_methods_that_do_not_exist_are_refused(api, method):
    response = getattr(api("admin"), method)("/api/v1/imports", "{}", content_type="application/json")
    assert response.status_code == 405
