"""Rollups of samples and of what waits for review, kept by statement triggers, and the indexes of lists at any depth.

One set of delta rows per statement, inserted and never updated: writers wait for no one. `synthesis.counts` folds and
recounts them. Foreign keys that a longer index covers, or that nothing looks up, lose theirs: that pays for the new.
"""

import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.db.models.fields.json
from django.conf import settings
from django.db import migrations, models

FACET = """
CREATE FUNCTION synthesis_facet(branch text, domain text, style text, tier text, machine text, human text, how text,
  writer text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT hashtextextended(branch || '|' || domain || '|' || style || '|' || tier || '|' || machine || '|' || human
    || '|' || how || '|' || split_part(writer, ':', 1), 0)
$$;
"""
NO_FACET = "DROP FUNCTION synthesis_facet(text, text, text, text, text, text, text, text);"

# (rollup, its columns, the table's columns, which rows count)
SAMPLES = (
    "synthesis_samplecount",
    "branch, domain, rule_version, style, tier, machine, human, approved_how, writer",
    "branch, domain_id, rule_version_id, style, tier, machine, human, approved_how, split_part(writer, ':', 1)",
    "true",
)
ITEMS = (
    "synthesis_reviewcount",
    "round, branch, domain, rule, style, tier, held, calibration, assigned_to, first_by",
    "round, branch, domain_id, rule_id, style, tier, state = 'held', calibration, assigned_to_id, first_by_id",
    "state IN ('held', 'open', 'claimed')",
)


def counted(rollup: str, names: str, columns: str, which: str, *, table: str) -> str:
    """Triggers that append to `rollup` what every statement on `table` adds and takes."""
    added = f"SELECT {columns}, 1 FROM new_rows WHERE {which}"
    taken = f"SELECT {columns}, -1 FROM old_rows WHERE {which}"
    branches = []
    for event, rows in (("INSERT", added), ("DELETE", taken), ("UPDATE", f"{added} UNION ALL {taken}")):
        branches.append(
            f"IF TG_OP = '{event}' THEN INSERT INTO {rollup} ({names}, n) SELECT {names}, sum(n) FROM ({rows}) "
            f"d ({names}, n) GROUP BY {names} HAVING sum(n) <> 0;"
        )
    triggers = []
    for event, tables in (
        ("INSERT", "NEW TABLE AS new_rows"),
        ("UPDATE", "OLD TABLE AS old_rows NEW TABLE AS new_rows"),
        ("DELETE", "OLD TABLE AS old_rows"),
    ):
        triggers.append(
            f"CREATE TRIGGER {rollup}_{event.lower()} AFTER {event} ON {table} REFERENCING {tables} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {rollup}_follow();"
        )
    return f"""
CREATE FUNCTION {rollup}_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  {" ELS".join(branches)}
  ELSE DELETE FROM {rollup};
  END IF;
  RETURN NULL;
END $$;
{" ".join(triggers)}
CREATE TRIGGER {rollup}_truncate AFTER TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {rollup}_follow();
INSERT INTO {rollup} ({names}, n, folded)
SELECT {names}, count(*), true FROM (SELECT {columns} FROM {table} WHERE {which}) d ({names}) GROUP BY {names};
"""


def not_counted(rollup: str, *, table: str) -> str:
    events = ("insert", "update", "delete", "truncate")
    return "".join(f"DROP TRIGGER {rollup}_{event} ON {table};" for event in events) + (
        f"DROP FUNCTION {rollup}_follow();"
    )


