"""What Postgres guards beside the tables: two roles, what is frozen, one clock, and counters of what has changed.

The owner's role migrates. The application's works and cannot touch the audit tables; it owns nothing, so it can switch
no trigger off. What it may is said anew after every migration.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, ProgrammingError, connection, models, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models.functions import Now

from trace_site.lib.errors import TraceError

LOCK = 7_210_417  # of pg_advisory_xact_lock: one process at a time says what may be done
ABOUT = """
SELECT rolname, rolsuper, current_schema(), to_regrole(quote_ident(%s)) IS NOT NULL
FROM pg_roles WHERE rolname = current_user
"""
RIGHTS = (
    "REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC",
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
)
# what the application may only read; of every other table it may do everything but TRUNCATE. Triggers write the first,
# and NOTE the second
READ_ONLY = {"trace_site_auditchange", "trace_site_auditentry", "django_migrations"}
NOTE = "trace_audit_note"  # dates and signs what the application tells it
# the functions of our triggers, and what they write the ledger with; those of extensions are not ours
GUARDS = """
SELECT p.oid::regprocedure::text, starts_with(p.proname, 'trace_audit_of_'), p.proname
FROM pg_proc p
WHERE p.pronamespace = current_schema()::regnamespace AND p.proowner = current_user::regrole
  AND (p.prorettype = 'trigger'::regtype OR starts_with(p.proname, 'trace_audit_'))
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
"""


def become_owner(who: dict[str, Any] | None = None) -> None:
    """From here on this process speaks to the database as its owner, as the test suite does, or as `who`."""
    connection.close()
    connection.settings_dict.update(
        {key: (who or settings.DATABASE_OWNER)[key] for key in ("USER", "PASSWORD")}
    )


@contextmanager
def as_owner() -> Iterator[None]:
    """Inside, this process speaks to the database as its owner: for migrations and for what no page may do."""
    before = dict(connection.settings_dict)
    if before["USER"] == settings.DATABASE_OWNER["USER"]:
        yield
        return
    become_owner()
    try:
        yield
    finally:
        become_owner(before)


@transaction.atomic
def grant_rights() -> None:
    """Make the application's role where it is missing and say what it may. With one role for all nothing is done.

    Raises TraceError `bad_setting` where the owner may make no role.
    """
    role = str(settings.DATABASE_APPLICATION["USER"])
    hold_lock(LOCK)
    with connection.cursor() as cursor:
        cursor.execute(ABOUT, [role])
        owner, rules_all, schema, known = cursor.fetchone()
        if role == owner:
            return
        if rules_all or not known:  # a new password counts from the next migration on
            verb, name = "ALTER" if known else "CREATE", connection.ops.quote_name(role)
            try:
                password = str(settings.DATABASE_APPLICATION["PASSWORD"]).encode()
                # as the server keeps it: its log may hold the statement
                scrambled = connection.connection.pgconn.encrypt_password(password, role.encode()).decode()
                cursor.execute(f"{verb} ROLE {name} LOGIN PASSWORD %s", [scrambled])
            except ProgrammingError as error:
                raise TraceError(
                    f"{owner} may not make the role {role}, which DATABASE_URL names: {str(error).strip()}",
                    code="bad_setting",
                    where="DATABASE_OWNER_URL",
                    hint=f"As a superuser of the database run CREATE ROLE {name} LOGIN PASSWORD '...', with the "
                    "password of DATABASE_URL, then migrate again.",
                ) from error
        for statement in RIGHTS:
            _run(cursor, statement, role=role, schema=schema)
        for table in READ_ONLY & set(connection.introspection.table_names(cursor)):
            _run(cursor, "REVOKE INSERT, UPDATE, DELETE ON {table} FROM {role}", role=role, table=table)
        _close_functions(cursor, schema, role)


def _close_functions(cursor: CursorWrapper, schema: str, role: str) -> None:
    """Nobody but the tables' own triggers may call what writes the ledger or guards a frozen row; the application may
    call NOTE.

    Whoever may make a temporary table could otherwise hang the ledger's triggers on it and forge rows, or give it the
    name of a table that a guard reads: temporary tables are found first unless the path names them last.
    """
    cursor.execute(GUARDS)
    for signature, writes_ledger, name in cursor.fetchall():
        _run(cursor, f"ALTER FUNCTION {signature} SET search_path = {{schema}}, pg_temp", schema=schema)
        _run(cursor, f"REVOKE EXECUTE ON FUNCTION {signature} FROM PUBLIC")
        if writes_ledger:
            _run(cursor, f"ALTER FUNCTION {signature} SECURITY DEFINER")
        if name == NOTE:
            _run(cursor, f"GRANT EXECUTE ON FUNCTION {signature} TO {{role}}", role=role)


def _run(cursor: CursorWrapper, statement: str, **names: str) -> None:
    quoted = {key: connection.ops.quote_name(name) for key, name in names.items()}
    cursor.execute(statement.format(**quoted))


# What a frozen table's trigger says, for people: a change of what is frozen is refused, not a crash.

RAISED = "23000"  # integrity_constraint_violation: our triggers raise it, Postgres itself only its subcodes


def hold_lock(lock: int) -> None:
    """Until this transaction ends, others who want what this number stands for wait."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock])


