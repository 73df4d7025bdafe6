"""The audit list: events and row changes, who may see which values, pages, filters, the file."""

import csv
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from catalog.models import Domain
from rules.models import ChangeRequest, Rule, RuleChange
from synthesis.models import SecondShare
from synthesis.review import services as review_services
from synthesis.team.services import comment_add
from tests.factories import make_domain, make_rule, make_sample, make_tool
from trace_site.audit import models as audit_models
from trace_site.audit.log import Wanted, page_of_lines
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.audit_context import acting

pytestmark = pytest.mark.django_db


def seen(client, query: str = "") -> list[tuple[str, str, str]]:
    rows = client.get(f"/audit/{query}").context["page"].rows
    return [(row.kind, row.action, row.object_id) for row in rows]


def sql(statement: str, *params: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params or None)


@pytest.fixture
def own_transactions(monkeypatch):
    """Tests share one transaction; entries of these carry none, but for the ones a test gives a number."""

    def note(actor, *entries):
        AuditEntry.objects.bulk_create(AuditEntry(actor=actor, txid=None, **entry) for entry in entries)

    monkeypatch.setattr(audit_models, "note", note)


def test_events_and_changes_without_one_are_one_list_newest_first(client_as, own_transactions):
    client = client_as("admin")
    AuditChange.objects.count()
    make_domain("before")
    audit_models.record(actor=None, action="a.first", obj=make_domain("before"))
    rows = seen(client)
    assert ("event", "a.first", "before") in rows and ("change", "INSERT", "before") in rows


def test_a_change_with_a_named_event_is_told_by_the_event_unless_asked_for(client_as):
    client = client_as("admin")
    rule = make_rule(make_tool())
    audit_models.record(actor=None, action="rule.saved", obj=rule)  # the test is one transaction
    tx = AuditEntry.objects.get(action="rule.saved").txid
    assert {row.kind for row in client.get("/audit/").context["page"].rows if row.tx == tx} == {"event"}
    assert ("change", "INSERT", str(rule.pk)) in seen(client, f"?object_type=rule&object_id={rule.pk}")
    assert {action for _, action, _ in seen(client, "?action=UPDATE")} == {"UPDATE"}
    entry = AuditEntry.objects.get(action="rule.saved")
    assert len(seen(client, f"?tx={entry.txid}")) > 3


