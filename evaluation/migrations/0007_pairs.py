"""A definition of groups names the readings its rules were counted by, and coverage is stamped when one is made."""

from django.db import migrations, models

STAMPED = """
CREATE TRIGGER rules_rulereading_coverage_rules AFTER INSERT OR DELETE OR UPDATE ON rules_rulereading
  FOR EACH STATEMENT EXECUTE FUNCTION evaluation_coverage_touch('rules');
"""
LEFT = "DROP TRIGGER rules_rulereading_coverage_rules ON rules_rulereading"


class Migration(migrations.Migration):

    dependencies = [
        ('evaluation', '0006_evidence'),
        ('rules', '0003_readings'),
    ]

    operations = [
        migrations.AddField(
            model_name='groupdefinition',
            name='readings',
            field=models.JSONField(default=list, help_text='[ids of the readings of those versions]; none: counted by whole sets, before readings were kept'),
        ),
        migrations.AlterField(
            model_name='groupdefinition',
            name='hash',
            field=models.CharField(help_text='of clusterings, dismissals, rules, readings and words', max_length=64),
        ),
        migrations.RunSQL(STAMPED, LEFT),
    ]
