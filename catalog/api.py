"""/api/v1/tools, /domains and /clusters: the catalog as the copilot's makers read it."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import selectors
from catalog.models import ToolRevision
from catalog.search import RANKED, ToolFilter, find_tools
from catalog.serializers import (
    BlockIn,
    ClusterOut,
    DomainIn,
    DomainOut,
    NeighbourOut,
    RevisionOut,
    ToolDetail,
    ToolRow,
    ToolsIn,
    TwinOut,
)
from catalog.services import tool_block, tool_unblock
from trace_site.rest.schema import page_of
from trace_site.rest.views import ApiView, keyset_response, page_limit

FOUND = inline_serializer(
    "ToolPage",
    {
        "results": ToolRow(many=True),
        "next": serializers.CharField(allow_null=True, help_text="what ?after= takes; null on the last page"),
        "total": serializers.IntegerField(help_text="matching tools"),
        "more": serializers.BooleanField(
            help_text=f"a search matched more than {RANKED}; they are listed by name"
        ),
        "meant": serializers.DictField(
            child=serializers.ListField(child=serializers.CharField()),
            help_text="words that were searched for beside a typed one, when few tools matched",
        ),
    },
)


def _many(name: str, row: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """The description of a short list that has no pages."""
    return inline_serializer(name, {"results": row(many=True)})


class ToolsList(ApiView):
    @extend_schema(parameters=[ToolsIn], responses=FOUND)
    def get(self, request: Request) -> Response:
        """Find tools. Every word of `q` begins a word of the name or the description; when few tools match,
        words that hold it or are spelt nearly alike count too. The best match first; without `q` by name.
        """
        given = self.read_query(ToolsIn)
        chosen = ToolFilter(search=given.pop("q").strip(), **given)
        found = find_tools(chosen, request.query_params.get("after", ""), page_limit(request))
        told = {"total": found.total, "more": found.more, "meant": found.meant}
        rows = ToolRow(found.page.rows, many=True).data
        return Response({"results": rows, "next": found.page.next_key, **told})


class ToolOne(ApiView):
    @extend_schema(responses=ToolDetail)
    def get(self, request: Request, pk: int) -> Response:
        """Read a tool."""
        return Response(ToolDetail(selectors.tool(pk=pk)).data)


class ToolReadByName(ApiView):
    @extend_schema(responses=ToolDetail)
    def get(self, request: Request, name: str) -> Response:
        """Read a tool by its name. The name as it is, `API/ENDPOINT`; an endpoint may hold slashes."""
        return Response(ToolDetail(selectors.tool(name=name)).data)


class ToolBlock(ApiView):
    operation_ids = {"delete": "tool_unblock"}

    @extend_schema(
        request=BlockIn,
        responses={200: ToolDetail, 409: OpenApiResponse(description="bad_state: it is blocked already")},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Block a tool. From the next request on no answer of any model names it. Training and rules are not
        touched.
        """
        tool_block(tool=selectors.tool(pk=pk), actor=request.user, **self.read(BlockIn))
        return Response(ToolDetail(selectors.tool(pk=pk)).data)

    @extend_schema(
        responses={200: ToolDetail, 409: OpenApiResponse(description="bad_state: it is not blocked")}
    )
    def delete(self, request: Request, pk: int) -> Response:
        """Unblock a tool. Answers may name it again at once."""
        tool_unblock(tool=selectors.tool(pk=pk), actor=request.user)
        return Response(ToolDetail(selectors.tool(pk=pk)).data)


class ToolNeighbours(ApiView):
    @extend_schema(responses=_many("NeighbourList", NeighbourOut))
    def get(self, request: Request, pk: int) -> Response:
        """Look-alikes of a tool. The nearest tools by cosine, the best first; none before look-alikes were found."""
        found = selectors.neighbours(selectors.tool(pk=pk))
        return Response({"results": NeighbourOut(found, many=True).data})


class ToolTwins(ApiView):
    @extend_schema(responses=_many("TwinList", TwinOut))
    def get(self, request: Request, pk: int) -> Response:
        """Other versions of a tool. The active tools that are the same endpoint in other versions of its API,
        the newest first.
        """
        return Response({"results": TwinOut(selectors.twins(selectors.tool(pk=pk)), many=True).data})


class ToolRevisions(ApiView):
    @extend_schema(responses=page_of(RevisionOut))
    def get(self, request: Request, pk: int) -> Response:
        """History of a tool. Every content it ever had, newest first, with the import behind each."""
        rows = ToolRevision.objects.filter(tool=selectors.tool(pk=pk))
        return keyset_response(request, rows, RevisionOut, newest=True)


class DomainsList(ApiView):
    @extend_schema(responses=page_of(DomainOut))
    def get(self, request: Request) -> Response:
        """List domains."""
        return keyset_response(request, selectors.domains_counted(), DomainOut, by="slug")


class ClustersList(ApiView):
    @extend_schema(parameters=[DomainIn], responses=page_of(ClusterOut))
    def get(self, request: Request) -> Response:
        """List clusters of look-alikes. Those of every domain's newest clustering."""
        return keyset_response(request, selectors.clusters(**self.read_query(DomainIn)), ClusterOut)


class ClusterOne(ApiView):
    @extend_schema(
        responses={
            200: ClusterOut,
            404: OpenApiResponse(description="no such cluster in a newest clustering"),
        }
    )
    def get(self, request: Request, pk: int) -> Response:
        """Read a cluster."""
        return Response(ClusterOut(get_object_or_404(selectors.clusters(), pk=pk)).data)


urlpatterns = [
    path("tools", ToolsList.as_view(), name="api-tools"),
    path("tools/<int:pk>", ToolOne.as_view(), name="api-tool"),
    path("tools/named/<path:name>", ToolReadByName.as_view(), name="api-tool-named"),
    path("tools/<int:pk>/block", ToolBlock.as_view(), name="api-tool-block"),
    path("tools/<int:pk>/neighbours", ToolNeighbours.as_view(), name="api-tool-neighbours"),
    path("tools/<int:pk>/twins", ToolTwins.as_view(), name="api-tool-twins"),
    path("tools/<int:pk>/revisions", ToolRevisions.as_view(), name="api-tool-revisions"),
    path("domains", DomainsList.as_view(), name="api-domains"),
    path("clusters", ClustersList.as_view(), name="api-clusters"),
    path("clusters/<int:pk>", ClusterOne.as_view(), name="api-cluster"),
]
