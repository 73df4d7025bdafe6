"""/api/v1/coverage: the figures of each domain's page, its trend, and its clusters by rank."""

from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool
from evaluation.core.coverage import STATES
from evaluation.coverage.gaps import (
    COSTS,
    STATE_GROUPS,
    ClusterFilter,
    clusters,
    confusion_by_group,
    domain_rollups,
    trend,
)
from evaluation.coverage.one_count import one_count
from evaluation.coverage.views import rolled_up
from evaluation.domain import selectors
from evaluation.models import DomainFigures
from trace_site.rest.examples import answer_example, examples_beside, page_example
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.views import ApiView, number_key, page_limit

Out = serializers.Serializer[Any]
EXAMPLES = examples_beside(__file__)
NO_DOMAIN = OpenApiResponse(description="no such domain, or it was not counted yet")


class ShareOut(Out):
    """Of labelled requests."""

    n = serializers.IntegerField()
    wrong = serializers.IntegerField(help_text="whose first tool is not right")
    n_embedding = serializers.IntegerField(help_text="of the n, those that the embedding was asked")
    wrong_embedding = serializers.IntegerField()


class FiguresOut(Out):
    """A domain as counted at `counted_at`, by one definition of groups and for one model."""

    domain = serializers.CharField(source="domain_id")
    counted_at = serializers.DateTimeField(source="at")
    clustering = serializers.IntegerField(
        allow_null=True, help_text="version; null: no look-alikes were looked for"
    )
    definition = serializers.IntegerField(source="definition_id", help_text="of groups")
    model = serializers.IntegerField(
        source="model_id", allow_null=True, help_text="null: the embedding answers"
    )
    alias = serializers.CharField(help_text="champion or newest; empty: no model")
    tools = serializers.IntegerField()
    rules = serializers.IntegerField()
    pairs = serializers.IntegerField(help_text="of look-alikes, in clusters that are not dismissed")
    pairs_covered = serializers.IntegerField(
        source="covered", help_text="told apart by a condition of one rule"
    )
    pairs_named_only = serializers.IntegerField(source="named")
    clusters = serializers.IntegerField()
    clusters_told_apart = serializers.IntegerField(source="done", help_text="at least 80 % of their pairs")
    states = serializers.DictField(child=serializers.IntegerField())
    gaps = serializers.IntegerField(help_text="clusters with a pair that no rule tells apart")
    gaps_measured = serializers.IntegerField()
    expected_wrong = serializers.FloatField(
        source="score", allow_null=True, help_text="wrong answers to expect at such pairs; null: not measured"
    )
    low = serializers.FloatField(source="score_low", allow_null=True, help_text="of its 95 % interval")
    high = serializers.FloatField(source="score_high", allow_null=True)
    of_requests = serializers.IntegerField(source="requests", help_text="that it is of")
    recorded = serializers.IntegerField(help_text="requests of the window in the log")
    window_from = serializers.DateField()
    window_to = serializers.DateField()
    groups = serializers.DictField(child=ShareOut(), help_text="all, covered, exceptions, uncovered, outside")
    sources = serializers.DictField(child=ShareOut(), help_text="benchmark, sample, production")
    tools_measured = serializers.IntegerField(help_text="with a labelled request")


class CoverageOut(FiguresOut):
    said = serializers.CharField(help_text="the sentence that heads the page")
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="where the model is worse than plain embedding search"
    )
    gaps_holding_most = serializers.IntegerField(
        help_text="so many of the first gaps hold more than half of the expected wrong answers"
    )


class PointOut(FiguresOut):
    why = serializers.DictField(help_text="what moved since the point before; empty: the first")


class CoverageOneOut(CoverageOut):
    trend = PointOut(many=True, help_text="the oldest first")


