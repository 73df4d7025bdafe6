"""Sends notices by e-mail: one plain-text mail a person, with everything that waits for them.

A claim moves `mail_due_at` past the deadline, so that a sender that dies leaves the notices due again: a mail may come
twice, never not at all. The mail server is talked to in a thread of its own with a deadline: one that refuses, hangs
or drips costs a sweep SECONDS at most, and each notice is tried TRIES times, less and less often.
"""

import logging
import smtplib
import threading
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from trace_site.notices import Notice

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
    _all(rows).update(mail_due_at=Now() + LEASE, mail_tries=F("mail_tries") + 1)
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
                told[person] = _sent(message_of(notices), backend)
        except (OSError, smtplib.SMTPException) as error:
            told.update({person: _reason(error) for person in mails if person not in told})
        finally:
            _close(backend)


def _sent(message: EmailMessage, backend: Any) -> str:
    """Why this mail was refused, empty when it was taken. Raises what ends the whole connection."""
    message.connection = backend
    try:
        message.send()
    except smtplib.SMTPServerDisconnected:
        raise
    except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused, ValueError) as error:
        return _reason(error)  # ValueError: an address no mail can be sent to
    return ""


def _close(backend: Any) -> None:
    try:
        backend.close()
    except (OSError, smtplib.SMTPException):
        log.debug("the mail server hung up first")


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


def _all(rows: Iterable[Notice]) -> QuerySet[Notice]:
    return Notice.objects.filter(pk__in=[row.pk for row in rows])
