"""Counts are folded twice, with the rule and without, so that a page's totals are a few hundred rows.

And the index for searching samples' keys by their beginning goes: nobody does, and it was the largest.
"""

from django.db import migrations, models

# (rollup, its columns, the table's columns, the table, which rows count, the column that COARSE leaves out)
ROLLUPS = (
    (
        "synthesis_samplecount",
        "branch, domain, rule_version, style, tier, machine, human, approved_how, writer",
        "branch, domain_id, coalesce(rule_version_id, 0), style, tier, machine, human, approved_how, "
        "split_part(writer, ':', 1)",
        "synthesis_sample",
        "true",
        "rule_version",
    ),
    (
        "synthesis_reviewcount",
        "round, branch, domain, rule, style, tier, held, calibration, assigned_to, first_by",
        "round, branch, domain_id, coalesce(rule_id, 0), style, tier, state = 'held', calibration, "
        "coalesce(assigned_to_id, 0), coalesce(first_by_id, 0)",
        "synthesis_reviewitem",
        "state IN ('held', 'open', 'claimed')",
        "rule",
    ),
)


def follow(rollup: str, names: str, columns: str, which: str) -> str:
    """What the triggers of migration 0012 call: append what a statement adds and takes."""
    added = f"SELECT {columns}, 1 FROM new_rows WHERE {which}"
    taken = f"SELECT {columns}, -1 FROM old_rows WHERE {which}"
    events = {"INSERT": added, "DELETE": taken, "UPDATE": f"{added} UNION ALL {taken}"}
    branches = " ELS".join(
        f"IF TG_OP = '{event}' THEN INSERT INTO {rollup} ({names}, n) SELECT {names}, sum(n) FROM ({rows}) "
        f"d ({names}, n) GROUP BY {names} HAVING sum(n) <> 0;"
        for event, rows in events.items()
    )
    return f"""
CREATE OR REPLACE FUNCTION {rollup}_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  {branches}
  ELSE DELETE FROM {rollup};
  END IF;
  RETURN NULL;
END $$;
"""


def fill(rollup: str, names: str, columns: str, table: str, which: str, rule: str) -> str:
    fewer = ", ".join(name for name in names.split(", ") if name != rule)
    return f"""
LOCK TABLE {table} IN SHARE MODE;
INSERT INTO {rollup} ({names}, n, level)
SELECT {names}, count(*), 1 FROM (SELECT {columns} FROM {table} WHERE {which}) d ({names}) GROUP BY {names};
INSERT INTO {rollup} ({fewer}, {rule}, n, level)
SELECT {fewer}, 0, sum(n), 2 FROM {rollup} WHERE level = 1 GROUP BY {fewer};
"""


def refill(rollup: str, names: str, columns: str, table: str, which: str, rule: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        follow(rollup, names, columns, which) + fill(rollup, names, columns, table, which, rule),
        f"DELETE FROM {rollup};",
    )


EMPTY = "DELETE FROM synthesis_samplecount; DELETE FROM synthesis_reviewcount;"
NONE = [("samplecount", "rule_version"), ("reviewcount", "rule"), ("reviewcount", "assigned_to")]
LEVELS = [(0, "what one statement changed"), (1, "folded"), (2, "folded, all rules together")]


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0014_quality_indexes")]
    operations = [
        migrations.RunSQL(EMPTY, EMPTY),
        migrations.RemoveIndex("samplecount", "sample_counts_of_version"),
        migrations.RemoveIndex("samplecount", "sample_counts_loose"),
        migrations.RemoveIndex("reviewcount", "review_counts_loose"),
        *[migrations.RemoveField(model, "folded") for model in ("samplecount", "reviewcount")],
        *[
            migrations.AddField(
                model, "level", models.PositiveSmallIntegerField(choices=LEVELS, db_default=0)
            )
            for model in ("samplecount", "reviewcount")
        ],
        *[
            migrations.AlterField(model, name, models.BigIntegerField())
            for model, name in [*NONE, ("reviewcount", "first_by")]
        ],
        migrations.AddIndex(
            "samplecount",
            models.Index(fields=["level", "rule_version"], name="sample_counts_of_level"),
        ),
        migrations.AddIndex(
            "reviewcount", models.Index(fields=["level", "rule"], name="review_counts_of_level")
        ),
        *[refill(*rollup) for rollup in ROLLUPS],
        migrations.RunSQL("DROP INDEX IF EXISTS synthesis_sample_key_57e86aed_like;", migrations.RunSQL.noop),
    ]
