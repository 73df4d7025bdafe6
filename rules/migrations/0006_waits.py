from django.db import migrations, models

COUNTED = """
CREATE TRIGGER rules_rule_waits_counted AFTER UPDATE OF waits ON rules_rule
  FOR EACH STATEMENT EXECUTE FUNCTION trace_count_rules();
"""


class Migration(migrations.Migration):
    dependencies = [("rules", "0005_clauses")]
    operations = [
        migrations.AddField(
            "rule",
            "waits",
            models.BooleanField(
                default=False,
                help_text="its clauses decide only once a model has learned them, not from publication on",
            ),
        ),
        migrations.RunSQL(COUNTED, "DROP TRIGGER rules_rule_waits_counted ON rules_rule"),
    ]