def frozen_error(error: Exception) -> TraceError | None:
    """The refusal of a trigger as the error that pages, API and commands show; None for any other error."""
    cause = error.__cause__
    if not isinstance(error, IntegrityError) or getattr(cause, "sqlstate", None) != RAISED:
        return None
    said = getattr(getattr(cause, "diag", None), "message_primary", None) or str(error)
    hint = "What is frozen stays as it is: make a new one instead."
    return TraceError(f"{said}.", code="frozen", hint=hint, permanent=True)


AT_ONCE = 5000  # rows of one delete


def delete_in_parts(rows: models.QuerySet[Any]) -> int:
    """The oldest first; how many went, without what went with them."""
    gone = 0
    while found := list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE]):
        _, deleted = rows.filter(pk__in=found).delete()
        gone += deleted.get(rows.model._meta.label, 0)
    return gone


# The clock of all that several processes decide by: what is due or over, and when something was. A query says Now();
# `tests/test_clock.py` lists who may ask the process' own clock, and why.


def database_now() -> datetime:
    """For what is decided beside a query; one of its own."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now


class Changed(models.DateTimeField):  # type: ignore[type-arg]  # the stubs alone know that it is generic
    """When a row was saved last. `auto_now` would ask the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"db_default": Now(), **options})

    def pre_save(self, instance: models.Model, add: bool) -> Any:
        if add:  # the INSERT tells it back
            return Now()
        setattr(instance, self.attname, now := database_now())
        return now

    def deconstruct(self) -> Any:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.DateTimeField", args, options


# Counters that move with the data they name, so that a process knows when what it has cached is old.
#
# A statement trigger raises the counter in the writer's own transaction: a reader sees the new number exactly when it
# sees the new rows, whoever wrote them and how.


class Generation(models.Model):
    name = models.CharField(primary_key=True, max_length=40)
    value = models.BigIntegerField(default=0)

    class Meta:
        app_label = "trace_site"


# a column: {counter that ever moved: its number and the transaction that moved it last}. A number alone comes back when
# the transaction that raised it is rolled back; its transaction never does
GENERATIONS = "(SELECT json_object_agg(name, value || ' ' || xmin) FROM trace_site_generation)"
Generations = Mapping[str, str]


def generation_key(*names: str) -> dict[str, str]:
    """What a cache may be keyed by: of the counters of these names those that ever moved. One query."""
    with connection.cursor() as cursor:  # the ORM would take three times as long
        cursor.execute(f"SELECT {GENERATIONS}")
        (moved,) = cursor.fetchone() or (None,)
    return {name: value for name, value in (moved or {}).items() if name in names}
