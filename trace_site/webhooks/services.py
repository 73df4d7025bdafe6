"""Webhooks: other servers that are told what happened here, and the channel that tells them.

`emit` writes a delivery for each webhook that asked for the event, in the transaction of what happened: what was
rolled back is never told, what was committed is told at least once. trace_site.deliveries has `send` send them, signed,
each within ten seconds.
"""

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx2 as httpx
from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction
from django.db.models import F
from django.db.models.functions import Now

from trace_site.audit import models as audit_models
from trace_site.celery import wake_worker
from trace_site.deliveries import PING, Delivery, Sent, deliver_now
from trace_site.impact import declared_by_apps
from trace_site.lib.errors import TraceError
from trace_site.lib.outbound import Refused, client_of, is_public, literal, may_connect

EVENTS: dict[str, str] = declared_by_apps("events")
PAUSE_AFTER = 20  # failed attempts in a row
LONGEST_URL = 500  # characters
SECONDS = 10.0
CAP = 20_000  # bytes of an answer that are read
EXCERPT = 1_000  # characters of it that are kept


class Webhook(models.Model):
    """Whom to tell of what. The secret is not stored: it follows from SECRET_KEY and `salt`, and is shown once.

    Another SECRET_KEY therefore means other secrets.
    """

    url = models.CharField(max_length=500)
    salt = models.CharField(max_length=64)
    events = ArrayField(models.CharField(max_length=60))
    active = models.BooleanField(default=True)
    paused_because = models.CharField(max_length=300, blank=True)
    failures = models.PositiveIntegerField(default=0, help_text="failed attempts since the last that worked")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "trace_site"
        ordering = ["id"]

    def __str__(self) -> str:
        # paths of such addresses are often secrets
        return f"webhook {self.pk} to {urlsplit(self.url).hostname}"

    @property
    def secret(self) -> str:
        seed = f"webhook {self.pk} {self.salt}".encode()
        return "whsec_" + hmac.new(settings.SECRET_KEY.encode(), seed, hashlib.sha256).hexdigest()

    def tried(self, error: str) -> None:
        """After an attempt: count failures in a row, PAUSE_AFTER of which pause it."""
        hook = Webhook.objects.filter(pk=self.pk)
        if not error:
            hook.exclude(failures=0).update(failures=0)
            return
        hook.update(failures=F("failures") + 1)
        reason = f"{PAUSE_AFTER} attempts in a row failed, the last one so: {error}"[:300]
        for hopeless in hook.filter(active=True, failures__gte=PAUSE_AFTER).select_for_update():
            hook.update(active=False, paused_because=reason)
            audit_models.record(actor=None, action="webhook.paused", obj=hopeless, detail={"reason": reason})


def emit(event: str, payload: dict[str, Any]) -> None:
    """Tell every webhook that asked for `event`; call it inside the writer's transaction."""
    emit_all(event, [payload])


def emit_all(event: str, payloads: Iterable[dict[str, Any]]) -> None:
    """The same for many objects: one query to read, one to write."""
    assert event in EVENTS, event
    listening = list(Webhook.objects.filter(active=True, events__contains=[event]))
    if not listening:
        return
    told = [Delivery(webhook=hook, event=event, payload=told) for told in payloads for hook in listening]
    Delivery.objects.bulk_create(told, batch_size=1000)
    transaction.on_commit(lambda: wake_worker("deliver"))  # without a broker the next poll sends


@transaction.atomic
def webhook_create(*, url: str, events: Iterable[str], actor: Any) -> Webhook:
    """A new webhook; its `secret` is to be shown now. Raises TraceError `bad_input`."""
    _check(url, wanted := sorted(set(events)))
    hook = Webhook.objects.create(url=url, events=wanted, salt=secrets.token_hex(32), created_by=actor)
    audit_models.record(actor=actor, action="webhook.created", obj=hook, detail={"events": wanted})
    return hook


@transaction.atomic
def webhook_update(
    *, webhook: Webhook, actor: Any, url: str | None = None, events: Iterable[str] | None = None
) -> Webhook:
    hook = Webhook.objects.select_for_update().get(pk=webhook.pk)
    hook.url = hook.url if url is None else url
    hook.events = hook.events if events is None else sorted(set(events))
    _check(hook.url, hook.events)
    hook.save(update_fields=["url", "events"])
    audit_models.record(actor=actor, action="webhook.changed", obj=hook, detail={"events": hook.events})
    return hook


@transaction.atomic
def webhook_pause(*, webhook: Webhook, actor: Any, active: bool) -> Webhook:
    """Stop or start sending. What waits is kept; what happens while it is paused is not recorded for it."""
    hook = Webhook.objects.select_for_update().get(pk=webhook.pk)
    hook.active, hook.paused_because, hook.failures = active, "", 0
    hook.save(update_fields=["active", "paused_because", "failures"])
    audit_models.record(actor=actor, action="webhook.resumed" if active else "webhook.paused", obj=hook)
    return hook


