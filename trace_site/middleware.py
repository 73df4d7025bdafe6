"""Small middlewares: who may and who is at work, domain errors become pages, what browsers may keep and run."""

import re
import secrets
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse, QueryDict
from django.shortcuts import redirect, render, resolve_url
from django.urls import resolve
from django.utils.deprecation import MiddlewareMixin

from trace_site.access import SAFE, is_open, may, needed, refusal, roles_of, standing_of, wants_json
from trace_site.audit_context import acting, identified_later
from trace_site.database import frozen_error
from trace_site.impact import routes_named
from trace_site.lib.errors import TraceError, status_of
from trace_site.lib.letters import entered
from trace_site.limits import refuse_large, route_of

Handler = Callable[[HttpRequest], HttpResponse]


class trace_errors(MiddlewareMixin):  # noqa: N801 - used as a function in MIDDLEWARE
    """A TraceError raised in a page is shown as an error page with what, where and how to fix it."""

    def process_exception(self, request: HttpRequest, raised: Exception) -> HttpResponse | None:
        exception = frozen_error(raised) or raised
        if not isinstance(exception, TraceError):
            return None
        status = status_of(exception.code)
        response: HttpResponse
        if wants_json(request):
            response = JsonResponse(exception.as_dict(), status=status)
        else:
            if request.headers.get("HX-Request"):
                messages.error(request, str(exception))
            response = render(request, "error.html", {"error": exception}, status=status)
        if "retry_after" in exception.extra:
            response["Retry-After"] = str(exception.extra["retry_after"])
        return response


class RoleRequired(LoginRequiredMiddleware):
    """Asks trace_site.access for every page; the API asks it itself, once it knows whose token it is.

    A stranger who reads is sent to the login; one who sends something is told, so that the text is not lost.
    """

    def process_view(
        self, request: HttpRequest, view_func: Any, view_args: Any, view_kwargs: Any
    ) -> HttpResponse | None:
        route, method = request.resolver_match.view_name, str(request.method)  # type: ignore[union-attr]
        if hasattr(view_func, "cls") or may(request.user, route, method):  # cls: a view of REST framework
            return None
        if not request.user.is_authenticated:
            return self.handle_no_permission(request, view_func)
        if route == "home" and method in SAFE and not roles_of(request.user):
            return redirect("account")  # where a login leads; all that one without a role may read
        return refusal(request, needed(route, method))

    def handle_no_permission(self, request: HttpRequest, view_func: Any) -> HttpResponse:  # type: ignore[override]
        login = resolve_url(settings.LOGIN_URL)
        if wants_json(request):
            told = {"message": "You are signed out.", "code": "not_authenticated", "extra": {"login": login}}
            return JsonResponse(told, status=401)
        if request.headers.get("HX-Request") or request.method not in SAFE:
            return render(request, "signed_out.html", {"login": login}, status=401)
        return redirect_to_login(request.get_full_path(), login)


def audit_source(get_response: Handler) -> Handler:
    """Rows that a request changes carry its user and address into the audit ledger."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/api/"):
            with identified_later(f"api {request.path}"):
                return get_response(request)
        with acting(request.user, f"page {request.path}"):
            return get_response(request)

    return middleware


def short_way(get_response: Handler) -> Handler:
    """What a program asks of a model with its token goes straight to its view, which finds out itself who asks:
    sessions, forms, messages and links are of pages, and take as long as the rest of such a request. So does the
    question whether the site is well, which must be answered while there is no session to be had."""

    def answered(request: HttpRequest) -> HttpResponse:
        found = request.resolver_match
        assert found is not None
        request.get_host()  # a name that is not ours is refused, as with pages
        response: HttpResponse = found.func(request, *found.args, **found.kwargs)
        if hasattr(response, "render"):
            response.render()
        if not response.streaming:
            response["Content-Length"] = str(len(response.content))
        return response

    of_programs = private_and_own_scripts(refuse_large(audit_source(answered)))
    of_health = head_as_get(private_and_own_scripts(answered))

    def middleware(request: HttpRequest) -> HttpResponse:
        is_by_token = request.META.get("HTTP_AUTHORIZATION", "").startswith(("Token ", "Bearer "))
        route = route_of(request.path_info)
        is_short = is_by_token and route in routes_named("program_views")
        if not is_short and route != "healthz":
            return get_response(request)
        request.resolver_match = resolve(request.path_info)
        return of_programs(request) if is_short else of_health(request)

    return middleware


def head_as_get(get_response: Handler) -> Handler:
    """A page that may be read may be asked for its headers: HEAD runs as GET, and the body stays here."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.method != "HEAD":
            return get_response(request)
        request.method = "GET"
        response = get_response(request)
        request.method = "HEAD"
        bare = HttpResponse(status=response.status_code, reason=response.reason_phrase)
        bare.headers, bare.cookies = response.headers, response.cookies
        if not response.streaming:
            bare.setdefault("Content-Length", str(len(response.content)))
        held_open: list[Any] = response._resource_closers  # type: ignore[attr-defined]
        bare._resource_closers += held_open  # type: ignore[attr-defined]
        return bare

    return middleware


