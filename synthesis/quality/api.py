"""/api/v1/review/quality: agreement of readers, the judge against people, the reviewers."""

from typing import Any

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from synthesis.core.agreement import FLOOR, TARGET
from synthesis.quality.agreement import agreements, only_own, qualities
from synthesis.quality.calibration import calibrations
from trace_site.rest.examples import answer_example
from trace_site.rest.schema import InputSerializer, Out, finite
from trace_site.rest.views import ApiView

# What the API answers about the quality of readings.


class EstimateOut(Out):
    """A coefficient over n samples with its 95 % interval; without a value `why` says what is missing."""

    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    n = serializers.IntegerField()
    why = serializers.CharField()
    verdict = serializers.ChoiceField(["reliable", "tentative", "unreliable", "cannot tell"])

    class Meta:
        ref_name = "Coefficient"


class RateOut(Out):
    """hits of n with the 95 % Wilson interval; n may be an effective number where readings weigh differently."""

    hits = serializers.FloatField()
    n = serializers.FloatField()
    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField()
    high = serializers.FloatField()


class AgreementOut(Out):
    name = serializers.CharField(help_text="domain, style or tier; all")
    n = serializers.IntegerField(help_text="samples read twice")
    alpha = EstimateOut(help_text="Krippendorff's, nominal")
    same_verdict = RateOut()
    same_outcome = RateOut(help_text="the same texts, or both rejected")


class PairOut(Out):
    one = serializers.CharField()
    other = serializers.CharField()
    n = serializers.IntegerField()
    kappa = EstimateOut(help_text="Cohen's, over approve, edit, reject")
    collapsed = EstimateOut(help_text="the same with an edit counted as an approval")
    same_verdict = RateOut()


class AgreementsOut(Out):
    overall = AgreementOut()
    domains = AgreementOut(many=True)
    styles = AgreementOut(many=True)
    pairs = PairOut(many=True, help_text="of an admin all, else the own; the 50 with most in common")
    more_pairs = serializers.IntegerField()


class ReadsOut(Out):
    approved = serializers.IntegerField()
    edited = serializers.IntegerField()
    rejected = serializers.IntegerField()
    read = serializers.IntegerField()
    samples = serializers.IntegerField(help_text="all the judge gave this verdict, read or not")


class ProposalOut(Out):
    share = serializers.FloatField(help_text="of what the judge accepts, to read")
    percent = serializers.IntegerField()
    why = serializers.CharField(help_text="the arithmetic")


class SliceOut(Out):
    domain = serializers.CharField(help_text="empty: every domain")
    kind = serializers.CharField(help_text="style or tier; empty: all")
    accepted = ReadsOut()
    refused = ReadsOut()
    false_accept = RateOut(help_text="of what the judge accepts, what people reject; of all samples")
    false_refuse = RateOut(help_text="of what the judge refuses, what people approve; of all samples")
    proposal = ProposalOut()


class JudgeOut(Out):
    judge = serializers.CharField(help_text="offline, or llm:model")
    kappa = EstimateOut(help_text="of all samples: weighted by how often the judge gave each verdict")
    overall = SliceOut()
    domains = SliceOut(many=True)
    kinds = SliceOut(many=True)
    cells = SliceOut(many=True, help_text="every domain and kind")


class ReviewerOut(Out):
    name = serializers.CharField()
    readings = serializers.IntegerField()
    adjudicated = RateOut(help_text="of readings a third person decided about: the same outcome")
    reversed = RateOut(help_text="of readings of samples read twice: decided otherwise in the end")
    rejected = RateOut()
    expected = serializers.FloatField(
        allow_null=True, help_text="what others reject of the same mixture; null: nobody else read there"
    )
    taken_back = RateOut()
    stands_out = serializers.ChoiceField(["", "high", "low"])


class QualityOut(Out):
    agreement = AgreementsOut()
    judges = JudgeOut(many=True)
    reviewers = ReviewerOut(many=True, help_text="of an admin all, else the own")


# An example of /api/v1/review/quality: two reviewers, the offline judge, one domain and style.


def coefficient(value: float, low: float, high: float, n: int, verdict: str) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": n, "why": "", "verdict": verdict}


def rate(hits: float, n: float, low: float, high: float) -> dict[str, Any]:
    return {"hits": hits, "n": n, "value": round(hits / n, 3), "low": low, "high": high}


NAMED = {
    "n": 120,
    "alpha": coefficient(0.71, 0.57, 0.83, 120, "cannot tell"),
    "same_verdict": rate(108, 120, 0.833, 0.942),
    "same_outcome": rate(104, 120, 0.794, 0.916),
}
PAIR = {
    "one": "rosa",
    "other": "sam",
    "n": 120,
    "kappa": coefficient(0.71, 0.57, 0.83, 120, "cannot tell"),
    "collapsed": coefficient(0.86, 0.74, 0.96, 120, "tentative"),
    "same_verdict": rate(108, 120, 0.833, 0.942),
}
SLICE = {
    "domain": "hr",
    "kind": "explicit",
    "accepted": {"approved": 540, "edited": 30, "rejected": 30, "read": 600, "samples": 2400},
    "refused": {"approved": 9, "edited": 1, "rejected": 40, "read": 50, "samples": 310},
    "false_accept": rate(30, 600, 0.035, 0.07),
    "false_refuse": rate(10, 50, 0.112, 0.33),
    "proposal": {"share": 0.716, "percent": 72, "why": "1 - 0.020 / 0.070 = 0.716"},
}
JUDGE = {
    "judge": "offline",
    "kappa": coefficient(0.67, 0.58, 0.76, 650, "cannot tell"),
    "overall": {**SLICE, "domain": "", "kind": ""},
    "domains": [{**SLICE, "kind": ""}],
    "kinds": [{**SLICE, "domain": ""}],
    "cells": [SLICE],
}
REVIEWER = {
    "name": "rosa",
    "readings": 410,
    "adjudicated": rate(9, 16, 0.332, 0.769),
    "reversed": rate(7, 120, 0.029, 0.116),
    "rejected": rate(41, 410, 0.075, 0.133),
    "expected": 0.08,
    "taken_back": rate(5, 415, 0.005, 0.028),
    "stands_out": "",
}
QUALITY = {
    "agreement": {
        "overall": {"name": "all", **NAMED},
        "domains": [{"name": "hr", **NAMED}],
        "styles": [{"name": "explicit", **NAMED}],
        "pairs": [PAIR],
        "more_pairs": 0,
    },
    "judges": [JUDGE],
    "reviewers": [REVIEWER],
}


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


class ReviewQualityOne(ApiView):
    @extend_schema(parameters=[QualityIn], responses=QualityOut, examples=[answer_example(QUALITY)])
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
