"""What every resource of the REST API shares: who may, one error shape, idempotent POST, keyset pages, ETags.

Errors are {"message", "code", "extra"}; trace_site.lib.errors.STATUS_OF is the table of codes and statuses.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import IntegrityError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.http import quote_etag
from rest_framework import exceptions
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView, exception_handler

from trace_site.access import SAFE
from trace_site.audit_context import identify
from trace_site.database import frozen_error
from trace_site.lib.errors import LONGEST, TraceError, cut, status_of
from trace_site.outages import outage
from trace_site.paging import SIZE, keyset, number_of
from trace_site.rest import idempotency
from trace_site.rest.schema import InputSerializer, StrictJSONParser
from trace_site.rest.throttles import ByAddress, ByToken
from trace_site.rest.tokens import ApiToken, require_person, require_scope

log = logging.getLogger(__name__)
MOST_ROWS = 200
MOST_TOLD = 20_000  # characters of mistakes by field; of more only the first is told
# the same clash is a failed precondition to a program that sent If-Match, and a conflict to a person
API_STATUS = {"edited_meanwhile": 412}
DRF_CODES: dict[type[Exception], str] = {
    exceptions.ValidationError: "bad_input",
    exceptions.ParseError: "bad_json",
    exceptions.PermissionDenied: "not_allowed",
    exceptions.Throttled: "rate_limited",
}


class ApiView(APIView):
    """One operation a method."""

    rate = "API"  # which limits count: settings.<rate>_RATE and <rate>_ADDRESS_RATE
    scope = ""  # what a service token needs; empty: `read` for safe methods, `write` for the others
    decides = False  # true: what it changes is a person's to decide, so that a service token is refused
    writes = True  # false: nothing that the ledger is told of, so that it need not know who asks
    keeps_answers = True  # for who repeats a POST with its Idempotency-Key
    told_once: tuple[str, ...] = ()  # fields of an answer that are never kept: null when it is repeated
    parser_classes = [StrictJSONParser]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        key = self.key_of(request)
        if key is None:
            return super().dispatch(request, *args, **kwargs)
        return idempotency.once(key, lambda: super(ApiView, self).dispatch(request, *args, **kwargs))

    def key_of(self, request: Any) -> str | None:
        if request.method != "POST" or not self.keeps_answers:
            return None
        key: str | None = request.headers.get("Idempotency-Key")
        return key

    def perform_authentication(self, request: Request) -> None:
        """Who is known counts for themselves, whatever they may; only who is not counts for the address, which others
        share. Raises what becomes 401 and 429."""
        try:
            known = request.user.is_authenticated
        except (exceptions.AuthenticationFailed, exceptions.PermissionDenied):  # the latter: a forged form
            self.count(request, ByAddress())
            raise
        self.count(request, ByToken() if known else ByAddress())

    def count(self, request: Request, limit: ByAddress) -> None:
        if not limit.allow_request(request, self):
            self.throttled(request, limit.wait())

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.method not in SAFE and not str(request.content_type).startswith("multipart/"):
            # Django's own cap on its size; and before who asks is known, which for a session parses a form's fields
            _ = request._request.body
        super().initial(request, *args, **kwargs)
        if self.writes:
            identify(request.user, request.auth.as_told if isinstance(request.auth, ApiToken) else None)
        if not hasattr(self, str(request.method).lower()):
            raise exceptions.MethodNotAllowed(str(request.method))
        require_scope(request.auth, self.scope or ("read" if request.method in SAFE else "write"))
        if request.method not in SAFE:
            if self.decides:
                require_person(request.auth)
            if (key := self.key_of(request)) is not None:
                idempotency.begin(request, key)

    def handle_exception(self, exc: Exception) -> Any:
        return exc.response if isinstance(exc, idempotency.Replay) else super().handle_exception(exc)

    def read(self, serializer: type[BaseSerializer[Any]], **options: Any) -> dict[str, Any]:
        """The checked body. Raises what becomes 400 with every field's mistakes."""
        given = serializer(**{"data": self.request.data, **options})
        given.is_valid(raise_exception=True)
        checked: dict[str, Any] = given.validated_data
        return checked

    def read_query(self, serializer: type[InputSerializer]) -> dict[str, Any]:
        """The checked query string; `after` and `limit` belong to keyset_response."""
        asked = self.request.query_params.items()
        return self.read(
            serializer, data={key: value for key, value in asked if key not in {"after", "limit"}}
        )