def private_and_own_scripts(get_response: Handler) -> Handler:
    """What people read here is theirs: no browser and no proxy keeps it, unless the view says how.

    Scripts run only from our own files or with this request's nonce; nothing loads from elsewhere.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        nonce = secrets.token_urlsafe(16)
        request.csp_nonce = nonce  # type: ignore[attr-defined]
        response = get_response(request)
        response.setdefault("Cache-Control", "no-store, private")
        response.setdefault(
            "Content-Security-Policy",
            f"default-src 'self'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; img-src 'self' data:; "
            "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
        )
        return response

    return middleware


def refuse_nul(get_response: Handler) -> Handler:
    """No text of ours can hold a NUL, and the database refuses to search for one. What is typed is brought to one
    spelling; passwords stay."""

    def middleware(request: HttpRequest) -> HttpResponse:
        api = request.path.startswith("/api/")  # its parsers check bodies, and answer in its own shape
        sent = [*request.GET.lists(), *([] if api else request.POST.lists())]
        given = [request.path, *(str(text) for key, values in sent for text in (key, *values))]
        if any("\0" in text for text in given):
            message = "The request holds a NUL character."
            if api:
                return JsonResponse({"message": message, "code": "bad_text", "extra": {}}, status=400)
            return HttpResponseBadRequest(message, content_type="text/plain")
        request.GET = _entered(request.GET)  # type: ignore[assignment]
        if not api:
            request.POST = _entered(request.POST)  # type: ignore[assignment]
        return get_response(request)

    return middleware


def _entered(sent: QueryDict) -> QueryDict:
    texts = [(key, [str(value) for value in values]) for key, values in sent.lists() if "password" not in key]
    if all(value.isascii() for _, values in texts for value in values):
        return sent
    kept = sent.copy()
    for key, values in texts:
        kept.setlist(key, [entered(value) for value in values])
    kept._mutable = False
    return kept


def closed_links(get_response: Handler) -> Handler:
    """A link to a page that one may not read is left as its words, and a link that looks like a button is left out.

    So templates may link to what they tell of without asking who reads. Forms, fragments and tabs ask `opens`.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        page = not response.streaming and response.get("Content-Type", "").startswith("text/html")
        if page and request.user.is_authenticated:
            standing = standing_of(request.user)
            response.content = LINK.sub(lambda link: _shown(link, standing), response.content)
        return response

    return middleware


# a whole link to a page of ours; Django escapes what people wrote, so that no text of theirs can look like one
LINK = re.compile(rb'<a\b([^>]*?)\shref="(/[^"?#]*)[^"]*"([^>]*)>(.*?)</a>', re.DOTALL)
CLASS = re.compile(rb'\sclass="([^"]*)"')


def _shown(link: re.Match[bytes], standing: frozenset[str]) -> bytes:
    before, path, after, words = link.groups()
    # every number is taken for the same one, so what is left are the names of tools
    route = route_of(re.sub(r"[0-9]+", "0", path.decode()))
    if not route or is_open(route, standing):
        return link[0]
    kind = CLASS.search(before + after)
    if kind and b"button" in kind[1].split():
        return b""
    return b'<span class="%s">%s</span>' % (kind[1], words) if kind else words
