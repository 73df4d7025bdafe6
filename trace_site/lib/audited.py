"""SQL that makes a table tell the audit ledger of every row that is inserted, updated or deleted, whoever asks.

The ledger is trace_site_auditchange. Who and why come from the settings `trace.actor` and `trace.source` of the
connection (trace_site.acting); raw SQL has neither. An UPDATE keeps the columns that changed, on both sides.

The writing function runs as the owner of the tables. An application that connects as another role needs no right to
write the ledger, and then cannot switch its triggers off either.
"""

from collections.abc import Iterable, Sequence

LEDGER = "trace_site_auditchange"

WRITE = f"""
CREATE OR REPLACE FUNCTION trace_audit_write(tab text, op text, id text, was jsonb, is_now jsonb, differs boolean)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE same text[];
BEGIN
  IF op = 'UPDATE' THEN
    IF was = is_now AND NOT differs THEN RETURN; END IF;
    SELECT coalesce(array_agg(key), '{{}}') INTO same FROM jsonb_each(was) WHERE value = is_now -> key;
    was := was - same;
    is_now := is_now - same;
  END IF;
  INSERT INTO {LEDGER} (at, txid, actor_id, source, db_user, table_name, operation, row_id, before, after)
  VALUES (now(), txid_current(), nullif(current_setting('trace.actor', true), '')::bigint,
          coalesce(current_setting('trace.source', true), ''), session_user, tab, op, id, was, is_now);
END $$;
"""

LEDGER_ONLY = f"""
CREATE OR REPLACE FUNCTION trace_audit_only_triggers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_trigger_depth() < 2 THEN
    RAISE EXCEPTION 'the audit ledger is written by triggers only' USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER {LEDGER}_guarded BEFORE INSERT ON {LEDGER} FOR EACH ROW EXECUTE FUNCTION trace_audit_only_triggers();
"""

UNDO_LEDGER = f"""
DROP TRIGGER {LEDGER}_guarded ON {LEDGER};
DROP FUNCTION trace_audit_only_triggers();
DROP FUNCTION trace_audit_write(text, text, text, jsonb, jsonb, boolean);
"""


def audited_sql(
    table: str,
    *,
    omit: Sequence[str] = (),
    secret: Sequence[str] = (),
    row_id: str = "id",
    operations: Iterable[str] = ("INSERT", "UPDATE", "DELETE"),
    update_when: str = "",
) -> str:
    """SQL for a migration: every change of a row of `table` becomes a row of the ledger, TRUNCATE one for the table.

    omit: columns that are left out; a change of nothing else is no change. secret: columns whose change is told, never
    their value. row_id: the column that names a row. update_when: a condition on OLD and NEW for updates to count.
    """
    hidden = [*omit, *secret]
    body = f"""
CREATE OR REPLACE FUNCTION {_name(table)}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE was jsonb; is_now jsonb; differs boolean := false; id text;
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    PERFORM trace_audit_write(TG_TABLE_NAME, TG_OP, '', NULL, NULL, false);
    RETURN NULL;
  END IF;
  IF TG_OP <> 'INSERT' THEN id := OLD.{row_id}; END IF;
  IF TG_OP <> 'DELETE' THEN id := NEW.{row_id}; END IF;
  IF TG_OP = 'UPDATE' THEN differs := {_differs(secret)}; END IF;
  IF TG_OP <> 'INSERT' THEN
    {_nulled("OLD", hidden)}was := {_as_json("OLD", hidden)};
  END IF;
  IF TG_OP <> 'DELETE' THEN
    {_nulled("NEW", hidden)}is_now := {_as_json("NEW", hidden)};
  END IF;
  IF differs THEN
    was := was || '{_marks(secret, "(hidden)")}';
    is_now := is_now || '{_marks(secret, "(hidden, replaced)")}';
  END IF;
  PERFORM trace_audit_write(TG_TABLE_NAME, TG_OP, id, was, is_now, differs);
  RETURN NULL;
END $$;
"""
    return body + "".join(_trigger(table, operation, update_when) for operation in [*operations, "TRUNCATE"])


def unaudited_sql(table: str) -> str:
    return f"DROP FUNCTION {_name(table)}() CASCADE;"


def _name(table: str) -> str:
    return f"trace_audit_of_{table}"


def _trigger(table: str, operation: str, update_when: str) -> str:
    each = "STATEMENT" if operation == "TRUNCATE" else "ROW"
    when = f" WHEN ({update_when})" if operation == "UPDATE" and update_when else ""
    return (
        f"CREATE TRIGGER {table}_audit_{operation.lower()} AFTER {operation} ON {table} "
        f"FOR EACH {each}{when} EXECUTE FUNCTION {_name(table)}();\n"
    )


def _nulled(record: str, columns: Sequence[str]) -> str:
    """An embedding that is NULL costs nothing to turn into JSON; in an AFTER trigger the record is only a copy."""
    return "".join(f"{record}.{column} := NULL; " for column in columns)


def _as_json(record: str, columns: Sequence[str]) -> str:
    left_out = f" - ARRAY[{', '.join(repr(column) for column in columns)}]" if columns else ""
    return f"to_jsonb({record}){left_out}"


def _differs(columns: Sequence[str]) -> str:
    return " OR ".join(f"OLD.{column} IS DISTINCT FROM NEW.{column}" for column in columns) or "false"


def _marks(columns: Sequence[str], mark: str) -> str:
    return "{" + ", ".join(f'"{column}": "{mark}"' for column in columns) + "}"
