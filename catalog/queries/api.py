"""/api/v1/queries: the registry's real queries, scrubbed; list, import, remove."""

from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import examples
from catalog.models import LabelledQuery
from catalog.queries.imports import (
    MOST_ROWS,
    GivenQuery,
    import_counts,
    queries_import,
    queries_preview,
    query_remove,
)
from catalog.queries.registry import real_queries, real_query
from trace_site.rest.examples import answer_example, page_example, request_example
from trace_site.rest.schema import InputSerializer, TextList, page_of
from trace_site.rest.views import ApiView, keyset_response

Out = serializers.Serializer[Any]


class QueriesIn(InputSerializer):
    q = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="every word occurs in the query"
    )
    collection = serializers.CharField(default="", allow_blank=True, max_length=100)


class QueryImportIn(InputSerializer):
    collection = serializers.CharField(max_length=100, help_text="where the queries come from")
    queries = serializers.ListField(
        child=serializers.CharField(max_length=100_000, allow_blank=True), min_length=1, max_length=MOST_ROWS
    )
    no_person = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=MOST_ROWS),
        default=list,
        max_length=MOST_ROWS,
        help_text="rows, counted from 1, in which what reads like a name is none",
    )
    dry_run = serializers.BooleanField(default=False, help_text="answer what it would do, store nothing")


class RealQuery(serializers.ModelSerializer[LabelledQuery]):
    replaced = serializers.SerializerMethodField(help_text="kinds of personal data that were taken out")

    class Meta:
        model = LabelledQuery
        fields = ["id", "text", "collection", "replaced", "created_at"]

    def get_replaced(self, row: LabelledQuery) -> list[str]:
        return list(row.extra.get("replaced", ()))


class ProposedQuery(Out):
    row = serializers.IntegerField(source="number")
    text = serializers.CharField(help_text="as it is stored: what was found is never repeated")
    replaced = TextList(source="done.kinds")
    code = serializers.CharField(help_text="why it is refused; empty when it is taken")
    reason = serializers.CharField()


class QueryImportOut(Out):
    added = serializers.IntegerField()
    refused = serializers.IntegerField()
    reasons = serializers.DictField(child=serializers.IntegerField(), help_text="refused rows by code")
    replaced = serializers.DictField(
        child=serializers.IntegerField(), help_text="what was taken out, by kind"
    )
    rows = ProposedQuery(many=True, help_text="of a dry run all rows, else the refused ones")


class QueriesList(ApiView):
    operation_ids = {"post": "queries_import"}

    @extend_schema(
        parameters=[QueriesIn], responses=page_of(RealQuery), examples=[page_example(examples.QUERY, "41")]
    )
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
        examples=[
            request_example(examples.QUERIES_SENT),
            answer_example(examples.QUERIES_DONE),
            answer_example(examples.QUERIES_DONE, 201),
        ],
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
    @extend_schema(responses=RealQuery, examples=[answer_example(examples.QUERY)])
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
