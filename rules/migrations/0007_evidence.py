"""Changes of requests are not emptied either: those of applied requests stay."""

from django.db import migrations

HELD = """
CREATE TRIGGER rules_rulechange_not_truncated BEFORE TRUNCATE ON rules_rulechange
  FOR EACH STATEMENT EXECUTE FUNCTION trace_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("rules", "0006_waits"), ("trace_site", "0009_evidence")]
    operations = [migrations.RunSQL(HELD, "DROP TRIGGER rules_rulechange_not_truncated ON rules_rulechange")]
