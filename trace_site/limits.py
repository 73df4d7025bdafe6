"""How much a request may hold, by its address: asked before anything of it is read.

The sizes of single fields stand with the fields; a list or a text without one fails tests/test_limits.py.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import Resolver404, resolve

from trace_site.impact import declared_by_apps
from trace_site.lib.errors import TraceError, status_of

Handler = Callable[[HttpRequest], HttpResponse]

# bytes of a body
BODY = 1_000_000
CATALOG_FILE = 100_000_000
RULES_FILE = 5_000_000
QUERIES_FILE = 1_000_000
AT_ONCE = 500_000_000  # of all bodies beyond BODY that lie here at one time
AROUND_A_FILE = 100_000  # the other fields of its form and what divides them
LONGEST_KEPT = 500  # characters of a path: strangers choose it
IN_MEMORY = RULES_FILE + AROUND_A_FILE  # what is not a file; settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def most_bytes(path: str) -> int:
    """Of a body: BODY, unless an app says that the address reads more."""
    most: int = declared_by_apps("larger_bodies").get(route_of(path), BODY)
    return most


def route_of(path: str) -> str:
    """The name of an address; empty where nothing of ours answers."""
    return _route(path) if len(path) <= LONGEST_KEPT else _route.__wrapped__(path)


@lru_cache(maxsize=4096)
def _route(path: str) -> str:
    try:
        return resolve(path).view_name
    except Resolver404:
        return ""


def file_at_most(most: int, hint: str) -> Callable[[Any], None]:
    """A validator for the file of a form."""

    def check(upload: Any) -> None:
        if upload.size > most:
            size = f"The file has {upload.size / 1e6:,.1f} MB; at most {most / 1e6:,.0f} fit."
            raise ValidationError(f"{size} {hint}")

    return check


def too_large(most: int) -> TraceError:
    message = f"the body is larger than the {most:,} bytes that this address reads."
    return TraceError(message, code="too_large", hint="Send less at once.")


def length_said(header: str) -> int:
    """The bytes that a Content-Length names; of very many digits the first 19; 0 where it is no number."""
    return int(header[:19]) if header.isascii() and header.isdecimal() else 0


def refuse_large(get_response: Handler) -> Handler:
    """A body that is larger than its address reads is refused before anybody reads it or asks who sent it.

    In production the ASGI server has asked the same before, while the body came; see asgi.py.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        size = length_said(request.META.get("CONTENT_LENGTH") or "")
        if size <= BODY or size <= (most := most_bytes(request.path_info)):
            return get_response(request)
        return refusal(request.path, too_large(most))

    return middleware


def refusal(path: str, error: TraceError) -> HttpResponse:
    """The answer to a request that no view shall see."""
    status = status_of(error.code)
    headers = {"Retry-After": "10"} if error.code == "unavailable" else {}
    if path.startswith("/api/"):
        return JsonResponse(error.as_dict(), status=status, headers=headers)
    plain = "text/plain; charset=utf-8"
    return HttpResponse(f"Refused: {error}", status=status, content_type=plain, headers=headers)