FIRST_BY = """
UPDATE synthesis_reviewitem i SET first_by_id = f.decided_by_id
FROM synthesis_reviewitem f WHERE i.round > 1 AND f.sample_id = i.sample_id AND f.round = 1;
SET CONSTRAINTS ALL IMMEDIATE;
CREATE FUNCTION synthesis_first_by() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.first_by_id := (
    SELECT decided_by_id FROM synthesis_reviewitem WHERE sample_id = NEW.sample_id AND round = 1);
  RETURN NEW;
END $$;
CREATE TRIGGER synthesis_first_by_new BEFORE INSERT ON synthesis_reviewitem
  FOR EACH ROW WHEN (NEW.round > 1) EXECUTE FUNCTION synthesis_first_by();
CREATE TRIGGER synthesis_first_by_again BEFORE UPDATE ON synthesis_reviewitem
  FOR EACH ROW WHEN (NEW.round > 1 AND NEW.state = 'open' AND OLD.state IN ('withdrawn', 'decided'))
  EXECUTE FUNCTION synthesis_first_by();
"""
NO_FIRST_BY = """
DROP TRIGGER synthesis_first_by_new ON synthesis_reviewitem;
DROP TRIGGER synthesis_first_by_again ON synthesis_reviewitem;
DROP FUNCTION synthesis_first_by();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0008_audited"),
        ("rules", "0007_health_words"),
        ("synthesis", "0011_review_governed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(FACET, NO_FACET),
        migrations.RemoveIndex(
            model_name="reviewitem",
            name="queue_decided_by",
        ),
        migrations.RemoveIndex(
            model_name="sample",
            name="synthesis_s_branch_06e444_idx",
        ),
        migrations.RemoveField(
            model_name="samplecount",
            name="rule",
        ),
        migrations.RemoveField(
            model_name="samplecount",
            name="run",
        ),
        migrations.AddField(
            model_name="reviewcount",
            name="first_by",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="reviewcount",
            name="folded",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name="reviewcount",
            name="tier",
            field=models.CharField(default="", max_length=6),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="reviewitem",
            name="first_by",
            field=models.ForeignKey(
                db_index=False,
                help_text="of a later round: who decided the first (by trigger, migration 0012)",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="samplecount",
            name="approved_how",
            field=models.CharField(default="", max_length=11),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="samplecount",
            name="folded",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name="samplecount",
            name="writer",
            field=models.CharField(default="", help_text="offline, llm or import", max_length=120),
            preserve_default=False,
        ),
        migrations.AlterField(
            model_name="reviewitem",
            name="assigned_to",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="reviewitem",
            name="assignment",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="items",
                to="synthesis.assignment",
            ),
        ),
        migrations.AlterField(
            model_name="reviewitem",
            name="batch",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="items",
                to="synthesis.batch",
            ),
        ),
        migrations.AlterField(
            model_name="reviewitem",
            name="claimed_by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="reviewitem",
            name="decided_by",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="reviewitem",
            name="domain",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="catalog.domain",
            ),
        ),
        migrations.AlterField(
            model_name="reviewitem",
            name="rule",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="rules.rule",
            ),
        ),
        migrations.AlterField(
            model_name="reviewitem",
            name="rule_version",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="rules.ruleversion",
            ),
        ),
        migrations.AlterField(
            model_name="sample",
            name="domain",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="catalog.domain",
            ),
        ),
        migrations.AlterField(
            model_name="sample",
            name="rule_version",
            field=models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="samples",
                to="rules.ruleversion",
            ),
        ),
        migrations.AlterField(
            model_name="sample",
            name="run",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="samples",
                to="synthesis.synthesisrun",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("outcome", "ready"), _negated=True),
                fields=["outcome", "sample"],
                name="attempts_refused",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("number__gt", 1)), fields=["sample"], name="attempts_again"
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(
                condition=models.Q(("outcome", "error")),
                fields=["error_code", "sample"],
                name="attempts_by_error",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass("filter_failures", "jsonb_path_ops"),
                condition=models.Q(("outcome", "filtered")),
                name="attempts_by_check",
            ),
        ),
        migrations.AddIndex(
            model_name="attempt",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.fields.json.KeyTransform("failed", "judge"), "jsonb_path_ops"
                ),
                condition=models.Q(("outcome", "judged_out")),
                name="attempts_by_axis",
            ),
        ),
        migrations.AddIndex(
            model_name="reviewcount",
            index=models.Index(
                condition=models.Q(("folded", False)), fields=["id"], name="review_counts_loose"
            ),
        ),
        migrations.AddIndex(
            model_name="reviewitem",
            index=models.Index(
                condition=models.Q(("first_by__isnull", False), ("state", "open")),
                fields=["first_by", "rank", "id"],
                name="queue_open_again",
            ),
        ),
        migrations.AddIndex(
            model_name="reviewitem",
            index=models.Index(
                condition=models.Q(("decided_by__isnull", False)),
                fields=["decided_by", "decided_at"],
                name="queue_decided_by",
            ),
        ),
        migrations.AddIndex(
            model_name="reviewitem",
            index=models.Index(
                condition=models.Q(("batch__isnull", False)), fields=["batch", "state"], name="queue_of_batch"
            ),
        ),
        migrations.AddIndex(
            model_name="reviewitem",
            index=models.Index(
                condition=models.Q(("assignment__isnull", False)),
                fields=["assignment", "state"],
                name="queue_of_assignment",
            ),
        ),
        migrations.AddIndex(
            model_name="sample",
            index=models.Index(
                models.Func(
                    "branch",
                    "domain",
                    "style",
                    "tier",
                    "machine",
                    "human",
                    "approved_how",
                    "writer",
                    function="synthesis_facet",
                    output_field=models.BigIntegerField(),
                ),
                models.F("id"),
                name="samples_by_facet",
            ),
        ),
        migrations.AddIndex(
            model_name="sample",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.search.SearchVector("query", config="simple"), name="samples_by_words"
            ),
        ),
        migrations.AddIndex(
            model_name="samplecount",
            index=models.Index(fields=["rule_version"], name="sample_counts_of_version"),
        ),
        migrations.AddIndex(
            model_name="samplecount",
            index=models.Index(
                condition=models.Q(("folded", False)), fields=["id"], name="sample_counts_loose"
            ),
        ),
        migrations.RunSQL(FIRST_BY, NO_FIRST_BY),
        migrations.RunSQL(
            counted(*SAMPLES, table="synthesis_sample"), not_counted(SAMPLES[0], table="synthesis_sample")
        ),
        migrations.RunSQL(
            counted(*ITEMS, table="synthesis_reviewitem"),
            not_counted(ITEMS[0], table="synthesis_reviewitem"),
        ),
    ]
