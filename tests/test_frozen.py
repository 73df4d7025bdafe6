"""What the docs call frozen is: each table of their list is tried column by column, by SQL, as its owner."""

import re

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction

from tests.sources import APPS, ROOT

pytestmark = pytest.mark.django_db

ROWS = re.findall(
    r"^\| `(\w+_\w+)` \| [^|]+ \| ([^|]+) \|$", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE
)
LISTED = dict(ROWS)
STATES = {
    "rules_changerequest": {"state": "applied"},
    "evaluation_labelledrequest": {
        "origin": "benchmark",
        "version_id": None,
        "sample_id": None,
        "request_id": None,
    },
    "evaluation_answer": {"model_id": None, "job_id": None, "backend": ""},
}
# a value of a type, and another one
VALUES = {
    "int2": ("1", "2"),
    "int4": ("1", "2"),
    "int8": ("1", "2"),
    "float8": ("1", "2"),
    "bool": ("true", "false"),
    "varchar": ("x", "y"),
    "text": ("x", "y"),
    "jsonb": ("{}", '{"a": 1}'),
    "timestamptz": ("2020-01-01", "2021-01-01"),
    "date": ("2020-01-01", "2021-01-01"),
    "uuid": ("0" * 32, "1" * 32),
    "bytea": ("x", "y"),
    "_int8": ("{1}", "{2}"),
    "_int4": ("{1}", "{2}"),
    "_varchar": ("{x}", "{y}"),
}


def sql(statement, params=None):
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchall() if cursor.description else cursor.rowcount


def columns_of(table):
    return dict(
        sql(
            "SELECT column_name, udt_name FROM information_schema.columns "
            "WHERE table_name = %s AND table_schema = current_schema() AND is_generated = 'NEVER'",
            [table],
        )
    )


def free_of(table):
    """Columns, and keys of JSON columns, that may still change."""
    said = LISTED[table]
    named = set(re.findall(r"`([\w.]+)`", said))
    return set(columns_of(table)) - named if said.startswith("all but") else named


@pytest.fixture
def one_row_each(db):
    """Every number is 1, so that the rows point at each other."""
    sql("SET LOCAL session_replication_role = replica")
    for table in LISTED:
        row = {name: VALUES[kind][0] for name, kind in columns_of(table).items()} | STATES.get(table, {})
        places = ", ".join(["%s"] * len(row))
        sql(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values()))
    sql("SET LOCAL session_replication_role = origin")


def refused(statement, params=None, *, at_commit=False):
    """Whether the database refuses, at once or at the end of the transaction."""
    try:
        with transaction.atomic():
            assert sql(statement, params) != 0
            if at_commit:
                sql("SET CONSTRAINTS ALL IMMEDIATE")
            transaction.set_rollback(True)
    except IntegrityError as error:
        assert error.__cause__.sqlstate in ("23000", "23503")  # a trigger of ours, or rows that point here
        return True
    return False


@pytest.mark.parametrize("table", LISTED)
def test_a_frozen_row_keeps_what_the_docs_say_it_keeps(table, one_row_each):
    open_to = set()
    for name, kind in columns_of(table).items():
        changed = not refused(f"UPDATE {table} SET {name} = %s", [VALUES[kind][1]])
        open_to |= {name} if changed else set()
        if kind == "jsonb" and not changed:
            keys = {key.partition(".")[2] for key in free_of(table) if key.startswith(f"{name}.")}
            written = f"UPDATE {table} SET {name} = jsonb_build_object(%s, 1)"
            open_to |= {f"{name}.{key}" for key in keys if not refused(written, [key])}
    assert open_to == free_of(table)


@pytest.mark.parametrize("table", LISTED)
def test_a_frozen_row_is_not_deleted_and_its_table_not_emptied(table, one_row_each):
    assert refused(f"DELETE FROM {table}", at_commit=True)
    assert refused(f"TRUNCATE {table} CASCADE")


def test_every_table_with_the_triggers_stands_in_the_docs():
    held = sql(
        "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE p.proname = 'trace_refuse_change' AND tgenabled = 'O'"
    )
    assert len(ROWS) == len(LISTED) > 30
    assert {table for (table,) in held} - set(LISTED) == set()


def test_every_table_that_calls_itself_frozen_stands_in_the_docs():
    promise = re.compile(r"append-only|frozen|immutable|never change", re.IGNORECASE)
    promised = {
        model._meta.db_table
        for model in apps.get_models()
        if model.__module__.partition(".")[0] in ("trace_site", *APPS) and promise.search(model.__doc__ or "")
    }
    assert promised - set(LISTED) == set()


def test_a_benchmark_that_is_complete_takes_no_item(one_row_each):
    columns = "id, origin, benchmark_id, position, domain, text_key, data"
    insert = (
        f"INSERT INTO evaluation_labelledrequest ({columns}) VALUES (2, 'benchmark', 1, 2, '', '', '{{}}')"
    )
    with pytest.raises(IntegrityError, match="benchmark 1 is frozen: no item comes in"), transaction.atomic():
        sql(insert)
