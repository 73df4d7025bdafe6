"""When a row was made or changed is said by the database's clock; every process said it by its own."""

from django.db import migrations, models
from django.db.models.functions import Now

STAMPS = {
    "changerequest": ["updated_at"],
    "rule": ["created_at"],
    "rulechange": ["edited_at"],
    "ruleversion": ["created_at"],
}


class Migration(migrations.Migration):
    dependencies = [("rules", "0007_evidence")]
    operations = [
        migrations.AlterField(model, name, models.DateTimeField(db_default=Now()))
        for model, names in STAMPS.items()
        for name in names
    ]
