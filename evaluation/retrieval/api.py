"""POST /api/v1/retrieve, alone, in batches and streamed: which tools answer this request?"""

import json
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.fields import empty
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer

from evaluation.core.asking import (
    FIELDS,
    LONGEST_CALLER,
    LONGEST_QUERY,
    MODES,
    MOST_QUERIES,
    MOST_TOOLS,
    Query,
    is_text,
)
from evaluation.core.withholding import granted
from evaluation.models import RetrievalRequest
from evaluation.requests.log import ANSWERED, Entry, caller_hash, request_id, requests
from evaluation.retrieval import retriever
from evaluation.retrieval.lookups import lookups
from evaluation.retrieval.retriever import EVENTS, event
from trace_site.lib.departure import Departure
from trace_site.lib.errors import TraceError
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field
from trace_site.rest.throttles import ByToken
from trace_site.rest.tokens import LONGEST_PERMISSION, MOST_PERMISSIONS, holds_of, service_token_of
from trace_site.rest.views import AnyFormat, ApiView, drf_error

JSON = "application/json"
Via = RetrievalRequest.Via
LEFT = "left"  # the outcome of a request whose caller did not wait for the end
Part = tuple[str, dict[str, Any]]


# {field: whether a value is one that its serializer takes as it is}
PLAINLY: dict[str, Callable[[Any], bool]] = {
    **{name: fits for name, (fits, _) in FIELDS.items()},
    "permissions": lambda given: (
        given is None
        or (
            type(given) is list
            and len(given) <= MOST_PERMISSIONS
            and all(is_text(one, LONGEST_PERMISSION) and one == one.strip() for one in given)
        )
    ),
    "model": lambda given: is_text(given, 20),
    "caller": lambda given: is_text(given, LONGEST_CALLER),
}


def is_plain(name: str, given: Any) -> bool:
    return PLAINLY[name](given) and (type(given) is not str or "" != given == given.strip())


WHICH = "a model's id, an alias, or `search`: no model"


class QueryInput(InputSerializer):
    query: str = field(max_length=LONGEST_QUERY)
    mode: str = field(default="fast", choices=MODES)
    k: int = field(default=10, min_value=1, max_value=MOST_TOOLS)
    domain: str | None = field("only tools of this domain", required=False, max_length=60)
    permissions: list[Annotated[str, field(max_length=LONGEST_PERMISSION)]] | None = field(
        "what the caller may do; of it counts what the token holds too. Left out: all that the token holds",
        required=False,
        max_length=MOST_PERMISSIONS,
    )
    exact: bool = field("false: the ranking may come from a search of limited length", default=True)

    def to_internal_value(self, data: Any) -> Any:
        """What is plainly right is taken; only of the rest does each field say what is wrong, which takes longer than
        the answer where a batch names many permissions."""
        fields = self.fields
        is_known = type(data) is dict and "query" in data and data.keys() <= fields.keys()
        if is_known and all(is_plain(name, value) for name, value in data.items()):
            return {name: one.default for name, one in fields.items() if one.default is not empty} | data
        return super().to_internal_value(data)


class EachQuery(serializers.ListField):
    """What is wrong with one query of a batch is its own error, and the others are answered, if there are any."""

    child = QueryInput()

    def run_child_validation(self, data: list[Any]) -> list[Any]:
        found = [self.checked(one) for one in data]
        are_all_wrong = all(isinstance(one, TraceError) for one in found)
        return super().run_child_validation(data) if are_all_wrong else found

    def checked(self, data: Any) -> Any:
        try:
            return self.child.run_validation(data)
        except serializers.ValidationError as error:
            return TraceError(**drf_error(error, error.detail))


class RetrieveInput(QueryInput):
    model: str = field(WHICH, default="champion", max_length=20)
    stream: bool = field(
        "server-sent events. Left out, they are sent where `Accept` names them before JSON", default=False
    )
    caller: str = field(
        "an opaque id of the person behind the call; their requests can be erased by it",
        required=False,
        allow_blank=True,
        max_length=LONGEST_CALLER,
    )


class BatchInput(InputSerializer):
    requests = EachQuery(min_length=1, max_length=MOST_QUERIES)
    model: str = field(WHICH, default="champion", max_length=20)
    caller: str = field(required=False, allow_blank=True, max_length=LONGEST_CALLER)


class RetrievedTool(Shape):
    name: str
    score: float | None = field("log-probability that orders the list; how sure to be is `confidence`")
    description: str
    deprecated: bool
    retired: bool
    newer: bool = field("it came to the catalog after the model, and no training has seen it")


class RetrievingModel(Shape):
    id: int | None = field("null: no model is in use, and a plain search answered")
    cell: str = field("(format, memo, retrieval)")
    base: str = field("the base model it was trained from")
    snapshot: int | None


class SpokenClause(Shape):
    token: str
    rule: str = field("code of its rule")
    domain: str
    version: int = field("of the rule, as it is published")
    text: str = field("as it stands in the rule")
    tools: list[str] = field("the tools that it leads to")
    share: float = field("probability that it speaks to the request")
    trained: bool = field("false: it is in force, and no training has seen it yet")
    decided: bool = field("whether the answer follows it")


