"""What goes out over a channel: at least once, each receiver apart, less and less often, and given up in the end.

A channel is one function, named in settings.CHANNELS. It gets what is due for one receiver, a webhook or a person, and
says how that was received; it runs in a thread of its own and touches no database. A claim moves `next_at` past the
deadline, so that a sender that dies leaves the delivery due again, with the same id.
"""

import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple
from weakref import WeakSet

from django.conf import settings
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from trace_site.database import database_now
from trace_site.lib.errors import TraceError

log = logging.getLogger(__name__)
SECONDS = 15.0  # for all that a claim sends
LEASE = timedelta(seconds=60)
BACKOFF = [timedelta(seconds=seconds) for seconds in (30, 120, 600, 3600, 6 * 3600)]
KEPT = timedelta(days=30)
AT_ONCE = 8
BUDGET = 5.0  # seconds after which a sweep claims nothing more
PING = "ping"  # a test, which is never repeated
left: WeakSet[threading.Thread] = WeakSet()  # of channels, at work beyond their deadline


class Sent(NamedTuple):
    """How a receiver took it. `error`: why not."""

    error: str = ""
    status: int | None = None
    excerpt: str = ""


class Delivery(models.Model):
    """One event for one webhook, or one notice for one person, with every attempt. `next_at` is also the lease of the
    attempt that runs."""

    class State(models.TextChoices):
        PENDING = "pending"
        DELIVERED = "delivered"
        FAILED = "failed"

    delivery_id = models.UUIDField(default=uuid.uuid4, unique=True, help_text="the same on every retry")
    channel = models.CharField(max_length=20, db_default="webhook")
    webhook = models.ForeignKey(
        "trace_site.Webhook", null=True, on_delete=models.CASCADE, related_name="deliveries"
    )
    notice = models.ForeignKey(
        "trace_site.Notice", null=True, on_delete=models.CASCADE, related_name="deliveries"
    )
    event = models.CharField(max_length=60)
    payload = models.JSONField(default=dict)
    state = models.CharField(max_length=9, choices=State, default=State.PENDING)
    attempt = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(db_default=Now())
    status = models.PositiveIntegerField(null=True, help_text="HTTP status of the last answer")
    log = models.JSONField(default=list, help_text="[{at, seconds, status, error, excerpt}], one per attempt")
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        app_label = "trace_site"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(state="pending"), name="delivery_due"),
            models.Index(fields=["webhook", "-id"], name="deliveries_of_webhook"),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook_id or self.channel}"

    @property
    def channel_name(self) -> str:
        return str(settings.CHANNELS[self.channel][1])

    @property
    def last_error(self) -> str:
        return str(self.log[-1]["error"]) if self.log else ""


def deliver_due() -> int:
    """Send what is due; returns how many attempts were made."""
    began, made = time.monotonic(), 0
    while time.monotonic() - began < BUDGET and (claimed := _claim()):
        _attempt(claimed)
        made += len(claimed)
    return made


def deliver_now(delivery: Delivery) -> Delivery:
    """One attempt at once, for the test button and for `send again`; its result is on the row."""
    rows = Delivery.objects.filter(pk=delivery.pk)
    if not rows.update(state=Delivery.State.PENDING, attempt=F("attempt") + 1, next_at=Now() + LEASE):
        raise TraceError("this delivery is gone.", code="not_found")
    _attempt(rows.select_related("webhook", "notice__recipient"))
    return rows.select_related("webhook").get()


@transaction.atomic
def _claim() -> list[Delivery]:
    """What is due, and what else waits for the same people; nothing of a channel whose last attempts still hang."""
    hung = [thread.name for thread in threading.enumerate() if thread in left]
    pending = Delivery.objects.filter(state=Delivery.State.PENDING).exclude(webhook__active=False)
    free = pending.exclude(channel__in=hung).select_related("webhook", "notice__recipient")
    free = free.select_for_update(skip_locked=True, of=("self",))
    claimed = {row.pk: row for row in free.filter(next_at__lte=Now()).order_by("next_at")[:AT_ONCE]}
    if people := {row.notice.recipient_id for row in claimed.values() if row.notice}:
        waiting = free.filter(Q(next_at__lte=Now()) | Q(attempt=0), notice__recipient__in=people)
        claimed |= {row.pk: row for row in waiting}
    Delivery.objects.filter(pk__in=claimed).update(next_at=Now() + LEASE, attempt=F("attempt") + 1)
    for row in claimed.values():
        row.attempt += 1
    return sorted(claimed.values(), key=lambda row: row.pk)


def _attempt(claimed: Iterable[Delivery]) -> None:
    """Each receiver in a thread of its own; one that takes longer than SECONDS is waited for no more."""
    now, began = database_now(), time.monotonic()
    of_receivers: dict[tuple[str, Any], list[Delivery]] = defaultdict(list)
    for row in claimed:
        of_receivers[row.channel, row.notice.recipient_id if row.notice else f"one {row.pk}"].append(row)
    said: dict[tuple[str, Any], tuple[Sent, float]] = {}

    def work(key: tuple[str, Any]) -> None:
        try:
            sent = import_string(settings.CHANNELS[key[0]][0])(of_receivers[key], now)
        except TraceError as error:
            sent = Sent(error.message)
        except Exception:
            log.exception("the channel %s failed", key[0])
            sent = Sent("This site failed to send it; its log says why.")
        said[key] = sent, time.monotonic() - began

    threads = [threading.Thread(target=work, args=(key,), name=key[0], daemon=True) for key in of_receivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, began + SECONDS - time.monotonic()))
    left.update(thread for thread in threads if thread.is_alive())
    silent = Sent(f"There was no answer within {SECONDS:g} s."), SECONDS
    for key, rows in of_receivers.items():
        sent, seconds = said.get(key, silent)
        for row in rows:
            entry = {"at": now.isoformat(timespec="seconds"), "attempt": row.attempt}
            _settle(row, {**entry, "seconds": round(seconds, 3), **sent._asdict()})


@transaction.atomic
def _settle(claimed: Delivery, entry: dict[str, Any]) -> None:
    """Keep the attempt and plan the next; a sender that lost its lease meanwhile changes nothing."""
    rows = Delivery.objects.select_for_update(of=("self",)).select_related("webhook")
    row = rows.filter(pk=claimed.pk, attempt=claimed.attempt).first()
    if row is None:
        return
    row.log, row.status = [*row.log, entry], entry["status"]
    if not entry["error"]:
        row.state = Delivery.State.DELIVERED
    elif row.event == PING or row.attempt > len(BACKOFF):
        row.state = Delivery.State.FAILED
    else:
        row.next_at = Now() + BACKOFF[row.attempt - 1]
    row.save(update_fields=["log", "status", "state", "next_at"])
    if entry["error"]:
        log.warning("%s was not received: %s", row, entry["error"])
    if row.webhook:
        row.webhook.tried(entry["error"])


def forget_old() -> int:
    """Delete deliveries to webhooks that ended long ago; returns how many. Those of notices go with them."""
    old = Delivery.objects.filter(created_at__lt=Now() - KEPT, notice=None)
    return old.exclude(state=Delivery.State.PENDING).delete()[0]
