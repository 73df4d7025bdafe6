"""A snapshot is frozen with what it means: its members' content, their rules' names, their attempts and prompts.

A sample in a snapshot keeps every column but those that say who approved it; it cannot be deleted. Members come in
with the transaction that makes the snapshot, which locks the samples, and never after. Attempts and prompts are
append-only for all samples. The owner of the tables can still switch triggers off: `snapshot_rebuild` shows what was
changed then.
"""

from django.db import migrations, models
from django.db.models import Func

from trace_site.lib.frozen import freeze_sql, unfreeze_sql

FROZEN = ["synthesis_frozenlines", "synthesis_attempt", "synthesis_promptversion"]
# every column of a sample but human, approved_by, approved_how and updated_at (`content` is generated from made_from)
CONTENT = [
    *("id", "run_id", "key", "slot", "branch", "domain_id", "rule_version_id", "anchor_id", "labelled_query_id"),
    *("style", "tier", "seed", "pool", "answer", "query", "explanation", "trace", "permissions", "writer"),
    *("machine", "made_from", "created_at"),
]
OLD, NEW = (", ".join(f"{side}.{name}" for name in CONTENT) for side in ("OLD", "NEW"))

SAMPLES = f"""
CREATE FUNCTION synthesis_member_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE held bigint;
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    SELECT snapshot_id INTO held FROM synthesis_snapshotsample LIMIT 1;
  ELSE
    SELECT snapshot_id INTO held FROM synthesis_snapshotsample WHERE sample_id = OLD.id ORDER BY 1 LIMIT 1;
  END IF;
  IF held IS NOT NULL THEN
    RAISE EXCEPTION 'sample % is frozen in snapshot %: % is refused',
      CASE TG_OP WHEN 'TRUNCATE' THEN 'rows' ELSE OLD.id::text END, held, TG_OP
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF TG_OP = 'UPDATE' THEN RETURN NEW; END IF;
  IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER synthesis_sample_content_kept BEFORE UPDATE ON synthesis_sample FOR EACH ROW
  WHEN (({OLD}) IS DISTINCT FROM ({NEW})) EXECUTE FUNCTION synthesis_member_kept();
CREATE TRIGGER synthesis_sample_kept BEFORE DELETE ON synthesis_sample
  FOR EACH ROW EXECUTE FUNCTION synthesis_member_kept();
CREATE TRIGGER synthesis_sample_not_truncated BEFORE TRUNCATE ON synthesis_sample
  FOR EACH STATEMENT EXECUTE FUNCTION synthesis_member_kept();
"""
UNDO_SAMPLES = """
DROP TRIGGER synthesis_sample_content_kept ON synthesis_sample;
DROP TRIGGER synthesis_sample_kept ON synthesis_sample;
DROP TRIGGER synthesis_sample_not_truncated ON synthesis_sample;
DROP FUNCTION synthesis_member_kept();
"""

# the lock makes a writer of one of the samples wait for this transaction; then the trigger above sees the member
MEMBERS = """
CREATE FUNCTION synthesis_members_closed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE closed bigint;
BEGIN
  SELECT s.id INTO closed FROM synthesis_snapshot s
  WHERE s.id IN (SELECT snapshot_id FROM new_rows) AND s.txid <> txid_current() LIMIT 1;
  IF closed IS NOT NULL THEN
    RAISE EXCEPTION 'snapshot % is frozen: no sample comes in', closed
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  PERFORM 1 FROM synthesis_sample WHERE id IN (SELECT sample_id FROM new_rows) ORDER BY id FOR SHARE;
  RETURN NULL;
END $$;
CREATE TRIGGER synthesis_snapshotsample_closed AFTER INSERT ON synthesis_snapshotsample
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION synthesis_members_closed();
"""
UNDO_MEMBERS = """
DROP TRIGGER synthesis_snapshotsample_closed ON synthesis_snapshotsample;
DROP FUNCTION synthesis_members_closed();
"""

# a snapshot names rules by domain and code
RULES = """
CREATE FUNCTION synthesis_rule_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (
    SELECT 1 FROM rules_ruleversion v JOIN synthesis_sample s ON s.rule_version_id = v.id
      JOIN synthesis_snapshotsample m ON m.sample_id = s.id WHERE v.rule_id = OLD.id
  ) THEN
    RAISE EXCEPTION 'rule % has samples in a frozen snapshot: its code and domain stay', OLD.code
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER rules_rule_name_kept BEFORE UPDATE OF code, domain_id ON rules_rule FOR EACH ROW
  WHEN ((OLD.code, OLD.domain_id) IS DISTINCT FROM (NEW.code, NEW.domain_id)) EXECUTE FUNCTION synthesis_rule_kept();
"""
UNDO_RULES = """
DROP TRIGGER rules_rule_name_kept ON rules_rule;
DROP FUNCTION synthesis_rule_kept();
"""


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0012_counts"), ("rules", "0007_health_words")]
    operations = [
        migrations.CreateModel(
            name="FrozenLines",
            fields=[
                (
                    "digest",
                    models.CharField(
                        help_text="sha256 of the lines", max_length=64, primary_key=True, serialize=False
                    ),
                ),
                ("rows", models.PositiveIntegerField()),
                ("data", models.BinaryField(help_text="the lines, zlib")),
            ],
            options={"verbose_name_plural": "frozen lines"},
        ),
        migrations.AddField(
            "snapshot",
            "parts",
            models.JSONField(
                default=dict,
                help_text="{file: digests of its FrozenLines}: every file that is not made from the members",
            ),
        ),
        migrations.AddField(
            "snapshot",
            "txid",
            models.BigIntegerField(
                db_default=Func(function="txid_current", output_field=models.BigIntegerField()),
                help_text="the transaction that made it: members come in with it and never after",
            ),
        ),
        migrations.AddConstraint(
            "snapshotsample",
            models.UniqueConstraint(fields=("snapshot", "position"), name="one_sample_a_position"),
        ),
        *[migrations.RunSQL(freeze_sql(table), unfreeze_sql(table)) for table in FROZEN],
        migrations.RunSQL(SAMPLES, UNDO_SAMPLES),
        migrations.RunSQL(MEMBERS, UNDO_MEMBERS),
        migrations.RunSQL(RULES, UNDO_RULES),
    ]
