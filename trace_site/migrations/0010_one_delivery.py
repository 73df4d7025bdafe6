"""Webhooks and mail are channels of one table. What waits to be mailed goes on to wait, what was mailed or given up says so."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

FROM_NOTICES = """
INSERT INTO trace_site_delivery
  (delivery_id, channel, notice_id, event, payload, state, attempt, next_at, log, created_at)
SELECT gen_random_uuid(), 'mail', id, kind, '{}',
  CASE WHEN mailed_at IS NOT NULL THEN 'delivered' WHEN mail_due_at IS NOT NULL THEN 'pending' ELSE 'failed' END,
  mail_tries, coalesce(mail_due_at, mailed_at, at),
  CASE WHEN mail_error = '' THEN '[]' ELSE jsonb_build_array(jsonb_build_object(
    'at', at, 'attempt', mail_tries, 'seconds', 0, 'status', NULL, 'error', mail_error, 'excerpt', '')) END, at
FROM trace_site_notice
WHERE mailed_at IS NOT NULL OR mail_due_at IS NOT NULL OR mail_error <> ''
"""


class Migration(migrations.Migration):
    dependencies = [
        ("trace_site", "0009_evidence"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.RenameModel("WebhookDelivery", "Delivery"),
        migrations.RenameIndex("delivery", new_name="delivery_due", old_name="webhook_due"),
        migrations.RenameIndex(
            "delivery", new_name="deliveries_of_webhook", old_name="trace_site__webhook_0423be_idx"
        ),
        migrations.AddField(
            "delivery", "channel", models.CharField(db_default="webhook", max_length=20)
        ),
        migrations.AddField(
            "delivery",
            "notice",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="deliveries",
                to="trace_site.notice",
            ),
        ),
        migrations.AlterField(
            "delivery",
            "webhook",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="deliveries",
                to="trace_site.webhook",
            ),
        ),
        migrations.AlterField("delivery", "payload", models.JSONField(default=dict)),
        migrations.RunSQL(FROM_NOTICES, migrations.RunSQL.noop),
        # the rows' foreign keys are looked at before their table changes again
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED", migrations.RunSQL.noop),
        migrations.RemoveIndex("notice", "notices_to_mail"),
        migrations.RemoveField("notice", "mail_due_at"),
        migrations.RemoveField("notice", "mail_tries"),
        migrations.RemoveField("notice", "mailed_at"),
        migrations.RemoveField("notice", "mail_error"),
        migrations.RenameModel("MailChoice", "NoticeChoice"),
        migrations.AddField("noticechoice", "channel", models.CharField(db_default="mail", max_length=20)),
        migrations.AlterField(
            "noticechoice",
            "user",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="notice_choices",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddConstraint(
            "noticechoice",
            models.UniqueConstraint(fields=("user", "channel"), name="one_choice_a_channel"),
        ),
    ]
