"""/api/v1/tools, /domains and /clusters: the catalog as the copilot's makers read it."""

from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import selectors
from catalog.models import ToolRevision
from catalog.search import ToolFilter, find_tools
from catalog.serializers import (
    BlockIn,
    ClusterOut,
    DomainIn,
    DomainOut,
    NeighbourList,
    RevisionOut,
    ToolDetail,
    ToolPage,
    ToolsIn,
    TwinList,
)
from catalog.services import tool_block, tool_unblock
from trace_site.rest.schema import page_of
from trace_site.rest.views import ApiView, keyset_response, page_limit


class ToolsList(ApiView):
    @extend_schema(parameters=[ToolsIn], responses=ToolPage)
    def get(self, request: Request) -> Response:
        """Find tools. Every word of `q` begins a word of the name or the description; when few tools match,
        words that hold it or are spelt nearly alike count too. The best match first; without `q` by name.
        """
        given = self.read_query(ToolsIn)
        chosen = ToolFilter(search=given.pop("q").strip(), **given)
        found = find_tools(chosen, request.query_params.get("after", ""), page_limit(request))
        return Response(ToolPage(found).data)


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
    @extend_schema(responses=NeighbourList)
    def get(self, request: Request, pk: int) -> Response:
        """Look-alikes of a tool. The nearest tools by cosine, the best first; none before look-alikes were found."""
        return Response(NeighbourList({"results": selectors.neighbours(selectors.tool(pk=pk))}).data)


class ToolTwins(ApiView):
    @extend_schema(responses=TwinList)
    def get(self, request: Request, pk: int) -> Response:
        """Other versions of a tool. The active tools that are the same endpoint in other versions of its API,
        the newest first.
        """
        return Response(TwinList({"results": selectors.twins(selectors.tool(pk=pk))}).data)


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
