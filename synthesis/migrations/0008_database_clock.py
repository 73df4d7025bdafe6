"""When a row was made or changed is said by the database's clock; every process said it by its own."""

from django.db import migrations, models
from django.db.models.functions import Now

STAMPS = {
    "assignment": ["at"],
    "attempt": ["at"],
    "batch": ["created_at"],
    "decision": ["at"],
    "guideline": ["at"],
    "loopsettings": ["changed_at"],
    "modelreply": ["at"],
    "promptversion": ["first_used"],
    "regeneration": ["at"],
    "sample": ["created_at", "updated_at"],
    "samplecomment": ["at"],
    "savedview": ["at"],
    "secondshare": ["set_at"],
    "snapshot": ["created_at"],
    "synthesisrun": ["created_at"],
}


class Migration(migrations.Migration):
    dependencies = [("synthesis", "0007_evidence")]
    operations = [
        migrations.AlterField(model, name, models.DateTimeField(db_default=Now()))
        for model, names in STAMPS.items()
        for name in names
    ]
