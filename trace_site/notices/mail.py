"""The channel `mail`: one plain-text mail a person, with everything that waits for them."""

import smtplib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.mail import EmailMessage

from trace_site.deliveries import Delivery, Sent

if TYPE_CHECKING:
    from trace_site.notices.services import Notice

LINES = 30  # a mail


def send(deliveries: Sequence[Delivery], at: datetime) -> Sent:
    try:
        if message_of([row.notice for row in deliveries if row.notice]).send():
            return Sent()
    except (OSError, smtplib.SMTPException, ValueError) as error:  # ValueError: no mail can go to the address
        reason = str(error).replace("\n", " ") or type(error).__name__
        return Sent(f"The mail server refused or was not reached: {reason}"[:300])
    return Sent("The account has no e-mail address.")


def message_of(notices: "list[Notice]") -> EmailMessage:
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
