"""Every way to change a governed row leaves exactly one row in the ledger, with who and through what."""

import re
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django.urls import path
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from catalog.models import Domain, LabelledQuery, Tool
from tests.factories import make_domain, make_rule, make_tool
from tests.tokens import token_of
from trace_site import access, audit_context, jobs
from trace_site.audit import models as audit_models
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.audit_context import acting, identified_later
from trace_site.commands import TraceCommand
from trace_site.rest.tokens import ApiToken, digest_of
from trace_site.rest.views import ApiView
from trace_site.worker import run_sweepers

pytestmark = pytest.mark.django_db


def ledger(table: str = "catalog_domain") -> list[AuditChange]:
    return list(AuditChange.objects.filter(table_name=table).order_by("id"))


def sql(statement: str, *params: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params or None)


def orm_save(user):
    domain = Domain.objects.get(pk="hr")
    domain.title = "changed"
    with acting(user, "page /x"):
        domain.save()


def bulk_create(user):
    with acting(user, "page /x"):
        Domain.objects.bulk_create([Domain(slug="new", title="changed")])


def bulk_update(user):
    domain = Domain.objects.get(pk="hr")
    domain.title = "changed"
    with acting(user, "page /x"):
        Domain.objects.bulk_update([domain], ["title"])


def queryset_update(user):
    with acting(user, "page /x"):
        Domain.objects.filter(pk="hr").update(title="changed")


def upsert_of_a_known_row(user):
    with acting(user, "page /x"):
        Domain.objects.bulk_create(
            [Domain(slug="hr", title="changed")],
            update_conflicts=True,
            unique_fields=["slug"],
            update_fields=["title"],
        )


def raw_sql(user):
    with acting(user, "page /x"):
        sql("UPDATE catalog_domain SET title = 'changed' WHERE slug = 'hr'")


def copy(user):
    statement = "COPY catalog_domain (slug, title) FROM STDIN"
    with acting(user, "page /x"), connection.cursor() as cursor, cursor.copy(statement) as rows:
        rows.write_row(["new", "changed"])


def page(user):
    from django.test import Client

    client = Client()
    client.force_login(user)
    client.post("/x/domain/")


def api(user):
    class Change(ApiView):
        permission_classes = ()

        def post(self, request):
            queryset_update_now()
            return Response({})

    token = token_of(user)
    headers = {"Authorization": f"Token {token}", "Idempotency-Key": "k"}
    with identified_later("api /x"):  # what the middleware does
        Change.as_view()(APIRequestFactory().post("/x", headers=headers))


def queryset_update_now(*_args):
    Domain.objects.filter(pk="hr").update(title="changed")
    return {}


def job(user):
    jobs.run(jobs.enqueue("probe", {}, created_by=user).pk)


class ProbeCommand(TraceCommand):
    def run(self, options):
        queryset_update_now()
        return {}, ""


def command(user):
    ProbeCommand.__module__ = "x.management.commands.probe_command"
    call_command(ProbeCommand(), json=False)


def delete(user):
    with acting(user, "page /x"):
        Domain.objects.filter(pk="hr").delete()


def sweep(user):
    run_sweepers()


@pytest.fixture
def probes(settings, monkeypatch):
    """A page, a job and a sweeper that change one row."""
    from django.http import HttpResponse

    from trace_site import urls

    def change(request):
        queryset_update_now()
        return HttpResponse("done")

    monkeypatch.setattr(urls, "urlpatterns", [*urls.urlpatterns, path("x/domain/", change, name="probe")])
    monkeypatch.setitem(access.areas(), "probe", access.areas()["catalog:list"])
    settings.ROOT_URLCONF = "trace_site.urls"
    settings.JOB_HANDLERS = {"probe": (f"{__name__}.queryset_update_now", "default")}
    settings.SWEEPERS = [f"{__name__}.queryset_update_now"]


ROUTES = [
    (orm_save, "UPDATE", "page /x"),
    (bulk_create, "INSERT", "page /x"),
    (bulk_update, "UPDATE", "page /x"),
    (queryset_update, "UPDATE", "page /x"),
    (upsert_of_a_known_row, "UPDATE", "page /x"),
    (raw_sql, "UPDATE", "page /x"),
    (copy, "INSERT", "page /x"),
    (delete, "DELETE", "page /x"),
    (page, "UPDATE", "page /x/domain/"),
    (api, "UPDATE", "api /x"),
    (job, "UPDATE", "job "),
    (command, "UPDATE", "command probe_command"),
    (sweep, "UPDATE", "sweep "),
]


