"""/api/v1/coverage: the figures of each domain's page, its trend, and its clusters by rank."""

from datetime import date, datetime
from typing import Any

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.models import Tool
from evaluation.core.coverage import STATES
from evaluation.coverage.counted import figures_by_domain
from evaluation.coverage.gaps import (
    COSTS,
    STATE_GROUPS,
    ClusterFilter,
    clusters,
    confusion_by_group,
    trend,
)
from evaluation.coverage.views import figures_of
from evaluation.domain import selectors
from evaluation.models import DomainPoint
from trace_site.rest.schema import InputSerializer, page_of
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView, number_key, page_limit

NO_DOMAIN = OpenApiResponse(description="no such domain, or it was not counted yet")


class ShareOut(Shape):
    """Of labelled requests."""

    n: int
    wrong: int = field("whose first tool is not right")
    n_embedding: int = field("of the n, those that the embedding was asked")
    wrong_embedding: int
    answer: str = field(
        "whether the model is better than the embedding: better, worse or cannot tell; empty: not told",
        default="",
    )


class FiguresOut(Shape):
    """A domain as counted at `counted_at`, by rules and clusters of one moment and for one model."""

    domain: str = field(source="domain_id")
    counted_at: datetime = field(source="at")
    clustering: int | None = field("version; null: no look-alikes were looked for")
    model: int | None = field("null: the embedding answers", source="model_id")
    alias: str = field("champion or newest; empty: no model")
    tools: int
    rules: int
    pairs: int = field("of look-alikes, in clusters that are not dismissed")
    pairs_covered: int = field("told apart by a condition of one rule", source="covered")
    pairs_named_only: int = field(source="named")
    clusters: int
    clusters_told_apart: int = field("at least 80 % of their pairs", source="done")
    states: dict[str, int]
    gaps: int = field("clusters with a pair that no rule tells apart")
    gaps_measured: int
    expected_wrong: float | None = field(
        "wrong answers to expect at such pairs; null: not measured", source="score"
    )
    low: float | None = field("of its 95 % interval", source="score_low")
    high: float | None = field(source="score_high")
    of_requests: int = field("that it is of", source="requests")
    recorded: int = field("requests of the window in the log")
    window_from: date
    window_to: date
    groups: dict[str, ShareOut] = field("all, covered, exceptions, uncovered, outside")
    sources: dict[str, ShareOut] = field("benchmark, sample, production")
    tools_measured: int = field("with a labelled request")


class CoverageOut(FiguresOut):
    said: str = field("the sentence that heads the page")
    warnings: list[str] = field("where the model is worse than plain embedding search")
    gaps_holding_most: int = field(
        "so many of the first gaps hold more than half of the expected wrong answers"
    )


class PointOut(FiguresOut):
    why: dict[str, Any] = field("what moved since the point before; empty: the first")


class CoverageOneOut(CoverageOut):
    trend: list[PointOut] = field("the oldest first")


class GapOut(Shape):
    cluster: int = field(source="pk")
    rank: int
    label: str = field(source="cluster.label")
    state: str = field(", ".join(STATES))
    tools: list[str] = field(source="names")
    pairs: int
    pairs_covered: int = field(source="covered")
    pairs_named_only: int = field(source="named")
    expected_wrong: float | None = field("null: not measured", source="score")
    low: float | None = field(source="score_low")
    high: float | None = field(source="score_high")
    of_requests: int = field(source="requests")
    labelled: int = field("labelled requests that concern it", source="n")
    wrong: int
    wrong_at_open_pairs: int = field(source="wrong_uncovered")
    wrong_at_pairs_told_apart: int = field(source="wrong_covered")
    owner: str | None = field(source="cluster.owner.username", default=None)
    due: date | None = field(source="cluster.due")
    dismissed_reason: str = field(source="cluster.dismissed_reason")


class GapsIn(InputSerializer):
    gaps: bool = field("only clusters with a pair that no rule tells apart", default=False)
    state: str = field(default="", allow_blank=True, choices=[*STATES, *STATE_GROUPS])
    cost: str = field(default="", allow_blank=True, choices=list(COSTS))
    owner: str = field("a user name, `any` or `nobody`", default="", max_length=150)
    q: str = field(default="", max_length=200)


def _figures(of: DomainPoint) -> DomainPoint:
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
    @extend_schema(responses=page_of(CoverageOut))
    def get(self, request: Request) -> Response:
        """List the coverage of every domain. The figures of their pages."""
        size, after = page_limit(request), request.query_params.get("after", "")
        found = [row for slug, row in sorted(figures_by_domain().items()) if slug > after][: size + 1]
        told = [_told(selectors.domain_page(row)) for row in found[:size]]
        following = found[size - 1].domain_id if len(found) > size else None
        return Response({"results": CoverageOut(told, many=True).data, "next": following})


class CoverageOne(ApiView):
    @extend_schema(responses={200: CoverageOneOut, 404: NO_DOMAIN})
    def get(self, request: Request, domain: str) -> Response:
        """Read a domain's coverage. With its trend over rules, clusters and models."""
        told = _told(selectors.domain_page(figures_of(domain)))
        told.trend = [_figures(point) for point in trend(domain)]
        return Response(CoverageOneOut(told).data)


class CoverageGaps(ApiView):
    @extend_schema(parameters=[GapsIn], responses={200: page_of(GapOut), 404: NO_DOMAIN})
    def get(self, request: Request, domain: str) -> Response:
        """List a domain's clusters by rank. Those with the most wrong answers expected first."""
        figures_of(domain)
        asked = self.read_query(GapsIn)
        chosen = ClusterFilter(**{**asked, "gaps": "yes" if asked["gaps"] else ""})
        size, after = page_limit(request), number_key(request)
        found: list[Any] = [*clusters(domain, chosen, after=after, size=size + 1)]
        shown = found[:size]
        ids = [pk for row in shown for pk in row.cluster.tool_ids]
        names = dict(Tool.objects.filter(pk__in=ids).order_by().values_list("pk", "name"))
        for row in shown:
            row.names = sorted(names[pk] for pk in row.cluster.tool_ids if pk in names)
        following = str(shown[-1].rank) if len(found) > size else None
        return Response({"results": GapOut(shown, many=True).data, "next": following})


urlpatterns = [
    path("coverage", CoverageList.as_view(), name="api-coverage-list"),
    path("coverage/<slug:domain>", CoverageOne.as_view(), name="api-coverage"),
    path("coverage/<slug:domain>/gaps", CoverageGaps.as_view(), name="api-coverage-gaps"),
]