def test_an_event_unfolds_to_the_rows_it_changed_with_marked_words(client_as):
    client = client_as("admin")
    domain = make_domain("hr")
    with acting(None, "job 12"):
        Domain.objects.filter(pk="hr").update(title="Human <b>Resources</b>")
    audit_models.record(
        actor=None, action="domain.renamed", obj=domain, detail={"per_rule": 3, "names": ["a", "b"]}
    )
    entry = AuditEntry.objects.get(action="domain.renamed")
    page = client.get(f"/audit/events/{entry.pk}/")
    text = page.content.decode()
    assert "<mark>Human" in text and "&lt;b&gt;" in text and "<mark>HR</mark>" in text
    assert "per rule" in text.lower() and "a, b" in text
    fragment = client.get(f"/audit/events/{entry.pk}/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in fragment and "other row" in fragment
    change = AuditChange.objects.get(operation="UPDATE", table_name="catalog_domain")
    assert "job 12" in client.get(f"/audit/changes/{change.pk}/").content.decode()


def test_a_changed_row_is_called_by_its_name_not_by_its_number(client_as):
    client = client_as("admin")
    rule = make_rule(make_tool("Pay/Get"), code="PAY_PERIOD")
    user = User.objects.get(username="admin")
    ChangeRequest.objects.create(title="Pay", author=user)
    RuleChange.objects.create(request=ChangeRequest.objects.get(), rule=rule, edited_by=user)
    Rule.objects.filter(pk=rule.pk).update(published=None)
    labels = {
        row.object_words: row.label for row in client.get("/audit/?tx=" + tx_now()).context["page"].rows
    }
    assert labels["rule"] == labels["rule change"] == labels["rule version"] == "PAY_PERIOD"
    assert labels["tool"] == "Pay/Get" and labels["change request"] == "Pay"


def test_an_event_may_tell_of_items(client_as):
    client = client_as("admin")
    user = User.objects.get(username="admin")
    audit_models.record(actor=user, action="assignment.taken_back", obj=user, detail={"items": 3})
    event = AuditEntry.objects.get(action="assignment.taken_back")
    assert "items: 3" in client.get("/audit/").content.decode()
    assert "<dt>Items</dt><dd" in client.get(f"/audit/events/{event.pk}/").content.decode()


def tx_now() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT txid_current()")
        return str(cursor.fetchone()[0])


@pytest.mark.parametrize("role", ["expert", "reviewer", "product_manager"])
def test_the_audit_is_for_admins(client_as, user_with, role):
    User.objects.create_user("erin", email="erin@example.com")
    row = AuditChange.objects.get(table_name="auth_user", operation="INSERT", after__username="erin")
    addresses = ["/audit/", "/audit/audit.csv", f"/audit/changes/{row.pk}/", "/api/v1/audit"]
    client = client_as(role)
    assert {client.get(address).status_code for address in addresses} == {403}
    client.force_login(user_with("admin"))
    assert {client.get(address).status_code for address in addresses} == {200}
    assert "erin@example.com" in client.get(f"/audit/changes/{row.pk}/").content.decode()


def test_filters_hold_together(client_as, user_with, own_transactions):
    client = client_as("admin")
    erin = user_with("expert", username="erin")
    with acting(erin, "page /rules/1/edit/"):
        make_domain("mine")
    with acting(None, "job 7"):
        make_domain("other")
    audit_models.record(actor=erin, action="rule.saved", obj=make_domain("mine"))
    assert seen(client, "?actor=erin&object_type=domain") == [
        ("event", "rule.saved", "mine"),
        ("change", "INSERT", "mine"),
    ]
    assert seen(client, "?source=job") == [("change", "INSERT", "other")]
    today = datetime.now(UTC).date()
    assert seen(client, f"?since={today}&until={today}&action=rule.saved") == [
        ("event", "rule.saved", "mine")
    ]
    assert seen(client, f"?actor=erin&until={today - timedelta(days=1)}") == []
    assert "Nothing matches" in client.get("/audit/?actor=nobody").content.decode()
    for wrong in ("since=x", "until=99999-01-01", "tx=x", "after=1-other-1", "since=0001-01-01"):
        assert client.get(f"/audit/?{wrong}").status_code == 400


def test_pages_follow_each_other_without_gap_or_repeat(own_transactions):
    tool = make_tool()
    audit_models.record_all(actor=None, action="tool.seen", objects=[(tool, {"n": n}) for n in range(40)])
    for number in range(40):
        make_domain(f"d{number}")
    whole = [row.key for row in page_of_lines(Wanted(), size=1000).rows]
    walked, after = [], ""
    while after is not None:
        page = page_of_lines(Wanted(), after, size=7)
        walked += [row.key for row in page.rows]
        after = page.next_key
    assert walked == whole and len(set(walked)) == len(whole) >= 80


def test_the_list_costs_the_same_with_many_rows_and_people(client_as, django_assert_num_queries, user_with):
    client = client_as("admin")
    for number in range(30):
        with acting(user_with("expert", username=f"u{number}"), "page /"):
            make_domain(f"d{number}")
    # session, user, roles, strip, entries, changes, names of people, names of rows, actions, two for kinds of objects
    with django_assert_num_queries(11):
        client.get("/audit/")


def test_a_user_who_is_gone_is_still_told(client_as):
    client = client_as("admin")
    gone = User.objects.create_user("gone")
    with acting(gone, "page /"):
        make_domain("hr")
    number = gone.pk
    gone.delete()
    page = client.get("/audit/?object_type=domain").content.decode()
    assert f"user {number}, deleted since" in page


def test_the_file_runs_nothing_in_a_spreadsheet(client_as, own_transactions):
    client = client_as("admin")
    sql("INSERT INTO catalog_domain (slug, title) VALUES ('x', '=HYPERLINK(1)')")
    answer = client.get("/audit/audit.csv?object_type=domain")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")
    rows = list(csv.DictReader(StringIO(text)))
    assert rows[0]["label"] == "'=HYPERLINK(1)" and "title: =HYPERLINK(1)" in rows[0]["after"]
    assert not [cell for row in rows for cell in row.values() if cell[:1] in "=+-@\t\r" and cell]
    assert answer["Content-Disposition"].endswith('"audit.csv"')


def test_what_raw_sql_changed_says_so(client_as):
    client = client_as("admin")
    with transaction.atomic():
        sql("INSERT INTO catalog_domain (slug, title) VALUES ('x', 'X')")
    assert "SQL as " in client.get("/audit/?object_type=domain").content.decode()


@pytest.fixture
def read_once(user_with):
    """A sample that bea rejected and somebody has still to read, blind."""
    SecondShare.objects.create(share=1.0)
    sample = make_sample(rule=make_rule(make_tool("Pay/Get")))
    review_services.reject(
        sample=sample, reviewer=user_with("reviewer", username="bea"), reason="leak", note="says much"
    )
    return sample


def whole_list(client) -> str:
    pages = [client.get("/audit/"), client.get("/audit/?object_type=sample"), client.get("/api/v1/audit")]
    texts = [page.content.decode() for page in pages]
    texts += [client.get(f"/audit/events/{entry.pk}/").content.decode() for entry in AuditEntry.objects.all()]
    texts += [client.get(f"/audit/changes/{row.pk}/").content.decode() for row in AuditChange.objects.all()]
    files = [client.get(f"/audit/audit.csv{query}") for query in ("", "?object_type=decision")]
    return "".join(texts) + b"".join(part for file in files for part in file.streaming_content).decode()


def test_how_a_sample_was_judged_is_told_once_no_reading_of_it_waits(client_as, read_once, user_with):
    client = client_as("admin")
    comment_add(sample=read_once, author=User.objects.get(username="bea"), text="It says much too much.")
    text = whole_list(client)
    known_by_name = "<option>sample.reject</option>"  # the filter lists every action there is
    told = text.replace(known_by_name, "")
    assert "sample.read" in told and "bea" in told
    assert not [word for word in ("sample.reject", "says much", "leak") if word in told]
    assert seen(client, "?action=sample.reject") == []
    review_services.reject(sample=read_once, reviewer=user_with("reviewer", username="cem"), reason="leak")
    assert seen(client, "?action=sample.reject") == [("event", "sample.reject", str(read_once.pk))] * 2
    text = whole_list(client)
    assert "sample.read" not in text and "reason: leak" in text.lower()
    assert "says much" in text


def test_a_decision_taken_back_is_not_told_to_who_reads_the_sample_next(client_as, read_once):
    review_services.undo(reviewer=User.objects.get(username="bea"))
    client = client_as("admin")
    told = [row.action for row in client.get("/audit/").context["page"].rows if row.object_type == "sample"]
    assert told == ["sample.read", "sample.read"]
    assert seen(client, "?action=sample.undo") == []


def test_readings_under_a_veil_cost_one_query_however_many(client_as, read_once, django_assert_num_queries):
    client = client_as("admin")
    audit_models.record_all(
        actor=None, action="sample.reject", objects=[(read_once, {"n": n}) for n in range(30)]
    )
    with django_assert_num_queries(11):
        client.get("/audit/")
