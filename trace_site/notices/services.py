"""What a person is told: assignments, rejections, adjudications, failed batches. In the app always, by e-mail if asked.

`tell` writes a notice for each person in the transaction of what happened: what was rolled back is never told.
`send_due` sends those that are due by e-mail. No text of a notice says what somebody decided about a sample.
"""

import logging
import smtplib
import threading
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import models, transaction
from django.db.models import F
from django.db.models.functions import Now

from trace_site.impact import declared_by_apps
from trace_site.lib.errors import TraceError

KINDS: dict[str, str] = declared_by_apps("notices")
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
    mailed: set[int] = set()
    if settings.EMAIL_HOST:
        asked = MailChoice.objects.filter(user__in=people, kinds__contains=[kind], user__is_active=True)
        mailed = set(asked.exclude(user__email="").values_list("user", flat=True))
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
        wrong, hint = f"there is no kind of notice {min(unknown)!r}.", f"Kinds: {', '.join(KINDS)}."
        raise TraceError(wrong, code="bad_input", where="kinds", hint=hint)
    MailChoice.objects.update_or_create(user=person, defaults={"kinds": chosen})
    unwanted = Notice.objects.filter(recipient=person).exclude(kind__in=chosen)
    unwanted.exclude(mail_due_at=None).update(mail_due_at=None)


def forget_old() -> int:
    """Delete what was read long ago; returns how many."""
    return Notice.objects.filter(read_at__lt=Now() - KEPT).delete()[0]


# Sends notices by e-mail: one plain-text mail a person, with everything that waits for them.
#
# A claim moves `mail_due_at` past the deadline, so that a sender that dies leaves the notices due again: a mail may
# come twice, never not at all. The mail server is talked to in a thread of its own with a deadline: one that refuses,
# hangs or drips costs a sweep SECONDS at most, and each notice is tried TRIES times, less and less often.

log = logging.getLogger(__name__)
SECONDS = 15.0
LEASE = timedelta(minutes=2)
BACKOFF = [timedelta(minutes=minutes) for minutes in (2, 10, 60, 6 * 60)]
TRIES = len(BACKOFF) + 1
PEOPLE = 20  # a sweep
LINES = 30  # a mail
talking = threading.Lock()  # held while a mail server keeps a thread

Mails = dict[int, list[Notice]]


def send_due() -> int:
    """Send what is due; returns how many people got a mail. Does nothing on a site without a mail server."""
    if not settings.EMAIL_HOST or talking.locked() or not (mails := _claim()):
        return 0
    errors = _deliver(mails)
    for person, notices in mails.items():
        _settle([notice.pk for notice in notices], errors[person])
    return sum(not error for error in errors.values())


@transaction.atomic
def _claim() -> Mails:
    """What is due, and what else waits for the same people: {recipient: their notices}."""
    due = Notice.objects.filter(mail_due_at__lte=Now()).order_by("mail_due_at")
    first = due.select_for_update(skip_locked=True, of=("self",))[: PEOPLE * LINES]
    people = list(dict.fromkeys(notice.recipient_id for notice in first))[:PEOPLE]
    waiting = Notice.objects.filter(recipient__in=people, mail_due_at__isnull=False)
    waiting = waiting.filter(mail_tries=0) | waiting.filter(mail_due_at__lte=Now())
    rows = list(
        waiting.select_for_update(skip_locked=True, of=("self",)).select_related("recipient").order_by("id")
    )
    claimed = Notice.objects.filter(pk__in=[row.pk for row in rows])
    claimed.update(mail_due_at=Now() + LEASE, mail_tries=F("mail_tries") + 1)
    mails: Mails = defaultdict(list)
    for row in rows:
        mails[row.recipient_id].append(row)
    return mails


def _deliver(mails: Mails) -> dict[int, str]:
    """{recipient: why not, empty when it was sent}; takes SECONDS at most."""
    errors = dict.fromkeys(mails, f"The mail server did not answer within {SECONDS:.0f} seconds.")
    told: dict[int, str] = {}
    thread = threading.Thread(target=_talk, args=(mails, told), daemon=True, name="mail")
    thread.start()
    thread.join(SECONDS)
    return {**errors, **dict(told)}


def _talk(mails: Mails, told: dict[int, str]) -> None:
    """One connection for all; once it is lost, nobody else waits for it. Touches no database."""
    with talking:
        backend = get_connection(fail_silently=False)
        try:
            backend.open()
            for person, notices in mails.items():
                message = message_of(notices)
                message.connection = backend
                try:
                    message.send()
                    told[person] = ""
                except smtplib.SMTPServerDisconnected:
                    raise
                except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused, ValueError) as error:
                    told[person] = _reason(error)  # ValueError: an address no mail can be sent to
        except (OSError, smtplib.SMTPException) as error:
            told.update({person: _reason(error) for person in mails if person not in told})
        finally:
            with suppress(OSError, smtplib.SMTPException):  # the server may have hung up first
                backend.close()


def _reason(error: Exception) -> str:
    said = str(error).replace("\n", " ") or type(error).__name__
    return f"The mail server refused or was not reached: {said}"[:300]


def message_of(notices: list[Notice]) -> EmailMessage:
    """The notices of one person as a plain-text mail with absolute links."""
    person, newest = notices[0].recipient, notices[-1]
    site = settings.SITE_URL
    count = len(notices)
    subject = newest.text if count == 1 else f"{count} notices"
    lines = [f"- {notice.text}\n  {site}{notice.link}" for notice in reversed(notices)][:LINES]
    if count > LINES:
        lines.append(f"- and {count - LINES} more: {site}/notices/")
    footer = f"You chose these mails on {site}/account/, where you can end them."
    body = f"{person.get_full_name() or person.username},\n\n" + "\n\n".join(lines) + f"\n\n{footer}\n"
    # the same on a second try, so that a mail that comes twice is known as one
    name = f"<notice-{newest.pk}-{count}@trace-rule-studio>"
    return EmailMessage(
        f"[TRACE Rule Studio] {' '.join(subject.split())}"[:200],
        body,
        to=[person.email],
        headers={"Message-ID": name, "Auto-Submitted": "auto-generated"},
    )


@transaction.atomic
def _settle(notices: list[int], error: str) -> None:
    """Ended when sent, read meanwhile or tried often enough; else planned again."""
    rows = Notice.objects.filter(pk__in=notices)
    if not error:
        rows.update(mailed_at=Now(), mail_due_at=None, mail_error="")
        return
    log.warning("a mail was not sent: %s", error)
    for tries, pause in enumerate(BACKOFF, start=1):
        again = rows.filter(mail_tries=tries, mail_due_at__isnull=False)
        again.update(mail_due_at=Now() + pause, mail_error=error)
    rows.filter(mail_tries__gte=TRIES).update(mail_due_at=None, mail_error=error)
