"""Both audit tables say through which token a program acted and who made it, as the connection was told."""

from django.db import migrations, models
from django.db.models import Func, Value
from django.db.models.functions import Cast, NullIf

SAID = Func(Value("trace.token"), Value(True), function="current_setting", output_field=models.TextField())
THROUGH = Cast(NullIf(SAID, Value("")), models.JSONField())


class Migration(migrations.Migration):
    dependencies = [("trace_site", "0007_hash_session_keys")]
    operations = [
        migrations.AddField("auditchange", "token", models.JSONField(null=True, db_default=THROUGH)),
        migrations.AddField("auditentry", "token", models.JSONField(null=True, db_default=THROUGH)),
    ]
