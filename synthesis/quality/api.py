"""/api/v1/review/quality: agreement of readers, the judge against people, the reviewers."""

from typing import Literal

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.core.agreement import FLOOR, TARGET, Estimate, Rate
from synthesis.quality.agreement import agreements, only_own, qualities
from synthesis.quality.calibration import calibrations
from trace_site.rest.schema import InputSerializer, finite
from trace_site.rest.shapes import Shape, field
from trace_site.rest.views import ApiView


class EstimateOut(Shape, of=Estimate):
    """A coefficient over n samples with its 95 % interval; without a value `why` says what is missing."""

    verdict: Literal["reliable", "tentative", "unreliable", "cannot tell"]

    class Meta:
        ref_name = "Coefficient"


class RateOut(Shape, of=Rate):
    """hits of n with the 95 % Wilson interval; n may be an effective number where readings weigh differently."""


class AgreementOut(Shape):
    name: str = field("domain, style or tier; all")
    n: int = field("samples read twice")
    alpha: EstimateOut = field("Krippendorff's, nominal")
    same_verdict: RateOut
    same_outcome: RateOut = field("the same texts, or both rejected")


class PairOut(Shape):
    one: str
    other: str
    n: int
    kappa: EstimateOut = field("Cohen's, over approve, edit, reject")
    collapsed: EstimateOut = field("the same with an edit counted as an approval")
    same_verdict: RateOut


class AgreementsOut(Shape):
    overall: AgreementOut
    domains: list[AgreementOut]
    styles: list[AgreementOut]
    pairs: list[PairOut] = field("of an admin all, else the own; the 50 with most in common")
    more_pairs: int


class ReadsOut(Shape):
    approved: int
    edited: int
    rejected: int
    read: int
    samples: int = field("all the judge gave this verdict, read or not")


class ProposalOut(Shape):
    share: float = field("of what the judge accepts, to read")
    percent: int
    why: str = field("the arithmetic")


class SliceOut(Shape):
    domain: str = field("empty: every domain")
    kind: str = field("style or tier; empty: all")
    accepted: ReadsOut
    refused: ReadsOut
    false_accept: RateOut = field("of what the judge accepts, what people reject; of all samples")
    false_refuse: RateOut = field("of what the judge refuses, what people approve; of all samples")
    proposal: ProposalOut


class JudgeOut(Shape):
    judge: str = field("offline, or llm:model")
    kappa: EstimateOut = field("of all samples: weighted by how often the judge gave each verdict")
    overall: SliceOut
    domains: list[SliceOut]
    kinds: list[SliceOut]
    cells: list[SliceOut] = field("every domain and kind")


class ReviewerOut(Shape):
    name: str
    readings: int
    adjudicated: RateOut = field("of readings a third person decided about: the same outcome")
    reversed: RateOut = field("of readings of samples read twice: decided otherwise in the end")
    rejected: RateOut
    expected: float | None = field("what others reject of the same mixture; null: nobody else read there")
    taken_back: RateOut
    stands_out: Literal["", "high", "low"]


class QualityOut(Shape):
    agreement: AgreementsOut
    judges: list[JudgeOut]
    reviewers: list[ReviewerOut] = field("of an admin all, else the own")


class QualityIn(InputSerializer):
    target: float = field(
        "share of defects one can live with",
        default=TARGET,
        min_value=0.001,
        max_value=0.5,
        validators=[finite],
    )
    floor: float = field(
        "least share to read that is proposed", default=FLOOR, min_value=0, max_value=1, validators=[finite]
    )
    edits: Literal["approve", "reject"] = field("what an edit counts as against the judge", default="approve")


class ReviewQualityOne(ApiView):
    @extend_schema(parameters=[QualityIn], responses=QualityOut)
    def get(self, request: Request) -> Response:
        """Read how good the readings are. Agreement of blind readings per style, domain and pair; per judge
        its verdicts against people's decisions with the share to read that follows; each reviewer against
        adjudications and the others. A reviewer gets totals, the own row and own pairs; an admin all.
        """
        given = self.read_query(QualityIn)
        own = only_own(request.user)
        strict = given.pop("edits") == "reject"
        report = {"agreement": agreements(reviewer=own), "judges": calibrations(strict=strict, **given)}
        return Response(QualityOut({**report, "reviewers": qualities(own)}).data)


urlpatterns = [path("review/quality", ReviewQualityOne.as_view(), name="api-review-quality")]
