"""When a row was made or changed is said by the database's clock; every process said it by its own."""

from django.db import migrations, models
from django.db.models.functions import Now

STAMPS = {
    "aliasmove": ["at"],
    "grid": ["created_at"],
    "model": ["created_at"],
    "retraining": ["at"],
    "retrainpolicy": ["changed_at"],
    "run": ["created_at"],
    "trainedstage": ["created_at"],
}


class Migration(migrations.Migration):
    dependencies = [("training", "0005_no_continued_runs")]
    operations = [
        migrations.AlterField(model, name, models.DateTimeField(db_default=Now()))
        for model, names in STAMPS.items()
        for name in names
    ]
