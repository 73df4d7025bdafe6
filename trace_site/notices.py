"""What a person is told: assignments, rejections, adjudications, failed batches. In the app always, by e-mail if asked.

`tell` writes a notice for each person in the transaction of what happened: what was rolled back is never told.
"""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

KINDS = {
    "assignment": "Samples were assigned to you.",
    "rule_rejections": "Reviewers rejected samples of your rule.",
    "adjudication": "Two reviewers disagree; a third is needed.",
    "batch_failed": "A batch failed its acceptance sampling.",
    "comment": "Somebody commented on a sample you decided or mentioned you.",
}


class Notice(models.Model):
    recipient = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notices")
    kind = models.CharField(max_length=30, choices=list(KINDS.items()))
    text = models.CharField(max_length=300)
    link = models.CharField(max_length=300, help_text="path on this site")
    key = models.CharField(
        max_length=100, blank=True, help_text="an unread notice with the same key is told anew, not twice"
    )
    at = models.DateTimeField(db_default=Now())
    read_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)
    mail_error = models.CharField(max_length=300, blank=True)

    class Meta:
        app_label = "trace_site"
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["recipient", "key"],
                condition=models.Q(read_at__isnull=True) & ~models.Q(key=""),
                name="one_unread_notice_a_key",
            )
        ]
        indexes = [
            models.Index(fields=["recipient", "-id"], name="notices_of_recipient"),
            models.Index(
                fields=["recipient"], condition=models.Q(read_at__isnull=True), name="notices_unread"
            ),
            models.Index(fields=["id"], condition=models.Q(mailed_at__isnull=True), name="notices_unmailed"),
        ]

    def __str__(self) -> str:
        return self.text


class MailChoice(models.Model):
    """Kinds of notices a person wants by e-mail too; none unless chosen."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mail_choice"
    )
    kinds = models.JSONField(default=list)

    class Meta:
        app_label = "trace_site"

    def __str__(self) -> str:
        return f"{self.user_id}: {', '.join(self.kinds)}"


def tell(recipients: Iterable[Any], kind: str, text: str, *, link: str, key: str = "") -> None:
    """One notice each. With a key, an unread notice of the same key gets the new text instead of a second row."""
    rows = [Notice(recipient=person, kind=kind, text=text[:300], link=link, key=key) for person in recipients]
    if not key:
        Notice.objects.bulk_create(rows)
        return
    for row in rows:
        unread = Notice.objects.filter(recipient=row.recipient, key=key, read_at=None)
        if not unread.update(text=row.text, link=link, at=Now()):
            Notice.objects.bulk_create([row], ignore_conflicts=True)
