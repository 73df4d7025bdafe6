"""The site's own part of the API: its description, the page to read it on, and /api/v1/audit."""

from datetime import date
from typing import Literal

from django.urls import path
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response

from trace_site.audit.log import Line, page_of_lines, wanted_from
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.throttles import OfDescription
from trace_site.rest.views import ApiView, page_limit


class AuditQuery(InputSerializer, total=False):
    actor: str = field("a user name", max_length=150)
    action: str = field(
        "an event such as `rule.published`, or INSERT, UPDATE, DELETE, TRUNCATE", max_length=100
    )
    object_type: str = field("such as `rule` or `changerequest`", max_length=100)
    object_id: str = field(max_length=200)
    source: str = field("how it begins: `page /rules/`, `api`, `api token 3`, `job 12`", max_length=300)
    since: date
    until: date = field("the whole day counts")
    tx: int = field("one transaction: an event and all its rows", min_value=0, max_value=2**63 - 1)


class ThroughToken(Shape):
    id: int
    kind: Literal["service", "personal"]
    name: str = field("of a service token")
    maker: str = field("who made it; empty: the command line")


class AuditLine(Shape, of=Line):
    fields = "kind id at actor token source action object_type object_id label detail tx before after"
    token: ThroughToken | None = field("the token through which a program acted for the actor")


class AuditList(ApiView):
    @extend_schema(parameters=[AuditQuery], responses=page_of(AuditLine))
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
