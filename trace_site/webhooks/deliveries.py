"""Sends what webhooks wait for: at least once, signed, never longer than ten seconds, less and less often.

A claim moves `next_at` past the deadline, so that a sender that dies leaves the delivery due again, with the same id.
"""

import asyncio
import hashlib
import hmac
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx2 as httpx
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from trace_site.audit import models as audit_models
from trace_site.audit_context import acting
from trace_site.database import database_now
from trace_site.lib import outbound
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import EVENTS, PING, Webhook, WebhookDelivery, check_url

log = logging.getLogger(__name__)
SECONDS = 10.0
LEASE = timedelta(seconds=60)
BACKOFF = [timedelta(seconds=seconds) for seconds in (30, 120, 600, 3600, 6 * 3600)]
PAUSE_AFTER = 20
KEPT = timedelta(days=30)
AT_ONCE = 8
CAP = 20_000  # bytes of an answer that are read
EXCERPT = 1_000  # characters of it that are kept
BUDGET = 5.0  # seconds after which a sweep claims nothing more


def deliver_due() -> int:
    """Send what is due, eight at a time; returns how many attempts were made."""
    began = time.monotonic()
    made = 0
    while time.monotonic() - began < BUDGET and (claimed := _claim()):
        made += len(claimed)
        if len(claimed) == 1:
            _attempt(claimed[0])
            continue
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for _ in threads.map(_attempt_in_thread, claimed):
                pass
    return made


def deliver_now(delivery: WebhookDelivery) -> WebhookDelivery:
    """One attempt at once, for the test button and for `send again`; its result is on the row."""
    taken = WebhookDelivery.objects.filter(pk=delivery.pk).update(
        state=WebhookDelivery.State.PENDING, attempt=F("attempt") + 1, next_at=Now() + LEASE
    )
    if not taken:
        raise TraceError("this delivery is gone.", code="not_found")
    _attempt(WebhookDelivery.objects.select_related("webhook").get(pk=delivery.pk))
    return WebhookDelivery.objects.select_related("webhook").get(pk=delivery.pk)


def ping(*, webhook: Webhook, actor: Any) -> WebhookDelivery:
    """A test delivery, sent at once whether or not the webhook is paused."""
    audit_models.record(actor=actor, action="webhook.tested", obj=webhook)
    payload = {"message": "This is a test.", "webhook": webhook.pk, "events": webhook.events}
    return deliver_now(WebhookDelivery.objects.create(webhook=webhook, event=PING, payload=payload))


@transaction.atomic
def _claim() -> list[WebhookDelivery]:
    due = WebhookDelivery.objects.filter(
        state=WebhookDelivery.State.PENDING, next_at__lte=Now(), webhook__active=True
    )
    rows = due.select_for_update(skip_locked=True, of=("self",)).select_related("webhook").order_by("next_at")
    claimed = list(rows[:AT_ONCE])
    WebhookDelivery.objects.filter(pk__in=[row.pk for row in claimed]).update(
        next_at=Now() + LEASE, attempt=F("attempt") + 1
    )
    for row in claimed:
        row.attempt += 1
    return claimed


def _attempt_in_thread(delivery: WebhookDelivery) -> None:
    try:
        with acting(None, "webhook delivery"):
            _attempt(delivery)
    finally:
        connection.close()


def _attempt(delivery: WebhookDelivery) -> None:
    body = body_of(delivery)
    now, began = database_now(), time.monotonic()
    entry: dict[str, Any] = {"at": now.isoformat(timespec="seconds"), "attempt": delivery.attempt}
    try:
        private = settings.WEBHOOK_ALLOW_PRIVATE
        headers = headers_of(delivery, body, int(now.timestamp()))
        status, excerpt = post(delivery.webhook.url, body, headers, allow_private=private, seconds=SECONDS)
        entry |= {"status": status, "excerpt": excerpt, "error": _refusal(status)}
    except TraceError as error:
        entry |= {"status": None, "excerpt": "", "error": error.message}
    entry["seconds"] = round(time.monotonic() - began, 3)
    _settle(delivery, entry)