class AnyFormat(DefaultContentNegotiation):
    """`?format=` is the view's own; REST framework would look for a renderer of that name."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


def keyset_response(
    request: Request,
    queryset: QuerySet[Any],
    serializer_class: type[BaseSerializer[Any]],
    by: str = "pk",
    *,
    newest: bool = False,
) -> Response:
    """{"results": [...], "next": key or null}, by ?after=&limit=, in the order of the unique column `by`."""
    after, limit = request.query_params.get("after", ""), page_limit(request)
    unread = _no_key(after)
    if "\0" in after or (after and by == "pk" and not (after.isascii() and after.isdecimal())):
        raise unread
    try:
        page = keyset(queryset, after, by=by, newest=newest, size=limit)
    except ValueError as error:  # the column holds something else than texts
        raise unread from error
    rows = serializer_class(page.rows, many=True, context={"request": request}).data
    return Response({"results": rows, "next": page.next_key})


def _no_key(after: str) -> TraceError:
    return TraceError(
        f"{after[:40]!r} is no key of a page.",
        code="bad_input",
        where="after",
        hint="Send what the page before gave as `next`.",
    )


def number_key(request: Request) -> int:
    """The place that ?after= names, of a list in the order of an integer; 0 without. Raises `bad_input`."""
    after = request.query_params.get("after", "")
    if after and not number_of(after, 9):
        raise _no_key(after)
    return number_of(after, 9)


def page_limit(request: Request) -> int:
    """Rows of a page by ?limit=. Raises `bad_input`."""
    limit = request.query_params.get("limit", str(SIZE))
    if not (limit.isascii() and limit.isdecimal() and 0 < int(limit[:9]) <= MOST_ROWS):
        raise TraceError(
            f"{limit[:40]!r} is not a number from 1 to {MOST_ROWS}.", code="bad_input", where="limit"
        )
    return int(limit)


def etag_of(value: Any) -> str:
    """The strong ETag of a revision: 3 -> "3" in quotes. One that is quoted already stays."""
    return quote_etag(str(value))


def require_match(request: Any, current: Any) -> None:
    """Refuse an edit of what somebody else changed. Raises `precondition_required` (428), `precondition_failed` (412).

    `current` is the revision (or its ETag) that the stored object has now. A weakened ETag (W/) counts: proxies that
    compress make them.
    """
    given = request.headers.get("If-Match", "")
    named = {etag.strip().removeprefix("W/") for etag in given.split(",")}
    if not given.strip() or "*" in named:
        missing = "this edit must say which revision it was made from."
        if "*" in named:
            missing = "`*` names no revision: it would save over whatever somebody else wrote meanwhile."
        hint = "Send the ETag that the object was read with."
        raise TraceError(missing, code="precondition_required", where="If-Match", hint=hint)
    if etag_of(current) not in named:
        raise TraceError(
            "the object was changed since it was read.",
            code="precondition_failed",
            where="If-Match",
            hint="Read it again, then repeat the edit on what it says now.",
            extra={"current": etag_of(current)},
        )


def handle_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """REST framework's hook: every error of the API in the one shape."""
    if isinstance(error, RequestDataTooBig):
        error = TraceError("the body is larger than the server reads.", code="too_large")
    elif (frozen := frozen_error(error)) is not None:
        error = frozen
    elif isinstance(error, IntegrityError):
        log.warning("the database refused an API write", exc_info=error)
        error = TraceError(
            "the database refused this: it clashes with what is stored.",
            code="conflict",
            hint="Read the object again, then repeat the request.",
        )
    elif (away := outage(error)) is not None:
        log.warning("the platform failed an API request: %s", away, exc_info=error)
        error = away
    if isinstance(error, TraceError):
        status = API_STATUS.get(error.code, status_of(error.code))
        refusal = Response(_writable(error.as_dict()), status=status)
        if error.code in ("unavailable", "disk_full", "key_in_use"):
            refusal["Retry-After"] = str(error.extra.get("retry_after", 1))
        return refusal
    response = exception_handler(error, context)
    if response is not None:
        response.data = drf_error(error, response.data)
    return response


def _writable(data: Any) -> Any:
    """Plain JSON in UTF-8: a quoted value may hold half of a surrogate pair, which no renderer can write."""
    return json.loads(json.dumps(data, ensure_ascii=False, default=str).encode("utf-8", "replace"))


def drf_error(error: Exception, data: Any) -> dict[str, Any]:
    if isinstance(error, Http404):
        return {"message": "There is no such object.", "code": "not_found", "extra": {}}
    if isinstance(error, PermissionDenied):
        return {"message": "You may not do this.", "code": "not_allowed", "extra": {}}
    if isinstance(error, exceptions.NotAuthenticated):
        data = {"detail": "Send a token as `Authorization: Token TOKEN`; the account page makes one."}
    extra = _writable(data)
    code = DRF_CODES.get(type(error), getattr(error, "default_code", "error"))
    if isinstance(error, exceptions.ValidationError):
        told = extra if len(json.dumps(extra)) <= MOST_TOLD else {}
        return {"message": cut(_first_mistake(extra), LONGEST), "code": code, "extra": told}
    detail = extra.get("detail") if isinstance(extra, Mapping) else None
    return {"message": str(detail or error), "code": code, "extra": extra}


def _first_mistake(data: Any, path: str = "") -> str:
    """The first sentence of nested field errors with its JSON pointer: `/clauses/0/when: This field is required.`"""
    if isinstance(data, Mapping):
        key, inner = next(iter(data.items()))
        return _first_mistake(inner, path if key == "non_field_errors" else f"{path}/{key}")
    if isinstance(data, list) and data:
        index = next((at for at, item in enumerate(data) if item), 0)
        return _first_mistake(data[index], path if isinstance(data[index], str) else f"{path}/{index}")
    return f"{path}: {data}" if path else str(data)