@pytest.mark.parametrize(
    ("route", "operation", "source"), ROUTES, ids=[route[0].__name__ for route in ROUTES]
)
def test_a_change_by_any_route_is_one_row_with_its_actor(probes, user_with, route, operation, source):
    make_domain("hr")
    user = user_with("admin")
    before = len(ledger("catalog_domain"))
    route(user)
    rows = ledger("catalog_domain")[before:]
    assert [row.operation for row in rows] == [operation]
    assert rows[0].source.startswith(source) and rows[0].db_user
    assert rows[0].actor_id == (None if route in (command, sweep) else user.pk)
    if operation == "UPDATE":
        assert list(rows[0].after.values()) == ["changed"] and list(rows[0].before) == list(rows[0].after)
    sql("UPDATE catalog_domain SET title = 'later'")
    sql("INSERT INTO catalog_domain (slug, title) VALUES ('by-hand', 'x')")
    assert (ledger()[-1].actor_id, ledger()[-1].source) == (None, "")


@pytest.mark.parametrize("error", [RuntimeError, DatabaseError])
def test_work_that_fails_takes_its_name_back(user_with, error):
    with pytest.raises(error), acting(user_with("admin"), "page /x"), transaction.atomic():
        if error is DatabaseError:
            sql("SELECT 1/0")
        raise error
    make_domain("hr")
    assert (ledger()[-1].actor_id, ledger()[-1].source) == (None, "")


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_transaction_leaves_the_name_for_the_next_and_no_row(user_with):
    user = user_with("admin")
    with acting(user, "page /x"):
        with pytest.raises(IntegrityError), transaction.atomic():
            make_domain("hr")
            sql("INSERT INTO catalog_domain (slug, title) VALUES ('hr', 'again')")
        make_domain("it")
    assert [(row.row_id, row.actor_id) for row in ledger()] == [("it", user.pk)]


@pytest.mark.django_db(transaction=True)
def test_a_connection_made_anew_is_told_again(user_with):
    user = user_with("admin")
    with acting(user, "job 7"):
        connection.close()
        make_domain("hr")
    connection.close()
    make_domain("it")
    assert [(row.actor_id, row.source) for row in ledger()] == [(user.pk, "job 7"), (None, "")]


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_ends_before_it_is_told_is_an_outage(user_with, monkeypatch):
    def ends(wrapper):
        raise psycopg.OperationalError("terminating connection due to administrator command")

    with acting(user_with(), "command"):
        connection.close()
        monkeypatch.setattr(audit_context, "_tell", ends)
        with pytest.raises(OperationalError, match="terminating"):
            User.objects.exists()
        monkeypatch.undo()
        make_domain("d1")
    assert AuditChange.objects.get(table_name="catalog_domain").source == "command"


def test_work_inside_work_gives_the_name_back(user_with):
    user = user_with("admin")
    with acting(user, "page /x"):
        with acting(None, "job 1"):
            make_domain("a")
        make_domain("b")
    assert [(row.actor_id, row.source) for row in ledger()] == [(None, "job 1"), (user.pk, "page /x")]


def test_a_job_that_crashes_takes_its_name_back(probes, settings, user_with):
    settings.JOB_HANDLERS = {"probe": (f"{__name__}.crash", "default")}
    with pytest.raises(ZeroDivisionError):
        job(user_with("admin"))
    make_domain("hr")
    assert ledger()[-1].source == ""


def crash(context):
    return 1 / 0


FORGERIES = [
    "INSERT INTO {t} SELECT * FROM {t} LIMIT 1",
    "UPDATE {t} SET {c} = 'x'",
    "DELETE FROM {t}",
    "TRUNCATE {t}",
]


@pytest.mark.parametrize("statement", FORGERIES)
@pytest.mark.parametrize(("table", "column"), [("auditchange", "source"), ("auditentry", "action")])
def test_the_audit_tables_refuse_forgery(table, column, statement):
    audit_models.record(actor=None, action="a.b", obj=make_domain("hr"))
    if table == "auditentry" and statement.startswith("INSERT"):
        return  # the owner may, the application may not: test_database_roles
    sql("SET CONSTRAINTS ALL IMMEDIATE")
    with pytest.raises(DatabaseError, match="written by triggers only|frozen"), transaction.atomic():
        sql(statement.format(t=f"trace_site_{table}", c=column))
    with pytest.raises(IntegrityError), transaction.atomic():
        AuditChange.objects.bulk_create([ledger()[0]])


def test_truncate_of_a_governed_table_is_told():
    sql("TRUNCATE auth_group_permissions")
    assert [row.operation for row in ledger("auth_group_permissions")][-1] == "TRUNCATE"


