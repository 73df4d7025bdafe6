from django.db import migrations, models

COUNTED = """
CREATE TRIGGER synthesis_loopsettings_answer_counted AFTER INSERT OR UPDATE OF answer ON synthesis_loopsettings
  FOR EACH STATEMENT EXECUTE FUNCTION trace_count_rules();
"""


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0005_loop"), ("rules", "0006_waits")]
    operations = [
        migrations.AddField(
            "loopsettings",
            "answer",
            models.BooleanField(
                default=True,
                help_text="the clauses of a published rule decide before a model has learned them",
            ),
        ),
        migrations.RunSQL(
            COUNTED, "DROP TRIGGER synthesis_loopsettings_answer_counted ON synthesis_loopsettings"
        ),
    ]
