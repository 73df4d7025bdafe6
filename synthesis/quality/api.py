"""/api/v1/review/quality: agreement of readers, the judge against people, the reviewers."""

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.core.calibration import FLOOR, TARGET
from synthesis.quality import serializers as quality_serializers
from synthesis.quality.reports import agreement_report, judge_report, reviewer_report
from synthesis.quality.serializers import QualityOut
from trace_site.rest.examples import answer_example
from trace_site.rest.schema import InputSerializer, finite
from trace_site.rest.views import ApiView


class QualityIn(InputSerializer):
    target = serializers.FloatField(
        default=TARGET,
        min_value=0.001,
        max_value=0.5,
        validators=[finite],
        help_text="share of defects one can live with",
    )
    floor = serializers.FloatField(
        default=FLOOR,
        min_value=0,
        max_value=1,
        validators=[finite],
        help_text="least share to read that is proposed",
    )
    edits = serializers.ChoiceField(
        ["approve", "reject"], default="approve", help_text="what an edit counts as against the judge"
    )


class QualityOne(ApiView):
    @extend_schema(
        tags=["synthesis"],
        operation_id="review_quality_read",
        summary="Read how good the readings are",
        description="Agreement of blind readings per style, domain and pair; per judge its verdicts against people's "
        "decisions with the share to read that follows; each reviewer against adjudications and the others. A reviewer "
        "gets totals, the own row and own pairs; an admin all.",
        parameters=[QualityIn],
        responses={200: QualityOut},
        examples=[answer_example(quality_serializers.QUALITY)],
    )
    def get(self, request: Request) -> Response:
        given = self.read_query(QualityIn)
        strict = given.pop("edits") == "reject"
        report = {
            "agreement": agreement_report(request.user),
            "judges": judge_report(strict=strict, **given),
            "reviewers": reviewer_report(request.user),
        }
        return Response(QualityOut(report).data)


urlpatterns = [path("review/quality", QualityOne.as_view(), name="api-review-quality")]
