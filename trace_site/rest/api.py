"""The site's own part of the API: its description, the page to read it on, and /api/v1/audit."""

from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from trace_site.audit.log import page_of_lines, wanted_from
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.throttles import OfDescription
from trace_site.rest.views import ApiView, page_limit

EXAMPLE = {
    "results": [
        {
            "kind": "change",
            "id": 812,
            "at": "2026-11-21T14:02:11.120000Z",
            "actor": "erin",
            "token": None,
            "source": "page /rules/requests/7/apply/",
            "action": "UPDATE",
            "object_type": "rule",
            "object_id": "31",
            "label": "",
            "detail": {},
            "tx": 90211,
            "before": {"published_id": 55},
            "after": {"published_id": 61},
        }
    ],
    "next": "1795269731120000-change-812",
}


class AuditQuery(InputSerializer):
    actor = serializers.CharField(required=False, max_length=150, help_text="a user name")
    action = serializers.CharField(
        required=False,
        max_length=100,
        help_text="an event such as `rule.published`, or INSERT, UPDATE, DELETE, TRUNCATE",
    )
    object_type = serializers.CharField(
        required=False, max_length=100, help_text="such as `rule` or `changerequest`"
    )
    object_id = serializers.CharField(required=False, max_length=200)
    source = serializers.CharField(  # type: ignore[assignment]
        required=False,
        max_length=300,
        help_text="how it begins: `page /rules/`, `api`, `api token 3`, `job 12`",
    )
    since = serializers.DateField(required=False)
    until = serializers.DateField(required=False, help_text="the whole day counts")
    tx = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=2**63 - 1,
        help_text="one transaction: an event and all its rows",
    )


class ThroughToken(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=["service", "personal"])
    name = serializers.CharField(allow_blank=True, help_text="of a service token")
    maker = serializers.CharField(allow_blank=True, help_text="who made it; empty: the command line")


class AuditLine(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=["event", "change"], help_text="a named event, or a changed row")
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(allow_blank=True, help_text="empty: a command, a sweep or raw SQL")
    token = ThroughToken(allow_null=True, help_text="the token through which a program acted for the actor")
    source = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    action = serializers.CharField()
    object_type = serializers.CharField()
    object_id = serializers.CharField()
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    detail = serializers.DictField()
    tx = serializers.IntegerField(allow_null=True)
    before = serializers.DictField(allow_null=True, help_text="of an UPDATE, the columns that changed")
    after = serializers.DictField(allow_null=True)


class AuditList(ApiView):
    @extend_schema(
        parameters=[AuditQuery],
        responses=page_of(AuditLine),
        examples=[OpenApiExample("a rule was published", EXAMPLE, response_only=True)],
    )
    def get(self, request: Request) -> Response:
        """Who did what. Newest first. Row changes that a named event tells are listed when one asks for an
        object, an operation, a source or a transaction. How a sample was judged is told once no reading of it
        waits; until then the event is `sample.read`.
        """
        self.read_query(AuditQuery)
        page = page_of_lines(
            wanted_from(request.query_params), request.query_params.get("after", ""), size=page_limit(request)
        )
        return Response({"results": AuditLine(page.rows, many=True).data, "next": page.next_key})


class Docs(SpectacularSwaggerSplitView):
    """Swagger UI from our own files: one page, and one script so that no script stands in the page."""

    template_name = "api_docs.html"
    url_name = "api-schema"


urlpatterns = [
    path("schema", SpectacularAPIView.as_view(throttle_classes=[OfDescription]), name="api-schema"),
    path("docs", Docs.as_view(), name="api-docs"),
    path("audit", AuditList.as_view(), name="api-audit"),
]