class CitedRule(Shape):
    id: int
    code: str
    domain: str
    version: int = field("as the model's snapshot has it")
    in_snapshot: bool = field("false: the snapshot has no such rule, and the version is the published one")
    is_published: bool = field("whether that version is the published one now")
    published_version: int | None
    target: str
    text: str
    start: int = field("where the code stands in the trace")


class WithheldTool(Shape):
    name: str
    needs: list[str] = field("permission targets of which one would do")


class Latency(Shape):
    model: float = field("seconds that the model computed")
    engine: float = field("seconds from the question to the engine until its answer")
    total: float = field("seconds until the answer was ready")


class RetrieveAnswer(Shape):
    id: UUID = field("of this request, to report its answer by")
    model: RetrievingModel
    mode: str
    tools: list[RetrievedTool]
    ranked: list[RetrievedTool] = field("mode both: the ranked list beside the committed one")
    confidence: float | None = field(
        "calibrated probability that the first tool is right; null while the model is not calibrated, "
        "where no tool fits, and where the tool that fits best is withheld"
    )
    fits: bool | None = field(
        "false: no tool answers this request, and the tools are only the nearest ones; null while that "
        "is not known"
    )
    calibration: str = field("why confidence or fits is null, and what to do about it; empty otherwise")
    trace: str
    written_out: bool = field(
        "the trace was written out from what the model decided; false where the model wrote it"
    )
    wrote: str = field("what a language model wrote itself, where the trace was written out from it")
    clauses: list[SpokenClause] = field("the likeliest of the clauses in force, three at most")
    follows_trace: bool | None = field(
        "whether the model's list is the tools its trace ends with, before any are withheld; "
        "null without a trace"
    )
    trace_tools: list[str] = field(
        "the last tools the trace names, as many as the model's list has; empty when it names none"
    )
    cited_rules: list[CitedRule] = field("in the order in which the trace names them")
    withheld: list[WithheldTool] = field(
        "tools left out for want of a permission; no list and no text names them"
    )
    exact: bool | None = field("whether the ranking equals scoring every tool; null without one")
    unread: list[str] | None = field(
        "words of the request in scripts the model's encoder cannot read, which is not every foreign "
        "word; null for a base that reads without an encoder"
    )
    cut_request: bool = field(
        "the request, with its permissions, is longer than the model reads, so a part was left out"
    )
    notes: list[str] = field("what to know before relying on the answer, a sentence each")
    seconds: float = field("that the model computed")
    latency: Latency


class RefusedQuery(Shape):
    message: str
    code: str
    extra: dict[str, Any]


class BatchAnswer(Shape):
    class OneAnswer(Shape):
        answer: RetrieveAnswer | None
        error: RefusedQuery | None = field("why this query has no answer")

    answers: list[OneAnswer] = field("in the order of the queries, all of one model")


class Asking:
    """Who asks, and the log of what is answered to them. `known` is as of now."""

    def __init__(self, request: Request, via: str, caller: str) -> None:
        self.started = time.perf_counter()
        self.known = lookups(getattr(request.auth, "generations", None))
        self.owner: int = request.user.pk  # type: ignore[assignment]  # of somebody who is signed in
        self.token = service_token_of(request.auth)
        self.token_name: str = getattr(request.auth, "name", "") if self.token else ""
        self.holds = holds_of(request.auth)
        self.via, self.caller = via, caller_hash(caller)
        self.departure: Departure = getattr(request, "departure", None) or Departure()

    def query(self, given: Mapping[str, Any]) -> Query:
        """As it counts with what the caller's token holds."""
        asked = {name: given[name] for name in ("query", "mode", "k", "exact")}
        counts = granted(self.holds, given.get("permissions"))
        return Query(**asked, permissions=counts, domain=given.get("domain") or None)

    def answered(self, query: Query, answer: dict[str, Any]) -> dict[str, Any]:
        """What is sent: the answer with the id of this request."""
        return {"id": str(self.log(query, answer)), **answer}

    def log(self, query: Query, answer: Mapping[str, Any] | None, outcome: str = ANSWERED) -> UUID:
        """The id of the request, whether it is kept or not."""
        if self.departure.happened and outcome != ANSWERED:
            outcome = LEFT
        is_kept = random.random() < self.known.serving.logged_share
        key = request_id(self.owner, is_kept)
        asked = {name: value for name, value in query.as_asked().items() if name not in ("query", "exact")}
        entry = Entry(
            key=key,
            owner=self.owner,
            token=self.token,
            token_name=self.token_name,
            caller=self.caller,
            via=self.via,
            query=query.query,
            asked=asked | {"domain": query.domain or ""},
            total_ms=1000 * (time.perf_counter() - self.started),
            answer=answer,
            outcome=outcome,
        )
        requests.add(entry if is_kept else None)
        return key