def body_of(delivery: WebhookDelivery) -> bytes:
    """The same bytes on every attempt, so that a receiver may compare them."""
    told = {
        "event": delivery.event,
        "delivery": str(delivery.delivery_id),
        "at": delivery.created_at.isoformat(),
        "data": delivery.payload,
    }
    return json.dumps(told, ensure_ascii=False, sort_keys=True).encode()


def headers_of(delivery: WebhookDelivery, body: bytes, at: int) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "User-Agent": "TRACE-Rule-Studio",
        "X-Trace-Event": delivery.event,
        "X-Trace-Delivery": str(delivery.delivery_id),
        "X-Trace-Signature": signature(delivery.webhook.secret, at, body),
    }


def signature(secret: str, at: int, body: bytes) -> str:
    """The value of X-Trace-Signature: HMAC-SHA256 over "<unix time>.<body>"."""
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def post(
    url: str, body: bytes, headers: dict[str, str], *, allow_private: bool, seconds: float
) -> tuple[int, str]:
    """Status and beginning of whatever HTTP answer comes, all within one deadline, the look-up of the name included.

    Raises TraceError `webhook_unreachable`; `bad_input` for an address one may not post to.
    """
    host = check_url(url, allow_private=allow_private).hostname

    async def sent() -> tuple[int, str]:
        allowed = outbound.may_connect if allow_private else outbound.is_public
        read = bytearray()
        async with (
            asyncio.timeout(seconds),
            outbound.client_of(allowed) as client,
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            async for piece in response.aiter_raw():
                read += piece
                if len(read) > CAP:
                    break
        return response.status_code, read[:CAP].decode("utf-8", "replace").replace("\0", "")[:EXCERPT]

    try:
        return asyncio.run(sent())
    except TimeoutError as error:
        raise TraceError(f"{host} did not answer in {seconds:g} s.", code="webhook_unreachable") from error
    except outbound.Refused as error:
        raise TraceError(f"{host} is an address of a private network.", code="webhook_unreachable") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise TraceError(f"{host} cannot be reached: {reason}.", code="webhook_unreachable") from error


def _refusal(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"It answered with a redirect ({status}); redirects are not followed."
    return f"It answered {status}; only 200 to 299 counts as received."


@transaction.atomic
def _settle(delivery: WebhookDelivery, entry: dict[str, Any]) -> None:
    """Keep the attempt and plan the next; a sender that lost its lease meanwhile changes nothing."""
    rows = WebhookDelivery.objects.select_for_update().filter(pk=delivery.pk, attempt=delivery.attempt)
    row = rows.first()
    if row is None:
        return
    row.log = [*row.log, entry]
    row.status = entry["status"]
    hook = Webhook.objects.filter(pk=row.webhook_id)
    if not entry["error"]:
        row.state = WebhookDelivery.State.DELIVERED
        hook.exclude(failures=0).update(failures=0)
    else:
        done = row.attempt - 1
        if row.event not in EVENTS or done >= len(BACKOFF):  # a test is never repeated
            row.state = WebhookDelivery.State.FAILED
        else:
            row.next_at = Now() + BACKOFF[done]
        hook.update(failures=F("failures") + 1)
        sentence = f"{PAUSE_AFTER} attempts in a row failed, the last one so: {entry['error']}"[:300]
        for hopeless in hook.filter(active=True, failures__gte=PAUSE_AFTER).select_for_update():
            hook.update(active=False, paused_because=sentence)
            detail = {"reason": sentence}
            audit_models.record(actor=None, action="webhook.paused", obj=hopeless, detail=detail)
    row.save(update_fields=["log", "status", "state", "next_at"])


def forget_old() -> int:
    """Delete deliveries that ended long ago; returns how many."""
    old = WebhookDelivery.objects.filter(created_at__lt=Now() - KEPT)
    return old.exclude(state=WebhookDelivery.State.PENDING).delete()[0]