@transaction.atomic
def webhook_rotate(*, webhook: Webhook, actor: Any) -> Webhook:
    """Give it another secret; the old one is of no use from now on."""
    hook = Webhook.objects.select_for_update().get(pk=webhook.pk)
    hook.salt = secrets.token_hex(32)
    hook.save(update_fields=["salt"])
    audit_models.record(actor=actor, action="webhook.secret_replaced", obj=hook)
    return hook


@transaction.atomic
def webhook_delete(*, webhook: Webhook, actor: Any) -> None:
    audit_models.record(actor=actor, action="webhook.deleted", obj=webhook)
    webhook.delete()


def _check(url: str, events: list[str]) -> None:
    check_url(url)
    if not events or (unknown := sorted(set(events) - set(EVENTS))):
        wrong = f"there is no event {unknown[0]!r}." if events else "it asks for no event."
        raise TraceError(wrong, code="bad_input", where="events", hint=f"Events: {', '.join(EVENTS)}.")


def check_url(url: str) -> SplitResult:
    """The parts of an address one may post to. Raises TraceError `bad_input`."""
    schemes = ("https", "http") if settings.WEBHOOK_ALLOW_PRIVATE else ("https",)
    if len(url) > LONGEST_URL:
        raise _refused(url, f"it is longer than {LONGEST_URL} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna" if not (parts.hostname or "").isascii() else "ascii")
    except ValueError as error:
        raise _refused(url, "it is no web address") from error
    if parts.scheme not in schemes:
        raise _refused(url, f"it must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    if not host or port == 0 or not url.isprintable() or " " in url:
        raise _refused(url, "it is no web address")
    if parts.username is not None or parts.password is not None:
        raise _refused(url, "it holds a password; the signature says who sends")
    if literal(host.decode()) is not None and not _allowed()(host.decode()):
        raise _refused(url, "it is an address of a private network")
    return parts


def _allowed() -> Callable[[str], bool]:
    """What tells whether an address may be posted to."""
    return may_connect if settings.WEBHOOK_ALLOW_PRIVATE else is_public


def _refused(url: str, why: str) -> TraceError:
    return TraceError(
        f"{url[:100]!r} cannot be used: {why}.",
        code="bad_input",
        where="url",
        hint="Use an address such as https://ci.example.com/trace.",
    )


# The channel.


def send(deliveries: Sequence[Delivery], at: datetime) -> Sent:
    (delivery,) = deliveries
    assert delivery.webhook is not None
    body = body_of(delivery)
    status, excerpt = post(delivery.webhook.url, body, headers_of(delivery, body, int(at.timestamp())))
    error = "" if 200 <= status < 300 else f"It answered {status}; only 200 to 299 counts as received."
    if 300 <= status < 400:
        error = f"It answered with a redirect ({status}); redirects are not followed."
    return Sent(error, status, excerpt)


def ping(*, webhook: Webhook, actor: Any) -> Delivery:
    """A test delivery, sent at once whether or not the webhook is paused."""
    audit_models.record(actor=actor, action="webhook.tested", obj=webhook)
    payload = {"message": "This is a test.", "webhook": webhook.pk, "events": webhook.events}
    return deliver_now(Delivery.objects.create(webhook=webhook, event=PING, payload=payload))


def body_of(delivery: Delivery) -> bytes:
    """The same bytes on every attempt, so that a receiver may compare them."""
    told = {
        "event": delivery.event,
        "delivery": str(delivery.delivery_id),
        "at": delivery.created_at.isoformat(),
        "data": delivery.payload,
    }
    return json.dumps(told, ensure_ascii=False, sort_keys=True).encode()


def headers_of(delivery: Delivery, body: bytes, at: int) -> dict[str, str]:
    """The signature is the HMAC-SHA256 over "<unix time>.<body>"."""
    assert delivery.webhook is not None
    digest = hmac.new(delivery.webhook.secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "TRACE-Rule-Studio",
        "X-Trace-Event": delivery.event,
        "X-Trace-Delivery": str(delivery.delivery_id),
        "X-Trace-Signature": f"t={at},v1={digest}",
    }


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    """Status and beginning of whatever HTTP answer comes, all within one deadline, the look-up of the name included.

    Raises TraceError `webhook_unreachable`; `bad_input` for an address one may not post to.
    """
    host = check_url(url).hostname

    async def sent() -> tuple[int, str]:
        read = bytearray()
        async with (
            asyncio.timeout(SECONDS),
            client_of(_allowed()) as client,
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
        raise TraceError(f"{host} did not answer in {SECONDS:g} s.", code="webhook_unreachable") from error
    except Refused as error:
        raise TraceError(f"{host} is an address of a private network.", code="webhook_unreachable") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise TraceError(f"{host} cannot be reached: {reason}.", code="webhook_unreachable") from error
