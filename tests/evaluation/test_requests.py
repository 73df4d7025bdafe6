"""The log of requests: what is kept of whom and for how long, what no answer ever waits for, reports, and its pages."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.utils import timezone

from evaluation.models import RequestDay, RequestLogPolicy, RetrievalRequest
from evaluation.requests import log, services
from evaluation.requests.log import requests
from tests.evaluation.endpoint_home import API, ask, ask_batch, champion, events, program, stub, tools
from trace_site import database
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.database import delete_in_parts
from trace_site.rest.tokens import service_token_make

__all__ = ["champion", "stub", "tools"]
pytestmark = pytest.mark.django_db
LIST = "/evaluation/requests/"


@pytest.fixture
def keeping(db):
    """Every request is kept."""
    return RequestLogPolicy.objects.create(share=1.0)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(services, "WRITE_SECONDS", 0)


def kept(**chosen):
    requests.flush()
    return list(RetrievalRequest.objects.filter(**chosen).order_by("pk"))


def test_a_request_is_kept_with_its_answer_and_without_what_points_at_a_person(user_with, champion, keeping):
    user = user_with("expert")
    client = program(user, holds=["pay.read"])
    said = ask(
        client, query="payslip of Maria Gonzalez, maria@example.com", caller="maria@corp", mode="trace"
    )
    (row,) = kept()
    assert str(row.key) == said.json()["id"] and (row.owner, row.via, row.outcome) == (
        user,
        "single",
        "answered",
    )
    stored = " ".join(str(value) for value in RetrievalRequest.objects.values().get().values())
    for secret in ("Gonzalez", "maria@example.com", "maria@corp"):
        assert secret not in stored
    assert "e-mail" in " ".join(row.replaced) or row.replaced
    assert row.tools == ["Pay/GetPayslip"] and row.withheld == ["Pay/GetPaystub"]
    assert row.permissions == ["pay.read"] and row.model == champion and row.total_ms >= row.engine_ms > 0
    assert row.trace and row.caller == log.caller_hash("maria@corp") != log.caller_hash("other")


def test_a_service_token_a_batch_a_stream_and_a_refusal_are_kept_as_what_they_are(
    user_with, champion, keeping, stub
):
    user = user_with("admin")
    token, secret = service_token_make(
        owner=user, name="desk", scopes=["retrieve"], days=3, actor=user, holds_all=True
    )
    client = program(user)
    client.credentials(HTTP_AUTHORIZATION=f"Token {secret}")
    ask_batch(client, {"query": "one"}, {"query": "fail"})
    events(ask(client, query="three", mode="trace", stream=True))
    left = ask(client, query="four", mode="trace", stream=True)
    next(iter(left.streaming_content))
    for close in left._resource_closers:  # what the server does when nobody reads on
        close()
    stub.ready, stub.load = {}, 3600
    ask(client, query="five")
    assert [(row.via, row.outcome, row.token_name) for row in kept()] == [
        ("batch", "answered", "desk"),
        ("batch", "engine_failed", "desk"),
        ("stream", "answered", "desk"),
        ("stream", "left", "desk"),
        ("single", "unavailable", "desk"),
    ]
    assert {row.token for row in kept()} == {token.pk}


def test_a_share_is_kept_and_all_are_counted(user_with, champion, keeping, monkeypatch):
    client, drawn = program(user_with("expert")), iter([0.05, 0.2, 0.099, 0.1])
    RequestLogPolicy.objects.update(share=0.1)
    monkeypatch.setattr("evaluation.retrieval.api.random.random", lambda: next(drawn))
    for number in range(4):
        ask(client, query=f"request {number}")
    assert [row.query for row in kept()] == ["request 0", "request 2"]
    day = RequestDay.objects.get()
    assert (day.asked, day.kept, day.lost) == (4, 2, 0)


def test_without_texts_neither_request_nor_trace_nor_comment_is_kept(user_with, champion, keeping):
    RequestLogPolicy.objects.update(keeps_texts=False)
    client = program(user_with("expert"))
    key = ask(client, mode="trace").json()["id"]
    report(client, key, verdict="wrong", comment="said badly")
    (row,) = kept()
    assert (row.query, row.trace, row.comment, row.verdict) == ("", "", "", "wrong") and row.tools


def test_a_log_that_is_full_or_fails_changes_no_answer_and_says_what_it_lost(
    user_with, champion, keeping, monkeypatch
):
    client = program(user_with("expert"))
    monkeypatch.setattr(log, "MOST_WAITING", 2)
    for _ in range(5):
        assert ask(client).status_code == 200
    monkeypatch.setattr(log, "write", lambda rows: (_ for _ in ()).throw(OperationalError("away")))
    assert kept() == [] and len(requests.waiting) == 2  # they wait for the database
    monkeypatch.setattr(log, "scrub", lambda text: 1 / 0)
    assert ask(client).status_code == 200 and kept() == [] and not requests.waiting
    monkeypatch.undo()
    assert ask(client).status_code == 200 and len(kept()) == 1
    day = RequestDay.objects.get()
    assert (day.asked, day.kept, day.lost) == (7, 1, 6)


def test_an_entry_that_the_database_refuses_is_lost_alone_and_the_log_goes_on(user_with, champion, keeping):
    client = program(user_with("expert"))
    for query in ("one", "two", "three"):
        ask(client, query=query)
    requests.waiting[1].owner = 10**12  # somebody who is there no more
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert [row.query for row in kept()] == ["one", "three"]
    day = RequestDay.objects.get()
    assert (day.asked, day.kept, day.lost) == (3, 2, 1)


def test_a_thread_of_the_server_writes_what_waits(monkeypatch):
    wrote = threading.Event()
    waiting = log.Log()
    monkeypatch.setattr(log, "WRITE_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "flush", wrote.set)
    monkeypatch.setattr(log.atexit, "register", lambda work: None)
    waiting.start()
    assert wrote.wait(5) and waiting.thread.daemon


def report(client, key, **body):
    return client.post(f"{API}/{key}/feedback", body, format="json")


def test_a_wrong_answer_is_reported_in_one_call_before_or_after_it_is_written(user_with, champion, keeping):
    client = program(user_with("expert"))
    first, second = (ask(client, query=text).json()["id"] for text in ("one", "two"))
    said = report(client, first, verdict="wrong", expected=["Leave/Book"], comment="ask bob@example.com")
    assert said.status_code == 200 and said.json()["verdict"] == "wrong"
    rows = kept()
    assert [(row.query, row.verdict, row.expected) for row in rows] == [
        ("one", "wrong", ["Leave/Book"]),
        ("two", "", []),
    ]
    assert rows[0].reported_at and rows[0].tools and "bob@example.com" not in rows[0].comment
    assert report(client, second, verdict="right").status_code == 200
    assert report(client, first, verdict="right").json()["expected"] == []  # what is said again replaces
    assert [row.verdict for row in kept()] == ["right", "right"]


def test_a_report_of_a_request_that_was_not_kept_brings_it_along(user_with, champion, keeping):
    RequestLogPolicy.objects.update(share=0.0)
    client = program(user_with("expert"))
    key = ask(client).json()["id"]
    refused = report(client, key, verdict="wrong")
    assert refused.status_code == 404 and "Send `query`" in refused.json()["message"]
    brought = {"query": "slip of Maria Gonzalez", "tools": ["Pay/GetPaystub"]}
    assert report(client, key, verdict="wrong", **brought).status_code == 200
    (row,) = kept()
    assert (row.via, row.tools, row.outcome) == (
        "report",
        ["Pay/GetPaystub"],
        "",
    ) and "Gonzalez" not in row.query


def test_a_report_is_of_ones_own_request_with_tools_that_exist(user_with, champion, keeping):
    mine, other = program(user_with("expert")), program(user_with("admin"))
    key = ask(mine).json()["id"]
    for client, about in ((other, key), (mine, uuid4())):
        answer = report(client, about, verdict="wrong", query="my payslip")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    unknown = report(mine, key, verdict="wrong", expected=["No/Tool"])
    assert (unknown.status_code, unknown.json()["code"]) == (400, "unknown_tool")
    assert report(mine, key, verdict="bad").status_code == 400 and kept(verdict="wrong") == []


def test_one_persons_requests_are_erased_by_caller_or_owner_and_the_audit_says_so(
    user_with, champion, keeping
):
    mine, other = program(user_with("expert")), program(user_with("reviewer"))
    for client, caller in ((mine, "anna"), (mine, "other-caller"), (other, "anna"), (other, "")):
        ask(client, caller=caller, query=f"of {caller}")
    admin = user_with("admin")
    assert services.requests_erase(actor=admin, caller="anna") == 2
    assert sorted(row.query for row in kept()) == ["of", "of other-caller"]
    assert services.requests_erase(actor=admin, owner=kept(query="of other-caller")[0].owner.username) == 1
    said = AuditEntry.objects.filter(action="requests.erased").order_by("pk")
    assert [(row.detail["requests"], row.detail["by"]) for row in said] == [(2, "caller"), (1, "owner")]
    everything = "".join(str(row.detail) for row in AuditEntry.objects.all())
    everything += "".join(f"{row.before}{row.after}" for row in AuditChange.objects.all())
    assert "anna" not in everything


def test_a_report_that_comes_while_its_request_is_written_is_taken(user_with, champion, keeping, monkeypatch):
    client, write, said = program(user_with("expert")), log.write, []
    key = ask(client).json()["id"]

    def reported_meanwhile(rows):
        said.append(report(client, key, verdict="wrong").status_code)
        write(rows)

    monkeypatch.setattr(log, "write", reported_meanwhile)
    assert [(row.verdict, row.query) for row in kept()] == [("wrong", "my payslip")] and said == [200]
    assert not requests.taken


def test_a_report_that_brings_a_request_along_is_erased_by_its_caller(user_with, champion, keeping):
    RequestLogPolicy.objects.update(share=0.0)
    client = program(user_with("expert"))
    key = ask(client, caller="anna").json()["id"]
    assert report(client, key, verdict="wrong", query="my payslip", caller="anna").status_code == 200
    assert services.requests_erase(actor=None, caller="anna") == 1 and kept() == []


def test_a_report_of_an_erased_request_names_its_caller_so_that_it_can_be_erased_too(
    user_with, champion, keeping
):
    client = program(user_with("expert"))
    key = ask(client, caller="anna").json()["id"]
    assert services.requests_erase(actor=None, caller="anna") == 1
    for body in ({}, {"query": "my payslip"}):
        refused = report(client, key, verdict="wrong", **body)
        assert refused.status_code == 404 and "Send the `caller`" in refused.json()["message"]
    assert kept() == []
    assert report(client, key, verdict="wrong", query="my payslip", caller="anna").status_code == 200
    assert services.requests_erase(actor=None, caller="anna") == 1 and kept() == []


def test_a_request_that_waits_to_be_written_is_erased_too(user_with, champion, keeping):
    ask(program(user_with("expert")), caller="anna")
    assert len(requests.waiting) == 1
    assert services.requests_erase(actor=None, caller="anna") == 1 and kept() == []


def test_requests_go_when_their_time_is_over(user_with, champion, keeping, monkeypatch):
    monkeypatch.setattr(database, "AT_ONCE", 2)
    client = program(user_with("expert"))
    for _ in range(6):
        ask(client)
    rows = kept()
    old = [row.pk for row in rows[:5]]
    RetrievalRequest.objects.filter(pk__in=old).update(at=timezone.now() - timedelta(days=8))
    assert delete_in_parts(services.expired()) == 0
    RequestLogPolicy.objects.update(days=7)
    assert delete_in_parts(services.expired()) == 5 and kept() == rows[5:]


def test_the_pages_show_filter_and_explain_what_was_asked(client_as, user_with, champion, keeping, stub):
    client = program(user_with("expert", username="erin"), holds=["pay.read"])
    key = ask(client, query="one of these", caller="anna").json()["id"]
    report(client, key, verdict="wrong", expected=["Leave/Book"])
    ask(client, query="two of these", mode="trace")
    stub.ready, stub.load = {}, 3600
    ask(client, query="three of these")
    rows = {row.query: row for row in kept()}
    reader = client_as("product_manager")
    page = reader.get(LIST).content.decode()
    assert all(query in page for query in rows) and "Reported wrong" in page and "Erase" not in page

    def found(**chosen):
        return [row.query.split()[0] for row in reader.get(LIST, chosen).context["page"].rows]

    assert found(verdict="wrong") == ["one"] and found(mode="trace") == ["two"]
    assert found(outcome="refused") == ["three"] and found(outcome="withheld") == ["two", "one"]
    assert found(caller="anna") == ["one"] and found(owner="erin") == ["three", "two", "one"]
    assert (
        found(owner="nobody") == [] and "Nothing matches" in reader.get(LIST, {"owner": "x"}).content.decode()
    )
    detail = reader.get(f"{LIST}{rows['one of these'].pk}/").content.decode()
    assert "Right would have been" in detail and "pay.read" in detail and key in detail
    assert "PAYSLIP_PERIOD decides" in reader.get(f"{LIST}{rows['two of these'].pk}/").content.decode()


def test_the_list_takes_as_many_queries_for_fifty_requests_as_for_one(
    client_as, user_with, champion, keeping, django_assert_num_queries
):
    client, reader = program(user_with("expert")), client_as("admin")
    counts = []
    for more in (1, 30):
        ask_batch(client, *[{"query": f"request {number}"} for number in range(more)])
        kept()
        reader.get(LIST)
        with django_assert_num_queries(10) as counted:
            reader.get(LIST)
        counts.append(len(counted))
    assert counts[0] == counts[1]


def test_an_admin_sets_what_is_kept_and_erases_and_mistakes_are_said_beside_the_form(
    client_as, user_with, champion, keeping
):
    ask(program(user_with("expert")), caller="anna")
    kept()
    admin = client_as("admin")
    admin.post(f"{LIST}policy/", {"share": "2,5", "days": "14"})
    now = RequestLogPolicy.objects.get()
    assert (now.share, now.keeps_texts, now.days) == (0.025, False, 14)
    assert AuditEntry.objects.filter(action="request_log.changed").count() == 1
    assert AuditChange.objects.filter(table_name="evaluation_requestlogpolicy", operation="UPDATE").exists()
    for wrong in ({"share": "101", "days": "1"}, {"share": "x", "days": "1"}, {"share": "1", "days": "0"}):
        assert admin.post(f"{LIST}policy/", wrong).status_code == 422
    assert admin.post(f"{LIST}erase/", {}).status_code == 422
    missing = admin.post(f"{LIST}erase/", {"owner": "nobody here"})
    assert missing.status_code == 422 and "there is no user nobody here" in missing.content.decode()
    assert "1 request erased" in admin.post(f"{LIST}erase/", {"caller": "anna"}, follow=True).content.decode()


def test_requests_are_erased_from_the_command_line_too(user_with, champion, keeping, capsys):
    ask(program(user_with("expert", username="erin")), caller="anna")
    call_command("requests_erase", caller="anna")
    assert "1 request erased" in capsys.readouterr().out and kept() == []
