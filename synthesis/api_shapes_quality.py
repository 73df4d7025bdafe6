"""What the API answers about the quality of readings."""

from rest_framework import serializers

from synthesis.api_shapes import Out


class EstimateOut(Out):
    """A coefficient over n samples with its 95 % interval; without a value `why` says what is missing."""

    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    n = serializers.IntegerField()
    draws = serializers.IntegerField(help_text="of the interval")
    seed = serializers.IntegerField()
    undefined = serializers.IntegerField(help_text="draws that had no value")
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
    """approved, edited, rejected, read: as read. effective: the readings' worth when they weigh differently."""

    approved = serializers.IntegerField()
    edited = serializers.IntegerField()
    rejected = serializers.IntegerField()
    read = serializers.IntegerField()
    effective = serializers.FloatField()
    samples = serializers.IntegerField(help_text="all the judge gave this verdict, read or not")


class ProposalOut(Out):
    share = serializers.FloatField(help_text="of what the judge accepts, to read")
    percent = serializers.IntegerField()
    upper = serializers.FloatField(help_text="upper end of the false-accept rate's interval")
    target = serializers.FloatField()
    floor = serializers.FloatField()
    n = serializers.IntegerField()
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
    raw_kappa = EstimateOut(help_text="of the readings as they are")
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
    compared = serializers.IntegerField()
    taken_back = RateOut()
    stands_out = serializers.ChoiceField(["", "high", "low"])


class QualityOut(Out):
    agreement = AgreementsOut()
    judges = JudgeOut(many=True)
    reviewers = ReviewerOut(many=True, help_text="of an admin all, else the own")
