"""Idempotency keys: a POST sent twice with one key has its effect once, and its answer twice.

The answer is stored in the transaction of the effect, so that a crash leaves neither. While it runs, an advisory lock
of that transaction refuses a second request with the same key.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models.functions import Now
from django.http import HttpResponse, HttpResponseBase
from rest_framework.response import Response

from trace_site.lib.errors import TraceError

KEPT = timedelta(hours=24)
HEADERS = ("ETag", "Location", "Content-Type")


class IdempotencyKey(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    method = models.CharField(max_length=10)
    path = models.CharField(max_length=500)
    request_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.TextField()
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        app_label = "trace_site"
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_answer_per_key")]


class Replay(Exception):
    """The answer is known already; `response` repeats it."""

    def __init__(self, stored: IdempotencyKey) -> None:
        super().__init__(stored.key)
        self.response = HttpResponse(stored.body, status=stored.status, headers=stored.headers)
        self.response["Idempotent-Replayed"] = "true"


def expired() -> models.QuerySet[IdempotencyKey]:
    """What nobody may repeat any more."""
    return IdempotencyKey.objects.filter(created_at__lt=Now() - KEPT)


def begin(request: Any, key: str) -> None:
    """Take the key for this transaction.

    Raises Replay for a known answer, TraceError `key_in_use`, `key_reused`, and `bad_input` for a key that is none.
    """
    if not (0 < len(key) <= 200 and key.isascii() and key.isprintable()):
        raise TraceError(
            "an idempotency key has 1 to 200 printable ASCII characters.",
            code="bad_input",
            where="Idempotency-Key",
            hint="Send a UUID.",
        )
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 7))", [f"{request.user.pk}:{key}"]
        )
        if not cursor.fetchone()[0]:
            raise TraceError(
                "a request with this key is still running.",
                code="key_in_use",
                where="Idempotency-Key",
                hint="Wait for its answer, then ask again with the same key.",
            )
    expired().filter(user=request.user.pk, key=key).delete()
    stored = IdempotencyKey.objects.filter(user=request.user.pk, key=key).first()
    asked = request_hash(request)  # now: a view may use up an uploaded file
    request._request.idempotency_hash = asked
    if stored is None:
        return
    if stored.request_hash != asked:
        raise TraceError(
            f"this key was used for another request ({stored.method} {stored.path}).",
            code="key_reused",
            where="Idempotency-Key",
            hint="Send a new key with every new request.",
        )
    raise Replay(stored)


def request_hash(request: Any) -> str:
    """Over method, address and content. Parts of a form count by name and content: their boundary is random."""
    parts: list[bytes] = [str(request.method).encode(), request.get_full_path().encode()]
    if str(request.content_type).startswith("multipart/"):
        for name, values in sorted(request.data.lists()):
            for value in values:
                digest = hashlib.sha256()
                for block in value.chunks() if hasattr(value, "chunks") else [str(value).encode()]:
                    digest.update(block)
                parts += [name.encode(), digest.digest()]
                if hasattr(value, "seek"):
                    value.seek(0)
    else:
        parts.append(request._request.body)
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()


def once(key: str, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Run `answer` in a transaction and store what it says; a refusal undoes everything and is not stored."""
    with transaction.atomic():
        response = answer()
        if response.status_code >= 400:
            transaction.set_rollback(True)
        elif isinstance(response, Response):
            response.render()
            context: Any = response.renderer_context  # type: ignore[attr-defined]
            request, secrets = context["request"], context["view"].told_once
            body = response.content.decode()
            if secrets:  # they are null in what is kept
                body = json.dumps({**json.loads(body), **dict.fromkeys(secrets)})
            IdempotencyKey.objects.create(
                user_id=request.user.pk,
                key=key,
                method=str(request.method),
                path=request.get_full_path()[:500],
                request_hash=request._request.idempotency_hash,
                status=response.status_code,
                headers={name: response[name] for name in HEADERS if name in response},
                body=body,
            )
    return response
