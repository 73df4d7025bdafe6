"""Rollups of samples and of what waits for review, kept by statement triggers.

One set of delta rows per statement, inserted and never updated: writers wait for no one. `synthesis.samples.counts` folds and
recounts them.
"""

from django.db import migrations

# (rollup, its columns, the table's columns, the table, which rows count)
ROLLUPS = (
    (
        "synthesis_samplecount",
        "branch, domain, rule_version, style, tier, machine, human, approved_how, writer",
        "branch, domain_id, coalesce(rule_version_id, 0), style, tier, machine, human, approved_how, "
        "split_part(writer, ':', 1)",
        "synthesis_sample",
        "true",
    ),
    (
        "synthesis_reviewcount",
        "round, branch, domain, rule, style, tier, held, calibration, assigned_to, first_by",
        "round, branch, domain_id, coalesce(rule_id, 0), style, tier, state = 'held', calibration, "
        "coalesce(assigned_to_id, 0), coalesce(first_by_id, 0)",
        "synthesis_reviewitem",
        "state IN ('held', 'open', 'claimed')",
    ),
)


def counted(rollup: str, names: str, columns: str, table: str, which: str) -> str:
    """Triggers that append to `rollup` what every statement on `table` adds and takes."""
    added = f"SELECT {columns}, 1 FROM new_rows WHERE {which}"
    taken = f"SELECT {columns}, -1 FROM old_rows WHERE {which}"

    def append(rows: str) -> str:
        return (
            f"INSERT INTO {rollup} ({names}, n) SELECT {names}, sum(n) FROM ({rows}) d ({names}, n) "
            f"GROUP BY {names} HAVING sum(n) <> 0;"
        )

    return f"""
CREATE FUNCTION {rollup}_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN {append(added)}
  ELSIF TG_OP = 'DELETE' THEN {append(taken)}
  ELSIF TG_OP = 'UPDATE' THEN {append(f"{added} UNION ALL {taken}")}
  ELSE DELETE FROM {rollup};
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER {rollup}_insert AFTER INSERT ON {table} REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION {rollup}_follow();
CREATE TRIGGER {rollup}_update AFTER UPDATE ON {table} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION {rollup}_follow();
CREATE TRIGGER {rollup}_delete AFTER DELETE ON {table} REFERENCING OLD TABLE AS old_rows
  FOR EACH STATEMENT EXECUTE FUNCTION {rollup}_follow();
CREATE TRIGGER {rollup}_truncate AFTER TRUNCATE ON {table}
  FOR EACH STATEMENT EXECUTE FUNCTION {rollup}_follow();
"""


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0003_queue")]
    operations = [migrations.RunSQL("".join(counted(*rollup) for rollup in ROLLUPS))]
