"""When a row was made or changed is said by the database's clock; every process said it by its own."""

from django.db import migrations, models
from django.db.models.functions import Now

STAMPS = {
    "catalogimport": ["at"],
    "clustering": ["created_at"],
    "labelledquery": ["created_at"],
    "tool": ["created_at", "updated_at"],
    "toolrevision": ["at"],
}


class Migration(migrations.Migration):
    dependencies = [("catalog", "0006_evidence")]
    operations = [
        migrations.AlterField(model, name, models.DateTimeField(db_default=Now()))
        for model, names in STAMPS.items()
        for name in names
    ]