class GapOut(Out):
    cluster = serializers.IntegerField(source="pk")
    rank = serializers.IntegerField()
    label = serializers.CharField(source="cluster.label")  # type: ignore[assignment]  # a field of that name
    state = serializers.CharField(help_text=", ".join(STATES))
    tools = serializers.ListField(child=serializers.CharField(), source="names")
    pairs = serializers.IntegerField()
    pairs_covered = serializers.IntegerField(source="covered")
    pairs_named_only = serializers.IntegerField(source="named")
    expected_wrong = serializers.FloatField(source="score", allow_null=True, help_text="null: not measured")
    low = serializers.FloatField(source="score_low", allow_null=True)
    high = serializers.FloatField(source="score_high", allow_null=True)
    of_requests = serializers.IntegerField(source="requests")
    labelled = serializers.IntegerField(source="n", help_text="labelled requests that concern it")
    wrong = serializers.IntegerField()
    wrong_at_open_pairs = serializers.IntegerField(source="wrong_uncovered")
    wrong_at_pairs_told_apart = serializers.IntegerField(source="wrong_covered")
    owner = serializers.CharField(source="cluster.owner.username", default=None, allow_null=True)
    due = serializers.DateField(source="cluster.due", allow_null=True)
    dismissed_reason = serializers.CharField(source="cluster.dismissed_reason")


class GapsIn(InputSerializer):
    gaps = serializers.BooleanField(
        default=False, help_text="only clusters with a pair that no rule tells apart"
    )
    state = serializers.ChoiceField(default="", allow_blank=True, choices=[*STATES, *STATE_GROUPS])
    cost = serializers.ChoiceField(default="", allow_blank=True, choices=list(COSTS))
    owner = serializers.CharField(
        default="", allow_blank=True, max_length=150, help_text="a user name, `any` or `nobody`"
    )
    q = serializers.CharField(default="", allow_blank=True, max_length=200)


def _figures(of: DomainFigures) -> DomainFigures:
    """Groups in their order."""
    of.groups = {group: of.groups[group] for group in confusion_by_group(of)}
    return of


def _told(page: selectors.DomainPage) -> Any:
    told: Any = _figures(page.figures)
    told.said = _text(selectors.headline(page))
    told.warnings = [_text(one) for one in selectors.warnings(page)]
    told.gaps_holding_most = page.most
    return told


def _text(said: list[selectors.Said]) -> str:
    return "".join(part.text for part in said)


class CoverageList(ApiView):
    @extend_schema(responses=page_of(CoverageOut), examples=[page_example(EXAMPLES["coverage"])])
    def get(self, request: Request) -> Response:
        """List the coverage of every domain. The figures of their pages."""
        size, after = page_limit(request), request.query_params.get("after", "")
        found = [row for slug, row in sorted(domain_rollups().items()) if slug > after][: size + 1]
        told = [_told(page) for page in selectors.domain_pages(found[:size])]
        following = found[size - 1].domain_id if len(found) > size else None
        return Response({"results": CoverageOut(told, many=True).data, "next": following})


class CoverageOne(ApiView):
    @extend_schema(
        responses={200: CoverageOneOut, 404: NO_DOMAIN},
        examples=[answer_example({**EXAMPLES["coverage"], "trend": [EXAMPLES["point"]]})],
    )
    def get(self, request: Request, domain: str) -> Response:
        """Read a domain's coverage. With its trend over rules, clusters and models."""
        told = _told(selectors.domain_page(rolled_up(domain)))
        told.trend = [_figures(point) for point in trend(domain)]
        return Response(CoverageOneOut(told).data)


class CoverageGaps(ApiView):
    @extend_schema(
        parameters=[GapsIn],
        responses={200: page_of(GapOut), 404: NO_DOMAIN},
        examples=[page_example(EXAMPLES["gap"], "31")],
    )
    def get(self, request: Request, domain: str) -> Response:
        """List a domain's clusters by rank. Those with the most wrong answers expected first."""
        rolled_up(domain)
        asked = self.read_query(GapsIn)
        chosen = ClusterFilter(**{**asked, "gaps": "yes" if asked["gaps"] else ""})
        size, after = page_limit(request), number_key(request)
        found: list[Any] = list(clusters(domain, chosen, after=after, size=size + 1))
        shown = found[:size]
        ids = [pk for row in shown for pk in row.cluster.tool_ids]
        names = dict(Tool.objects.filter(pk__in=ids).order_by().values_list("pk", "name"))
        for row in shown:
            row.names = sorted(names[pk] for pk in row.cluster.tool_ids if pk in names)
        following = str(shown[-1].rank) if len(found) > size else None
        return Response({"results": GapOut(shown, many=True).data, "next": following})


urlpatterns = [
    path("coverage", one_count(CoverageList.as_view()), name="api-coverage-list"),
    path("coverage/<slug:domain>", one_count(CoverageOne.as_view()), name="api-coverage"),
    path("coverage/<slug:domain>/gaps", one_count(CoverageGaps.as_view()), name="api-coverage-gaps"),
]
