"""What a person is told: assignments, rejections, adjudications, failed batches. In the app always, by e-mail if asked.

`tell` writes a notice for each person in the transaction of what happened: what was rolled back is never told.
trace_site.mails sends those that are due by e-mail. No text of a notice says what somebody decided about a sample.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models.functions import Now

from trace_site.lib.errors import TraceError

KINDS = {
    "assignment": "Samples were assigned to you.",
    "rule_rejections": "Reviewers rejected samples of your rule.",
    "adjudication": "Two reviewers disagree; a third is needed.",
    "batch_failed": "A batch failed its acceptance sampling.",
    "comment": "Somebody commented on a sample you decided or mentioned you.",
    "retraining": "A retraining policy started a run, or one of its runs failed.",
    "candidate": "A newly trained model stands beside the champion.",
}
KEPT = timedelta(days=90)
GATHERED = timedelta(minutes=1)  # how long a mail waits for more to say


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
    mail_due_at = models.DateTimeField(null=True, help_text="when it is sent; null: not by e-mail, or ended")
    mail_tries = models.PositiveSmallIntegerField(default=0, db_default=0)
    mailed_at = models.DateTimeField(null=True)
    mail_error = models.CharField(max_length=300, blank=True, help_text="why the last try failed")

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
            models.Index(
                fields=["mail_due_at"], condition=models.Q(mail_due_at__isnull=False), name="notices_to_mail"
            ),
            models.Index(fields=["read_at"], condition=models.Q(read_at__isnull=False), name="notices_read"),
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


@transaction.atomic
def tell(recipients: Iterable[Any], kind: str, text: str, *, link: str, key: str = "") -> None:
    """One notice for each person, users or their ids. With a key, an unread notice of the same key gets the new text
    instead of a second row; it is mailed once.
    """
    people = {getattr(person, "pk", person) for person in recipients}
    text = " ".join(text.split())  # one line: what a person typed must not look like more of a mail
    if not people:
        return
    mailed = _by_mail(people, kind)
    rows = [
        Notice(
            recipient_id=person,
            kind=kind,
            text=text[:300],
            link=link,
            key=key,
            mail_due_at=Now() + GATHERED if person in mailed else None,
        )
        for person in sorted(people)
    ]
    Notice.objects.bulk_create(rows, ignore_conflicts=bool(key))
    if key:
        unread = Notice.objects.filter(recipient__in=people, key=key, read_at=None)
        unread.exclude(text=text[:300], link=link).update(text=text[:300], link=link, at=Now())


def _by_mail(people: set[int], kind: str) -> set[int]:
    """Who of them wants this kind by e-mail, has an address, and works at a site that sends any."""
    if not settings.EMAIL_HOST:
        return set()
    asked = MailChoice.objects.filter(user__in=people, kinds__contains=[kind], user__is_active=True)
    return set(asked.exclude(user__email="").values_list("user", flat=True))


def unread(person: Any) -> models.QuerySet[Notice]:
    return Notice.objects.filter(recipient=person, read_at=None)


def mark_read(notices: models.QuerySet[Notice]) -> int:
    """What is read is not mailed any more; how many were unread."""
    return notices.filter(read_at=None).update(read_at=Now(), mail_due_at=None)


@transaction.atomic
def choose_mail(*, person: Any, kinds: Iterable[str]) -> None:
    """Take these kinds by e-mail from now on. Raises TraceError `bad_input`."""
    chosen = sorted(set(kinds))
    if unknown := set(chosen) - set(KINDS):
        raise TraceError(
            f"there is no kind of notice {min(unknown)!r}.",
            code="bad_input",
            where="kinds",
            hint=f"Kinds: {', '.join(KINDS)}.",
        )
    MailChoice.objects.update_or_create(user=person, defaults={"kinds": chosen})
    Notice.objects.filter(recipient=person).exclude(kind__in=chosen).exclude(mail_due_at=None).update(
        mail_due_at=None
    )


def forget_old() -> int:
    """Delete what was read long ago; returns how many."""
    return Notice.objects.filter(read_at__lt=Now() - KEPT).delete()[0]
