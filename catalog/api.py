"""/api/v1/tools, /domains and /clusters: the catalog as the copilot's makers read it."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog import examples, selectors
from catalog.blocks import tool_block, tool_unblock
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
from trace_site.rest.examples import answer_example, page_example, request_example
from trace_site.rest.schema import PAGE_PARAMETERS, page_of
from trace_site.rest.views import ApiView, keyset_response, page_limit

NO_TOOL = OpenApiResponse(description="no such tool")
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


class Tools(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="tools_list",
        summary="Find tools",
        description="Every word of `q` begins a word of the name or the description; when few tools match, words "
        "that hold it or are spelt nearly alike count too. The best match first; without `q` by name.",
        parameters=[ToolsIn, *PAGE_PARAMETERS],
        responses=FOUND,
        examples=[answer_example(examples.FOUND)],
    )
    def get(self, request: Request) -> Response:
        given = self.read_query(ToolsIn)
        chosen = ToolFilter(search=given.pop("q").strip(), **given)
        found = find_tools(chosen, request.query_params.get("after", ""), page_limit(request))
        return Response(
            {
                "results": ToolRow(found.page.rows, many=True).data,
                "next": found.page.next_key,
                "total": found.total,
                "more": found.more,
                "meant": found.meant,
            }
        )


class ToolOne(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="tool_read",
        summary="Read a tool",
        responses={200: ToolDetail, 404: NO_TOOL},
        examples=[answer_example(examples.DETAIL)],
    )
    def get(self, request: Request, pk: int) -> Response:
        return Response(ToolDetail(selectors.tool(pk)).data)


class ToolNamed(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="tool_read_by_name",
        summary="Read a tool by its name",
        description="The name as it is, `API/ENDPOINT`; an endpoint may hold slashes.",
        responses={200: ToolDetail, 404: NO_TOOL},
        examples=[answer_example(examples.DETAIL)],
    )
    def get(self, request: Request, name: str) -> Response:
        return Response(ToolDetail(selectors.tool_named(name)).data)


class Block(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="tool_block",
        summary="Block a tool",
        description="From the next request on no answer of any model names it. Training and rules are not touched.",
        request=BlockIn,
        responses={
            200: ToolDetail,
            404: NO_TOOL,
            409: OpenApiResponse(description="bad_state: it is blocked already"),
        },
        examples=[
            request_example(examples.BLOCKING),
            answer_example(examples.BLOCKED),
            answer_example(examples.BLOCKED_ALREADY, 409, "blocked already"),
        ],
    )
    def post(self, request: Request, pk: int) -> Response:
        tool = selectors.tool(pk)
        tool_block(tool=tool, actor=request.user, **self.read(BlockIn))
        return Response(ToolDetail(selectors.tool(pk)).data)

    @extend_schema(
        tags=["catalog"],
        operation_id="tool_unblock",
        summary="Unblock a tool",
        description="Answers may name it again at once.",
        request=None,
        responses={
            200: ToolDetail,
            404: NO_TOOL,
            409: OpenApiResponse(description="bad_state: it is not blocked"),
        },
        examples=[answer_example(examples.DETAIL)],
    )
    def delete(self, request: Request, pk: int) -> Response:
        tool_unblock(tool=selectors.tool(pk), actor=request.user)
        return Response(ToolDetail(selectors.tool(pk)).data)


class Neighbours(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="tool_neighbours",
        summary="Look-alikes of a tool",
        description="The nearest tools by cosine, the best first; none before look-alikes were found.",
        responses={200: _many("NeighbourList", NeighbourOut), 404: NO_TOOL},
        examples=[answer_example({"results": [{"score": 0.93, "tool": examples.OLDER}]})],
    )
    def get(self, request: Request, pk: int) -> Response:
        found = selectors.neighbours(selectors.tool(pk))
        return Response({"results": NeighbourOut(found, many=True).data})


class Twins(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="tool_twins",
        summary="Other versions of a tool",
        description="The active tools that are the same endpoint in other versions of its API, the newest first.",
        responses={200: _many("TwinList", TwinOut), 404: NO_TOOL},
        examples=[answer_example({"results": [{"newer": False, "tool": examples.OLDER}]})],
    )
    def get(self, request: Request, pk: int) -> Response:
        return Response({"results": TwinOut(selectors.twins(selectors.tool(pk)), many=True).data})


class Revisions(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="tool_revisions",
        summary="History of a tool",
        description="Every content it ever had, newest first, with the import behind each.",
        parameters=PAGE_PARAMETERS,
        responses={200: page_of(RevisionOut), 404: NO_TOOL},
        examples=[page_example(examples.REVISION, "90")],
    )
    def get(self, request: Request, pk: int) -> Response:
        rows = ToolRevision.objects.filter(tool=selectors.tool(pk))
        return keyset_response(request, rows, RevisionOut, newest=True)


class Domains(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="domains_list",
        summary="List domains",
        parameters=PAGE_PARAMETERS,
        responses=page_of(DomainOut),
        examples=[page_example(examples.DOMAIN, None)],
    )
    def get(self, request: Request) -> Response:
        return keyset_response(request, selectors.domains_counted(), DomainOut, by="slug")


class Clusters(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="clusters_list",
        summary="List clusters of look-alikes",
        description="Those of every domain's newest clustering.",
        parameters=[DomainIn, *PAGE_PARAMETERS],
        responses=page_of(ClusterOut),
        examples=[page_example(examples.CLUSTER, "31")],
    )
    def get(self, request: Request) -> Response:
        return keyset_response(request, selectors.clusters(**self.read_query(DomainIn)), ClusterOut)


class ClusterOne(ApiView):
    @extend_schema(
        tags=["catalog"],
        operation_id="cluster_read",
        summary="Read a cluster",
        responses={
            200: ClusterOut,
            404: OpenApiResponse(description="no such cluster in a newest clustering"),
        },
        examples=[answer_example(examples.CLUSTER)],
    )
    def get(self, request: Request, pk: int) -> Response:
        return Response(ClusterOut(get_object_or_404(selectors.clusters(), pk=pk)).data)


urlpatterns = [
    path("tools", Tools.as_view(), name="api-tools"),
    path("tools/<int:pk>", ToolOne.as_view(), name="api-tool"),
    path("tools/named/<path:name>", ToolNamed.as_view(), name="api-tool-named"),
    path("tools/<int:pk>/block", Block.as_view(), name="api-tool-block"),
    path("tools/<int:pk>/neighbours", Neighbours.as_view(), name="api-tool-neighbours"),
    path("tools/<int:pk>/twins", Twins.as_view(), name="api-tool-twins"),
    path("tools/<int:pk>/revisions", Revisions.as_view(), name="api-tool-revisions"),
    path("domains", Domains.as_view(), name="api-domains"),
    path("clusters", Clusters.as_view(), name="api-clusters"),
    path("clusters/<int:pk>", ClusterOne.as_view(), name="api-cluster"),
]
