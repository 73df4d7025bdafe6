"""What waits for review follows from samples and rules: triggers open and withdraw the queue's items, whoever writes.

A sample waits when the machine is done with it, no newer one stands in its slot and its rule version is the published
one; `human` says for which reading. The same in Python: `synthesis.samples.standing`, and a test holds the two together.

Locks are taken in one order, as in `synthesis.review.decisions`: rule, then items, the newest sample and highest round first. A
sample that becomes ready or is decided holds its rule, so that it is seen by whoever publishes the rule, or sees that.

What an ended run planned and did not write replaces nothing. Nothing is told when a job ends, so that the items of such
samples follow with the next sweep of `synthesis.review.reconcile`.
"""

from django.db import migrations

SYNC = """
CREATE FUNCTION synthesis_review_sync(ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM synthesis_reviewitem WHERE sample_id = ANY(ids)
    ORDER BY sample_id DESC, round DESC FOR NO KEY UPDATE;
  WITH wanted AS (
    SELECT s.id, s.domain_id, s.branch, s.style, s.tier, s.rule_version_id, v.rule_id,
      CASE s.human WHEN 'pending' THEN 1 WHEN 'second' THEN 2 ELSE 3 END AS round
    FROM synthesis_sample s LEFT JOIN rules_ruleversion v ON v.id = s.rule_version_id
    WHERE s.id = ANY(ids) AND s.machine = 'ready' AND s.human IN ('pending', 'second', 'disputed')
      AND (s.rule_version_id IS NULL
           OR EXISTS (SELECT 1 FROM rules_rule r WHERE r.published_id = s.rule_version_id))
      AND NOT (s.slot <> '' AND EXISTS (
        SELECT 1 FROM synthesis_sample n
        WHERE n.branch = s.branch AND n.slot = s.slot AND n.id > s.id
          AND n.machine <> 'dropped' AND n.human <> 'rejected'
          AND NOT (n.machine = 'pending' AND EXISTS (
            SELECT 1 FROM synthesis_synthesisrun u JOIN trace_site_job j ON j.id = u.job_id
            WHERE u.id = n.run_id AND j.state IN ('done', 'failed', 'cancelled', 'quarantined')))))
  ), withdrawn AS (
    UPDATE synthesis_reviewitem i
    SET state = 'withdrawn', claimed_by_id = NULL, claimed_until = NULL, claim = NULL
    WHERE i.sample_id = ANY(ids) AND NOT i.calibration AND i.state IN ('held', 'open', 'claimed')
      AND NOT EXISTS (SELECT 1 FROM wanted w WHERE w.id = i.sample_id AND w.round = i.round)
  )
  INSERT INTO synthesis_reviewitem AS i
    (sample_id, round, rank, domain_id, branch, style, tier, rule_id, rule_version_id)
  SELECT id, round, CASE round WHEN 3 THEN 0 ELSE 1 END, domain_id, branch, style, tier, rule_id, rule_version_id
  FROM wanted ORDER BY id DESC
  ON CONFLICT (sample_id, round) DO UPDATE
    SET state = 'open', calibration = false, decided_by_id = NULL, decided_at = NULL,
        claim = NULL, claimed_by_id = NULL, claimed_until = NULL,
        takes = i.takes + (i.state = 'decided')::int
    WHERE i.state IN ('withdrawn', 'decided') OR i.calibration;
END $$;
"""

SAMPLES = """
CREATE FUNCTION synthesis_sample_waits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  versions bigint[];
BEGIN
  IF TG_OP = 'INSERT' THEN
    SELECT array_agg(rule_version_id) INTO versions FROM new_rows WHERE machine = 'ready';
    SELECT array_agg(id) INTO ids FROM (
      SELECT n.id FROM new_rows n WHERE n.machine = 'ready'
      UNION SELECT o.id FROM new_rows n JOIN synthesis_sample o ON o.branch = n.branch AND o.slot = n.slot
        WHERE n.slot <> '' AND o.id < n.id AND o.machine = 'ready'
    ) touched;
  ELSIF TG_OP = 'UPDATE' THEN
    -- EXCEPT, for a join would keep the plan of the session's first row when thousands come, and compare each with each
    SELECT array_agg(DISTINCT rule_version_id) INTO versions FROM (
      SELECT id, rule_version_id, machine, human FROM new_rows WHERE machine = 'ready'
      EXCEPT SELECT id, rule_version_id, machine, human FROM old_rows
    ) decided;
    SELECT array_agg(id) INTO ids FROM (
      WITH changed AS (
        (SELECT id, branch, slot, machine, human FROM new_rows EXCEPT SELECT id, branch, slot, machine, human FROM old_rows)
        UNION ALL (SELECT id, branch, slot, machine, human FROM old_rows EXCEPT SELECT id, branch, slot, machine, human FROM new_rows)
      )
      SELECT c.id FROM changed c
      UNION SELECT o.id FROM changed c JOIN synthesis_sample o ON o.branch = c.branch AND o.slot = c.slot
        WHERE c.slot <> '' AND o.id < c.id AND o.machine = 'ready'
    ) touched;
  ELSE
    SELECT array_agg(o.id) INTO ids FROM old_rows p
      JOIN synthesis_sample o ON o.branch = p.branch AND o.slot = p.slot
      WHERE p.slot <> '' AND o.machine = 'ready';
  END IF;
  IF ids IS NOT NULL THEN
    PERFORM 1 FROM rules_rule WHERE id IN (SELECT rule_id FROM rules_ruleversion WHERE id = ANY(versions))
      ORDER BY id FOR SHARE;
    PERFORM synthesis_review_sync(ids);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER synthesis_sample_waits_new AFTER INSERT ON synthesis_sample
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION synthesis_sample_waits();
CREATE TRIGGER synthesis_sample_waits_changed AFTER UPDATE ON synthesis_sample
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION synthesis_sample_waits();
CREATE TRIGGER synthesis_sample_waits_gone AFTER DELETE ON synthesis_sample
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION synthesis_sample_waits();
"""

RULES = """
CREATE FUNCTION synthesis_rule_waits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE ids bigint[];
BEGIN
  SELECT array_agg(s.id) INTO ids
  FROM new_rows n JOIN old_rows p ON p.id = n.id
    JOIN synthesis_sample s ON s.rule_version_id IN (n.published_id, p.published_id)
  WHERE n.published_id IS DISTINCT FROM p.published_id
    AND s.machine = 'ready' AND s.human IN ('pending', 'second', 'disputed');
  IF ids IS NOT NULL THEN PERFORM synthesis_review_sync(ids); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER rules_rule_waits AFTER UPDATE ON rules_rule
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION synthesis_rule_waits();
"""

FIRST_BY = """
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


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0002_triggers")]
    operations = [migrations.RunSQL(SYNC + SAMPLES + RULES + FIRST_BY)]
