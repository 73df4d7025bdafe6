"""When a row was made or changed is said by the database's clock; every process said it by its own."""

from django.db import migrations, models
from django.db.models.functions import Now

STAMPS = {
    "benchmark": ["created_at"],
    "calibration": ["created_at"],
    "comparison": ["created_at"],
    "evaluation": ["created_at"],
    "gatereport": ["created_at"],
    "groupdefinition": ["made_at"],
    "keptoutanswer": ["at"],
    "requestlogpolicy": ["changed_at"],
    "ruletestresult": ["created_at"],
}


class Migration(migrations.Migration):
    dependencies = [("evaluation", "0012_frozen")]
    operations = [
        migrations.AlterField(model, name, models.DateTimeField(db_default=Now()))
        for model, names in STAMPS.items()
        for name in names
    ]
