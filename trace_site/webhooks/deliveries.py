"""The channel `webhook`: signed, never longer than ten seconds; a test of one at once."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import httpx2 as httpx
from django.conf import settings

from trace_site.audit import models as audit_models
from trace_site.deliveries import PING, Delivery, Sent, deliver_now
from trace_site.lib import outbound
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import Webhook, check_url

SECONDS = 10.0
CAP = 20_000  # bytes of an answer that are read
EXCERPT = 1_000  # characters of it that are kept


def send(deliveries: Sequence[Delivery], at: datetime) -> Sent:
    (delivery,) = deliveries
    assert delivery.webhook is not None
    body = body_of(delivery)
    headers, private = headers_of(delivery, body, int(at.timestamp())), settings.WEBHOOK_ALLOW_PRIVATE
    status, excerpt = post(delivery.webhook.url, body, headers, allow_private=private, seconds=SECONDS)
    return Sent(_refusal(status), status, excerpt)


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
    assert delivery.webhook is not None
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
