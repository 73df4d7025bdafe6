"""A token says which permission targets it holds. Those made before go on holding all, as they did; new ones choose."""

from typing import Any

import django.contrib.postgres.fields
from django.db import migrations, models


def keep_what_they_could(apps: Any, schema_editor: Any) -> None:
    apps.get_model("trace_site", "ApiToken").objects.update(holds_all=True)


class Migration(migrations.Migration):
    dependencies = [("trace_site", "0003_loop")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="holds_all",
            field=models.BooleanField(
                db_default=False, default=False, help_text="every permission target, those of later tools too"
            ),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="permissions",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=300),
                default=list,
                help_text="the targets, unless all",
                size=None,
            ),
        ),
        migrations.RunPython(keep_what_they_could, migrations.RunPython.noop, elidable=True),
    ]
