"""/api/v1/queries: the registry's real queries, scrubbed; list, import, remove."""

from typing import Annotated

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import LabelledQuery
from catalog.queries.imports import (
    MOST_ROWS,
    GivenQuery,
    Proposal,
    import_counts,
    queries_import,
    queries_preview,
    query_remove,
)
from catalog.queries.registry import real_queries, real_query
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView, keyset_response


class QueriesIn(InputSerializer):
    q: str = field("every word occurs in the query", default="", max_length=200)
    collection: str = field(default="", max_length=100)


class QueryImportIn(InputSerializer):
    collection: str = field("where the queries come from", max_length=100)
    queries: list[Annotated[str, field(max_length=100_000, allow_blank=True)]] = field(
        min_length=1, max_length=MOST_ROWS
    )
    no_person: list[Annotated[int, field(min_value=1, max_value=MOST_ROWS)]] = field(
        "rows, counted from 1, in which what reads like a name is none", default=list, max_length=MOST_ROWS
    )
    dry_run: bool = field("answer what it would do, store nothing", default=False)


class RealQuery(Shape, of=LabelledQuery):
    fields = "id text collection replaced created_at"
    replaced: list[str] = field("kinds of personal data that were taken out")

    def get_replaced(self, row: LabelledQuery) -> list[str]:
        return list(row.extra.get("replaced", ()))


class ProposedQuery(Shape, of=Proposal):
    fields = "row text replaced code reason"
    row: int = field(source="number")
    replaced: list[str] = field(source="done.kinds")


class QueryImportOut(Shape):
    added: int
    refused: int
    reasons: dict[str, int] = field("refused rows by code")
    replaced: dict[str, int] = field("what was taken out, by kind")
    rows: list[ProposedQuery] = field("of a dry run all rows, else the refused ones")


class QueriesList(ApiView):
    operation_ids = {"post": "queries_import"}

    @extend_schema(parameters=[QueriesIn], responses=page_of(RealQuery))
    def get(self, request: Request) -> Response:
        """List real queries. The few-shot queries that writers learn the tone from, newest first."""
        given = self.read_query(QueriesIn)
        return keyset_response(request, real_queries(given["q"], given["collection"]), RealQuery, newest=True)

    @extend_schema(
        request=QueryImportIn,
        responses={
            200: OpenApiResponse(QueryImportOut, description="what a dry run would do"),
            201: OpenApiResponse(QueryImportOut, description="the taken queries are stored"),
        },
    )
    def post(self, request: Request) -> Response:
        """Import real queries. Personal data is replaced before anything is stored. Refused with a reason:
        what repeats another query or a benchmark's, names a tool, or is too short or too long. People should
        read a dry run: no list of patterns knows all names.
        """
        given = self.read(QueryImportIn)
        rows = [GivenQuery(number, text) for number, text in enumerate(given["queries"], start=1)]
        no_person, status = given["no_person"], 200 if given["dry_run"] else 201
        if given["dry_run"]:
            found = shown = queries_preview(rows, no_person=no_person)
        else:
            chosen = {"collection": given["collection"], "no_person": no_person}
            found = queries_import(given=rows, actor=request.user, **chosen)
            shown = [one for one in found if one.code]
        return Response(QueryImportOut({**import_counts(found), "rows": shown}).data, status=status)


class QueryOne(ApiView):
    @extend_schema(responses=RealQuery)
    def get(self, request: Request, pk: int) -> Response:
        """Read a real query."""
        return Response(RealQuery(real_query(pk)).data)

    @extend_schema(responses={204: OpenApiResponse(description="it is gone")})
    def delete(self, request: Request, pk: int) -> Response:
        """Remove a real query. New samples are no longer shown it; those that were become outdated, not wrong."""
        query_remove(row=real_query(pk), actor=request.user)
        return Response(status=204)


urlpatterns = [
    path("queries", QueriesList.as_view(), name="api-queries"),
    path("queries/<int:pk>", QueryOne.as_view(), name="api-query"),
]
