"""Small middlewares: who is at work, domain errors become pages, NUL is refused, a content security policy."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse, QueryDict
from django.shortcuts import render, resolve_url

from trace_site.acting import acting
from trace_site.frozen import frozen_error
from trace_site.lib.errors import TraceError, status_of

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
Handler = Callable[[HttpRequest], HttpResponse]


class trace_errors:  # noqa: N801 - used as a function in MIDDLEWARE
    """A TraceError raised in a page is shown as an error page with what, where and how to fix it."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, raised: Exception) -> HttpResponse | None:
        exception = frozen_error(raised) or raised
        if not isinstance(exception, TraceError):
            return None
        status = status_of(exception.code)
        if wants_json(request):
            return JsonResponse(exception.as_dict(), status=status)
        if request.headers.get("HX-Request"):
            messages.error(request, str(exception))
        return render(request, "error.html", {"error": exception}, status=status)


class SignInRequired(LoginRequiredMiddleware):
    """A stranger who reads is sent to the login; one who sends something is told, so that the text is not lost."""

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> HttpResponse:  # type: ignore[override]
        login = resolve_url(settings.LOGIN_URL)
        if wants_json(request):
            told = {"message": "You are signed out.", "code": "not_authenticated", "extra": {"login": login}}
            return JsonResponse(told, status=401)
        if request.headers.get("HX-Request") or request.method not in SAFE:
            return render(request, "signed_out.html", {"login": login}, status=401)
        return super().handle_no_permission(request, view_func)


def wants_json(request: HttpRequest) -> bool:
    """Whether a script of ours asks, rather than a browser for a page."""
    accepted = request.headers.get("Accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def audit_source(get_response: Handler) -> Handler:
    """Rows that a request changes carry its user and address into the audit ledger."""

    def middleware(request: HttpRequest) -> HttpResponse:
        kind = "api" if request.path.startswith("/api/") else "page"
        with acting(request.user, f"{kind} {request.path}"):
            return get_response(request)

    return middleware


def refuse_nul(get_response: Handler) -> Handler:
    """No text of ours can hold a NUL, and the database refuses to search for one."""

    def middleware(request: HttpRequest) -> HttpResponse:
        api = request.path.startswith("/api/")  # its parsers check bodies, and answer in its own shape
        given = [request.path, *_texts(request.GET), *([] if api else _texts(request.POST))]
        if any("\0" in text for text in given):
            message = "The request holds a NUL character."
            if api:
                return JsonResponse({"message": message, "code": "bad_text", "extra": {}}, status=400)
            return HttpResponseBadRequest(message, content_type="text/plain")
        return get_response(request)

    return middleware


def _texts(data: QueryDict) -> Iterator[str]:
    for key, values in data.lists():
        yield key
        yield from map(str, values)


def content_security_policy(get_response: Handler) -> Handler:
    """Scripts run only from our own files or with this request's nonce; nothing loads from elsewhere."""

    def middleware(request: HttpRequest) -> HttpResponse:
        nonce = secrets.token_urlsafe(16)
        request.csp_nonce = nonce  # type: ignore[attr-defined]
        response = get_response(request)
        response.setdefault(
            "Content-Security-Policy",
            f"default-src 'self'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; "
            "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
        )
        return response

    return middleware
