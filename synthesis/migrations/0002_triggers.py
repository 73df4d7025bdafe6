"""What is frozen, what the ledger is told of, and whatever a snapshot holds.

A snapshot is frozen with what it means: its members' content, their rules' names, their attempts and prompts. A sample
in a snapshot keeps every column but those that say who approved it; it cannot be deleted. Members come in with the
transaction that makes the snapshot, which locks the samples, and never after. Attempts and prompts are append-only for
all samples. The owner of the tables can still switch triggers off: `snapshot_rebuild` shows what was changed then.
"""

from django.db import migrations

# of a sample only what a person or a policy decides: what the machine writes while it is made is no decision
HELD = """
SELECT trace_freeze('synthesis_snapshot');
SELECT trace_freeze('synthesis_snapshotsample');
SELECT trace_freeze('synthesis_decision');
SELECT trace_freeze('synthesis_frozenlines');
SELECT trace_freeze('synthesis_attempt');
SELECT trace_freeze('synthesis_promptversion');
SELECT trace_freeze('synthesis_guideline');
SELECT trace_freeze('synthesis_samplecomment');

SELECT trace_audit('synthesis_synthesisrun', omit => '{skipped}');
SELECT trace_audit('synthesis_sample', omit => '{updated_at}', operations => '{UPDATE,DELETE}', update_when => $$
OLD.human <> NEW.human OR OLD.approved_by <> NEW.approved_by
OR (OLD.machine = 'ready' AND (OLD.query, OLD.trace, OLD.answer) IS DISTINCT FROM (NEW.query, NEW.trace, NEW.answer))
$$);
SELECT trace_audit('synthesis_decision');
SELECT trace_audit('synthesis_snapshot', omit => '{manifest}');
SELECT trace_audit('synthesis_assignment');
SELECT trace_audit('synthesis_batch');
SELECT trace_audit('synthesis_guideline');
SELECT trace_audit('synthesis_samplecomment');
SELECT trace_audit('synthesis_secondshare');
"""

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


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0001_initial"), ("rules", "0002_triggers"), ("trace_site", "0002_triggers")]
    operations = [
        migrations.RunSQL(HELD + SAMPLES + MEMBERS + RULES),
        # nobody searches keys by their beginning, and Django's index for that would be the largest
        migrations.RunSQL("DROP INDEX synthesis_sample_key_57e86aed_like;"),
    ]