class RetrieveView(ApiView):
    """Answers in JSON, whatever is accepted: `Accept: text/event-stream` is the view's own."""

    content_negotiation_class = AnyFormat
    rate = "RETRIEVE"
    scope = "retrieve"
    writes = False
    keeps_answers = False  # asking changes nothing: who repeats a call is answered anew

    def read(self, serializer: type[BaseSerializer[Any]], **options: Any) -> dict[str, Any]:
        """As everywhere, by a serializer that is made once: it keeps nothing of what it checks."""
        if serializer not in _made:
            _made[serializer] = serializer()
        checked: dict[str, Any] = _made[serializer].run_validation(self.request.data)
        return checked


written = partial(json.dumps, ensure_ascii=False)
_made: dict[type, BaseSerializer[Any]] = {}


def sent(answer: Mapping[str, Any]) -> HttpResponse:
    return HttpResponse(written(answer), content_type=JSON)


class Retrieve(RetrieveView):
    """The tools for a request, ranked in milliseconds (`fast`) or with a trace that names the rule (`trace`)."""

    @extend_schema(
        request=RetrieveInput,
        responses={
            (200, JSON): RetrieveAnswer,
            (200, EVENTS): OpenApiResponse(
                OpenApiTypes.STR,
                description="events `fast` (mode both: the ranked list), `text` (the trace as it is written), then "
                "`done` (the whole answer) or `error`",
            ),
            404: OpenApiResponse(description="no such model or alias"),
            503: OpenApiResponse(description="no engine can answer now; see Retry-After"),
        },
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Find the tools for a request. Retired and blocked tools are never answered, nor tools that need a
        permission which the token does not hold or the call leaves out of `permissions`. Where the model is
        calibrated, `confidence` says how likely the first tool is right, and `fits` is false for a request that no
        tool answers; its tools are then the nearest ones. While a new champion loads, the one before it answers.
        """
        given, body = self.read(RetrieveInput), request.data
        assert isinstance(body, dict)  # as the serializer has checked
        is_stream = given["stream"]
        if body.get("stream") is None:
            is_stream = request.get_preferred_type([JSON, EVENTS]) == EVENTS
        asking = Asking(request, Via.STREAM if is_stream else Via.SINGLE, given.get("caller", ""))
        query = asking.query(given)
        if is_stream:
            return self.streamed(asking, query, given["model"])
        try:
            answer = retriever.retrieve(query, given["model"], asking.known, departure=asking.departure)
        except TraceError as error:
            asking.log(query, None, error.code)
            raise
        return sent(asking.answered(query, answer))

    def streamed(self, asking: Asking, query: Query, model: str) -> HttpResponseBase:
        """Server-sent events. What is refused before the first of them is refused with its status, as without them."""
        parts = retriever.retrieve_in_parts(query, model, asking.known, departure=asking.departure)
        try:
            first = next(parts)
        except TraceError as error:
            asking.log(query, None, error.code)
            raise
        response = StreamingHttpResponse(_events(asking, query, first, parts), content_type=EVENTS)
        response["X-Accel-Buffering"] = "no"  # of a proxy that would wait for more
        return response


def _events(asking: Asking, query: Query, first: Part, rest: Generator[Part, None, None]) -> Iterator[str]:
    outcome = LEFT
    try:
        for name, data in chain([first], rest):
            if name == "done":
                outcome = ANSWERED
                data = asking.answered(query, data)
            yield event(name, written(data))
    except TraceError as error:
        outcome = error.code
        yield event("error", written(error.as_dict()))
    finally:
        rest.close()
        if outcome != ANSWERED:
            asking.log(query, None, outcome)


class RetrieveBatch(RetrieveView):
    """The tools for several requests at once."""

    @extend_schema(
        request=BatchInput,
        responses={
            200: BatchAnswer,
            404: OpenApiResponse(description="no such model or alias"),
            503: OpenApiResponse(description="no engine can answer now; see Retry-After"),
        },
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Find the tools for several requests. One model answers all of them. A request that it refuses has an
        `error` in its place. Each request counts towards the rate.
        """
        given = self.read(BatchInput)
        counted = ByToken()
        if not counted.allow_request(request, self, more=len(given["requests"]) - 1):
            self.throttled(request, counted.wait())
        asking = Asking(request, Via.BATCH, given.get("caller", ""))
        asked = [one if isinstance(one, TraceError) else asking.query(one) for one in given["requests"]]
        try:
            found = retriever.retrieve_many(asked, given["model"], asking.known, departure=asking.departure)
        except TraceError as error:
            for query in asked:
                if isinstance(query, Query):
                    asking.log(query, None, error.code)
            raise
        answers: list[dict[str, Any]] = []
        for query, one in zip(asked, found, strict=True):
            if isinstance(query, Query) and not isinstance(one, TraceError):
                answers.append({"answer": asking.answered(query, one), "error": None})
            elif isinstance(one, TraceError):
                if isinstance(query, Query):
                    asking.log(query, None, one.code)
                answers.append({"answer": None, "error": one.as_dict()})
        return sent({"answers": answers})


urlpatterns = [
    path("retrieve", Retrieve.as_view(), name="api-retrieve"),
    path("retrieve/batch", RetrieveBatch.as_view(), name="api-retrieve-batch"),
]