def test_secrets_never_enter_the_ledger(user_with):
    user = user_with("admin")
    user.set_password("new secret")
    user.save()
    key = token_of(user)
    ApiToken.objects.filter(owner=user).update(digest="f" * 64)
    changed = ledger("auth_user")[-1]
    assert changed.before == {"password": "(hidden)"} and changed.after == {"password": "(hidden, replaced)"}
    made, changed = ledger("trace_site_apitoken")
    assert not {"digest", "password_mark"} & set(made.after)
    assert changed.after == {"digest": "(hidden, replaced)", "password_mark": "(hidden, replaced)"}
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(c::text, ' ') FROM trace_site_auditchange c")
        everything = cursor.fetchone()[0]
    for secret in (key, "f" * 64, digest_of(key), user.password, make_password("pass")):
        assert secret not in everything


def test_what_is_computed_is_left_out(user_with):
    tool = make_tool()
    user = user_with("admin")
    count = AuditChange.objects.count()
    Tool.objects.filter(pk=tool.pk).update(embedding=[0.5] * 8, embedding_key="k", words="w")
    User.objects.filter(pk=user.pk).update(last_login="2026-01-01T00:00:00Z")
    assert AuditChange.objects.count() == count
    inserted = ledger("catalog_tool")[0].after
    assert inserted["name"] == tool.name and not {"embedding", "search", "words"} & set(inserted)
    Tool.objects.filter(pk=tool.pk).update(embedding=None, status="retired")
    assert ledger("catalog_tool")[-1].after == {"status": "retired"}


def test_roles_given_and_taken_are_told():
    user = User.objects.create_user("erin")
    group = Group.objects.get(name="expert")
    user.groups.add(group)
    user.groups.clear()
    rows = ledger("auth_user_groups")
    assert [row.operation for row in rows] == ["INSERT", "DELETE"]
    assert rows[0].after["group_id"] == rows[1].before["group_id"] == group.pk


def test_a_samples_decision_is_told_and_its_making_is_not():
    from tests.synthesis.rows import make_sample

    sample = make_sample(machine="pending", human="pending")
    type(sample).objects.filter(pk=sample.pk).update(query="written", machine="ready")
    assert ledger("synthesis_sample") == []
    type(sample).objects.filter(pk=sample.pk).update(human="approved", approved_by="rui")
    type(sample).objects.filter(pk=sample.pk).update(query="mended")
    decided, edited = ledger("synthesis_sample")
    assert decided.after == {"human": "approved", "approved_by": "rui"}
    assert edited.before == {"query": "written"} and edited.after == {"query": "mended"}


def test_a_named_event_and_its_row_changes_share_their_transaction():
    with transaction.atomic():
        rule = make_rule(make_tool())
        audit_models.record(actor=None, action="rule.saved", obj=rule)
    entry = AuditEntry.objects.get(action="rule.saved")
    assert entry.txid is not None
    joined = AuditChange.objects.filter(txid=entry.txid, table_name="rules_rule", row_id=str(rule.pk))
    assert {row.operation for row in joined} == {"INSERT", "UPDATE"}


def test_bulk_inserts_leave_one_row_each():
    LabelledQuery.objects.bulk_create(
        LabelledQuery(collection="c", use="import", text=f"q{n}", text_key=str(n), tools=[])
        for n in range(500)
    )
    assert len(ledger("catalog_labelledquery")) == 500


GOVERNED = """auth_group auth_group_permissions auth_user auth_user_groups auth_user_user_permissions
catalog_catalogimport catalog_cluster catalog_domain catalog_labelledquery catalog_tool evaluation_benchmark
evaluation_evaluation evaluation_gatereport evaluation_requestlogpolicy rules_approval rules_changecomment
rules_changerequest rules_rule rules_rulechange rules_rulereading rules_ruleversion synthesis_assignment synthesis_batch
synthesis_decision synthesis_guideline synthesis_loopsettings synthesis_sample synthesis_samplecomment
synthesis_secondshare synthesis_snapshot synthesis_synthesisrun trace_site_apitoken trace_site_webhook
training_aliasmove training_grid training_model training_retraining training_retrainpolicy training_run"""


def test_every_governed_table_has_its_triggers():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger "
            "WHERE tgname ~ '_audit_(insert|update|delete|truncate)$' AND tgenabled = 'O'"
        )
        assert {row[0] for row in cursor.fetchall()} == set(GOVERNED.split())


def test_no_code_of_ours_switches_triggers_off():
    root = Path(__file__).resolve().parent.parent
    wrong = re.compile(r"session_replication_role|DISABLE TRIGGER", re.IGNORECASE)
    files = [
        p
        for app in ("trace_site", "catalog", "rules", "synthesis", "training", "evaluation")
        for p in (root / app).rglob("*.py")
    ]
    assert [str(p) for p in files if wrong.search(p.read_text())] == []
