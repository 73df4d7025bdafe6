"""The application's role: what it may do is enough to work, and too little to leave no trace."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.db.models.functions import Now

from synthesis.models import SnapshotSample
from tests.as_application import as_application  # noqa: F401
from tests.factories import make_domain, make_rule, make_sample, make_snapshot, make_tool
from trace_site.audit import models as audit_models
from trace_site.audit.models import TRANSACTION, AuditChange, AuditEntry
from trace_site.audit_context import acting

pytestmark = pytest.mark.django_db


def sql(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def refuse(statement, why="permission denied|must be owner|must be superuser"):
    with pytest.raises(DatabaseError, match=why), transaction.atomic():
        sql(statement)


def test_it_is_no_superuser_and_owns_nothing():
    assert sql(
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls "
        "FROM pg_roles WHERE rolname = current_user"
    ) == [(False,)]
    assert sql("SELECT count(*) FROM pg_class WHERE relowner = current_user::regrole") == [(0,)]
    assert sql("SELECT count(*) FROM pg_auth_members WHERE member = current_user::regrole") == [(0,)]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_read_file('postgresql.conf')",
        "COPY auth_group TO PROGRAM 'cat'",
        "COPY auth_group TO '/tmp/groups'",
        "SET session_replication_role = replica",
        "ALTER TABLE auth_group DISABLE TRIGGER ALL",
        "ALTER TABLE trace_site_auditchange DISABLE TRIGGER USER",
        "TRUNCATE auth_group CASCADE",
        "DROP TABLE auth_group",
        "CREATE TABLE of_mine (id int)",
        "CREATE FUNCTION public.of_mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ALTER ROLE CURRENT_USER SUPERUSER",
        "CREATE ROLE another",
        "SET ROLE trace",
        "SELECT rolpassword FROM pg_authid",
        "INSERT INTO django_migrations (app, name, applied) VALUES ('a', 'b', now())",
    ],
)
def test_the_database_refuses_what_no_page_needs(statement):
    refuse(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO trace_site_auditchange SELECT * FROM trace_site_auditchange LIMIT 1",
        "UPDATE trace_site_auditchange SET source = 'x'",
        "DELETE FROM trace_site_auditchange",
        "TRUNCATE trace_site_auditchange",
        "INSERT INTO trace_site_auditentry SELECT * FROM trace_site_auditentry LIMIT 1",
        "UPDATE trace_site_auditentry SET action = 'x'",
        "DELETE FROM trace_site_auditentry",
        "TRUNCATE trace_site_auditentry",
        "SELECT trace_audit_write('auth_user', 'DELETE', '1', '{}', NULL, false)",
    ],
)
def test_the_audit_tables_cannot_be_touched(statement):
    audit_models.record(actor=None, action="a.b", obj=make_domain("hr"))
    sql("SET CONSTRAINTS ALL IMMEDIATE")
    refuse(statement)


def test_an_event_is_dated_and_signed_by_the_database_whatever_the_application_says(user_with):
    person = user_with("admin")
    said = (
        '[{"action": "a.b", "object_type": "x", "object_id": "", "object_label": "", "detail": {}, "actor_id": 99, \
        "at": "2020-01-01", "txid": 1}]'
    )
    with acting(person, "page /x"):
        sql(f"SELECT trace_audit_note('{said}')")
    [entry] = AuditEntry.objects.annotate(
        own=TRANSACTION, is_now=Q(at__gt=Now() - timedelta(minutes=1), at__lte=Now())
    )
    assert (entry.actor, entry.txid, entry.is_now) == (person, entry.own, True)


def test_an_event_in_the_name_of_nobody_is_refused():
    with pytest.raises(DatabaseError, match="violates foreign key"), transaction.atomic():
        audit_models.record(actor=987_654, action="a.b", obj=make_domain("hr"))
        sql("SET CONSTRAINTS ALL IMMEDIATE")


def test_the_ledgers_triggers_cannot_be_hung_on_a_table_of_ones_own():
    sql("CREATE TEMP TABLE auth_user (id int)")
    call = "EXECUTE FUNCTION public.trace_audit_of_auth_user()"
    refuse(f"CREATE TRIGGER forged AFTER INSERT ON pg_temp.auth_user FOR EACH ROW {call}")


def test_a_function_of_ones_own_cannot_write_the_ledger():
    sql("CREATE TEMP TABLE forged (id int)")
    sql(
        "CREATE FUNCTION pg_temp.forge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM public.trace_audit_write('auth_user', 'DELETE', '1', '{}', NULL, false); RETURN NULL; END $$"
    )
    sql("CREATE TRIGGER forge AFTER INSERT ON forged FOR EACH ROW EXECUTE FUNCTION pg_temp.forge()")
    refuse("INSERT INTO forged VALUES (1)")


def test_a_temporary_table_of_the_ledgers_name_catches_nothing():
    before = AuditChange.objects.count()
    sql("CREATE TEMP TABLE trace_site_auditchange (LIKE public.trace_site_auditchange INCLUDING ALL)")
    Group.objects.create(name="seen")
    assert sql("SELECT count(*) FROM pg_temp.trace_site_auditchange") == [(0,)]
    assert sql("SELECT count(*) FROM public.trace_site_auditchange") == [(before + 1,)]


def test_a_temporary_table_does_not_open_what_is_frozen():
    sample, snapshot = make_sample(), make_snapshot()
    SnapshotSample.objects.create(snapshot=snapshot, sample=sample, position=1, sample_key="k")
    sql("CREATE TEMP TABLE synthesis_snapshotsample (LIKE public.synthesis_snapshotsample)")
    refuse(f"UPDATE synthesis_sample SET query = 'other' WHERE id = {sample.pk}", "is frozen in snapshot")


def test_every_table_of_ours_can_be_read_and_written_but_those_of_the_audit():
    rights = dict(
        sql(
            "SELECT relname, has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') "
            "AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE') "
            "FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
    )
    assert {model._meta.db_table for model in apps.get_models() if model._meta.managed} <= set(rights)
    assert {name for name, whole in rights.items() if not whole} == {
        "django_migrations",
        "trace_site_auditchange",
        "trace_site_auditentry",
    }


def test_work_is_told_to_the_ledger_under_the_roles_own_name():
    rule = make_rule(make_tool())
    audit_models.record(actor=None, action="rule.saved", obj=rule)
    [entry] = AuditEntry.objects.filter(action="rule.saved")
    told = AuditChange.objects.filter(txid=entry.txid, table_name="rules_rule")
    assert {row.db_user for row in told} == {connection.settings_dict["USER"]}
