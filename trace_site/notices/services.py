"""What a person is told: assignments, rejections, adjudications, failed batches. In the app always, elsewhere if asked.

`tell` writes a notice for each person in the transaction of what happened, and a delivery for each channel that they
chose: what was rolled back is never told. No text of a notice says what somebody decided about a sample.
"""

import smtplib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import models, transaction
from django.db.models.functions import Now

from trace_site.deliveries import Delivery, Sent
from trace_site.impact import declared_by_apps
from trace_site.lib.errors import TraceError

KINDS: dict[str, str] = declared_by_apps("notices")
KEPT = timedelta(days=90)
GATHERED = timedelta(minutes=1)  # how long a message waits for more to say
MAIL = "mail"
LINES = 30  # a mail


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
            models.Index(fields=["read_at"], condition=models.Q(read_at__isnull=False), name="notices_read"),
        ]


class NoticeChoice(models.Model):
    """Kinds of notices a person wants over a channel too; none unless chosen."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notice_choices"
    )
    channel = models.CharField(max_length=20, db_default=MAIL)
    kinds = models.JSONField(default=list)

    class Meta:
        app_label = "trace_site"
        constraints = [models.UniqueConstraint(fields=["user", "channel"], name="one_choice_a_channel")]


def channels() -> dict[str, str]:
    """{channel that people may choose on this site: what it is called}"""
    return {
        name: called for name, (_, called, needs) in settings.CHANNELS.items() if getattr(settings, needs, "")
    }


@transaction.atomic
def tell(recipients: Iterable[Any], kind: str, text: str, *, link: str, key: str = "") -> None:
    """One notice for each person, users or their ids. With a key, an unread notice of the same key gets the new text
    instead of a second row; it is sent once.
    """
    people = {getattr(person, "pk", person) for person in recipients}
    text = " ".join(text.split())[:300]  # one line: what a person typed must not look like more of a mail
    if not people:
        return
    chosen: list[tuple[int, str]] = []
    if open_here := channels():
        asked = NoticeChoice.objects.filter(
            channel__in=open_here, kinds__contains=[kind], user__is_active=True
        )
        chosen = list(asked.filter(user__in=people).values_list("user", "channel"))
    rows = [Notice(recipient_id=who, kind=kind, text=text, link=link, key=key) for who in sorted(people)]
    made = Notice.objects.bulk_create(rows, ignore_conflicts=bool(key))
    if key:
        known = Notice.objects.filter(recipient__in=people, key=key, read_at=None)
        known.exclude(text=text, link=link).update(text=text, link=link, at=Now())
        made = list(known.filter(deliveries=None)) if chosen else []
    notices = {notice.recipient_id: notice for notice in made}
    Delivery.objects.bulk_create(
        Delivery(channel=channel, notice=notices[who], event=kind, next_at=Now() + GATHERED)
        for who, channel in chosen
        if who in notices
    )


def unread(person: Any) -> models.QuerySet[Notice]:
    return Notice.objects.filter(recipient=person, read_at=None)


def mark_read(notices: models.QuerySet[Notice]) -> int:
    """What is read is not sent any more; how many were unread."""
    fresh = list(notices.filter(read_at=None).values_list("pk", flat=True))
    if fresh:
        Delivery.objects.filter(notice__in=fresh, state=Delivery.State.PENDING).delete()
        Notice.objects.filter(pk__in=fresh).update(read_at=Now())
    return len(fresh)


@transaction.atomic
def choose(*, person: Any, kinds: Iterable[str], channel: str = MAIL) -> None:
    """Take these kinds over the channel from now on. Raises TraceError `bad_input`."""
    chosen = sorted(set(kinds))
    offered = [name for name, (_, called, _) in settings.CHANNELS.items() if called]
    for where, given, known in (("kinds", chosen, KINDS), ("channel", [channel], offered)):
        if unknown := set(given) - set(known):
            wrong = f"there is no {where.removesuffix('s')} {min(unknown)!r}."
            hint = f"Known: {', '.join(known)}."
            raise TraceError(wrong, code="bad_input", where=where, hint=hint)
    NoticeChoice.objects.update_or_create(user=person, channel=channel, defaults={"kinds": chosen})
    waiting = Delivery.objects.filter(notice__recipient=person, channel=channel, state=Delivery.State.PENDING)
    waiting.exclude(event__in=chosen).delete()


def expired() -> models.QuerySet[Notice]:
    """What was read long ago."""
    return Notice.objects.filter(read_at__lt=Now() - KEPT)


# The channel `mail`: one plain-text mail a person, with everything that waits for them.


def send_mail(deliveries: Sequence[Delivery], at: datetime) -> Sent:
    try:
        if message_of([row.notice for row in deliveries if row.notice]).send():
            return Sent()
    except (OSError, smtplib.SMTPException, ValueError) as error:  # ValueError: no mail can go to the address
        reason = str(error).replace("\n", " ") or type(error).__name__
        return Sent(f"The mail server refused or was not reached: {reason}"[:300])
    return Sent("The account has no e-mail address.")


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
