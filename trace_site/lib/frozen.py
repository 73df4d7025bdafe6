"""SQL that makes a table append-only: a trigger refuses UPDATE, DELETE and TRUNCATE, whoever asks."""

FUNCTION = """
CREATE OR REPLACE FUNCTION trace_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% rows are frozen: % is refused', TG_TABLE_NAME, TG_OP
    USING ERRCODE = 'integrity_constraint_violation';
END $$;
"""


def freeze_sql(table: str) -> str:
    return FUNCTION + (
        f"CREATE TRIGGER {table}_frozen BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION trace_refuse_change(); "
        f"CREATE TRIGGER {table}_not_truncated BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION trace_refuse_change();"
    )


def unfreeze_sql(table: str) -> str:
    return f"DROP TRIGGER {table}_frozen ON {table}; DROP TRIGGER {table}_not_truncated ON {table};"
