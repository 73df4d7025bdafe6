"""The log of what programs asked, and the counter `serving`: it moves with whatever decides which model answers and how
its answers are judged, so that a process knows when what it keeps is old.
"""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


SERVING = """
SELECT trace_audit('evaluation_requestlogpolicy');
SELECT trace_count('training_aliasmove', 'serving');
CREATE TRIGGER training_model_serving_counted AFTER INSERT OR DELETE OR UPDATE OF removed_at, store_key, store_digest
  ON training_model FOR EACH STATEMENT EXECUTE FUNCTION trace_count_serving();
CREATE TRIGGER evaluation_calibration_counted AFTER INSERT OR DELETE OR UPDATE ON evaluation_calibration
  FOR EACH STATEMENT EXECUTE FUNCTION trace_count_serving();
CREATE TRIGGER evaluation_requestlogpolicy_counted AFTER INSERT OR DELETE OR UPDATE ON evaluation_requestlogpolicy
  FOR EACH STATEMENT EXECUTE FUNCTION trace_count_serving();
CREATE TRIGGER catalog_tool_blocked_counted AFTER UPDATE OF blocked_at ON catalog_tool
  FOR EACH STATEMENT EXECUTE FUNCTION trace_count_catalog();
"""
BACK = """
DROP TRIGGER catalog_tool_blocked_counted ON catalog_tool;
DROP FUNCTION trace_count_serving() CASCADE;
DROP FUNCTION trace_audit_of_evaluation_requestlogpolicy() CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("evaluation", "0003_gate"),
        ("catalog", "0002_triggers"),
        ("training", "0002_triggers"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="RequestDay",
            fields=[
                ("day", models.DateField(primary_key=True, serialize=False)),
                ("asked", models.BigIntegerField(default=0)),
                ("kept", models.BigIntegerField(default=0)),
                (
                    "lost",
                    models.BigIntegerField(
                        default=0, help_text="the log was full or away"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RequestLogPolicy",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "share",
                    models.FloatField(default=0.1, help_text="of the requests, drawn by chance: 0 to 1"),
                ),
                (
                    "keeps_texts",
                    models.BooleanField(
                        default=True, help_text="query and trace, with personal data replaced; off: neither"
                    ),
                ),
                ("days", models.PositiveIntegerField(default=30, help_text="how long a request is kept")),
                ("changed_at", models.DateTimeField(auto_now=True)),
                (
                    "changed_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="RetrievalRequest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.UUIDField(help_text="the id that the answer carries", unique=True)),
                ("at", models.DateTimeField()),
                (
                    "token",
                    models.BigIntegerField(
                        help_text="id of the service token; no foreign key: tokens go", null=True
                    ),
                ),
                ("token_name", models.CharField(blank=True, max_length=100)),
                (
                    "caller",
                    models.CharField(
                        blank=True, help_text="keyed hash of the caller that was named", max_length=32
                    ),
                ),
                (
                    "via",
                    models.CharField(
                        choices=[("single", "Single"), ("batch", "Batch"), ("stream", "Stream"), ("report", "Report")], max_length=6
                    ),
                ),
                ("mode", models.CharField(blank=True, max_length=5)),
                ("k", models.PositiveIntegerField(default=0)),
                ("domain", models.CharField(blank=True, max_length=60)),
                (
                    "permissions",
                    models.JSONField(help_text="what counted for the call; null: all", null=True),
                ),
                ("outcome", models.CharField(blank=True, help_text="answered, or the code of the error", max_length=40)),
                ("query", models.TextField(blank=True)),
                (
                    "replaced",
                    models.JSONField(default=list, help_text="kinds of personal data that were replaced"),
                ),
                ("trace", models.TextField(blank=True)),
                ("tools", models.JSONField(default=list, help_text="names in the order of the answer")),
                ("withheld", models.JSONField(default=list, help_text="names")),
                ("cited", models.JSONField(default=list, help_text="[[code, version]]")),
                ("confidence", models.FloatField(null=True)),
                ("fits", models.BooleanField(null=True)),
                ("total_ms", models.FloatField(null=True)),
                ("engine_ms", models.FloatField(null=True)),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[("right", "Right"), ("wrong", "Wrong")],
                        help_text="as the caller reported it",
                        max_length=5,
                    ),
                ),
                (
                    "expected",
                    models.JSONField(default=list, help_text="the tools that would have been right"),
                ),
                ("comment", models.TextField(blank=True)),
                ("reported_at", models.DateTimeField(null=True)),
                (
                    "model",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="training.model",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(fields=["at"], name="request_by_age"),
                    models.Index(fields=["owner"], name="request_by_owner"),
                    models.Index(
                        condition=models.Q(("caller", ""), _negated=True),
                        fields=["caller"],
                        name="request_by_caller",
                    ),
                    models.Index(
                        condition=models.Q(("verdict", ""), _negated=True),
                        fields=["-id"],
                        name="request_reported",
                    ),
                ],
            },
        ),
        migrations.RunSQL(SERVING, BACK),
    ]
