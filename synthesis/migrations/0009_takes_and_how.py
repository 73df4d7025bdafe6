"""Decisions that are there already get the number of their take; approved samples get how they were approved."""

from django.db import migrations

from trace_site.lib.frozen import freeze_sql, unfreeze_sql

TABLE = "synthesis_decision"
TAKES = """
UPDATE synthesis_decision d SET take = n.take FROM (
  SELECT id, count(*) FILTER (WHERE verdict = 'undo') OVER (PARTITION BY sample_id ORDER BY id) AS take
  FROM synthesis_decision
) n WHERE n.id = d.id AND n.take > 0;
"""
HOW = """
UPDATE synthesis_sample s SET approved_how = CASE
  WHEN s.approved_by LIKE 'policy %' THEN 'policy'
  WHEN s.branch = 'imported' AND NOT EXISTS (SELECT 1 FROM synthesis_decision d WHERE d.sample_id = s.id) THEN 'import'
  WHEN (SELECT d.verdict FROM synthesis_decision d WHERE d.sample_id = s.id ORDER BY d.id DESC LIMIT 1) = 'edit'
    THEN 'edited'
  ELSE 'read' END
WHERE s.human = 'approved';
"""


class Migration(migrations.Migration):
    atomic = False  # the updates' deferred checks must be over before a table is altered
    dependencies = [("synthesis", "0008_review_queue")]
    operations = [
        # the table is frozen but for this one statement
        migrations.RunSQL(unfreeze_sql(TABLE), freeze_sql(TABLE)),
        migrations.RunSQL(TAKES, migrations.RunSQL.noop),
        migrations.RunSQL(freeze_sql(TABLE), unfreeze_sql(TABLE)),
        migrations.RunSQL(HOW, migrations.RunSQL.noop),
    ]
