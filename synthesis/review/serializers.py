"""What the API reads and answers about reviewing: an item to read, a decision, why the queue is empty."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from synthesis.models import Decision, ReviewItem, Sample, SynthesisRun
from synthesis.samples.rejections import REASONS
from synthesis.samples.serializers import Texts
from trace_site.rest.examples import AT
from trace_site.rest.schema import InputSerializer, Out, TextList, finite

LONGEST = 20_000
TEXT: dict[str, Any] = {"required": False, "max_length": LONGEST}
VERDICTS = [choice for choice in Decision.Verdict.choices if choice[0] != Decision.Verdict.UNDO]


class QueueFiltersIn(InputSerializer):
    """A part of the review queue; what is left out does not narrow."""

    domain = serializers.CharField(required=False, max_length=60, help_text="slug")
    branch = serializers.ChoiceField(choices=SynthesisRun.Branch.choices, required=False)
    style = serializers.ChoiceField(choices=Sample.Style.choices, required=False)  # type: ignore[assignment]
    tier = serializers.ChoiceField(choices=Sample.Tier.choices, required=False)
    round = serializers.ChoiceField(choices=ReviewItem.Round.choices, required=False)
    rule = serializers.CharField(required=False, max_length=200, help_text="code")
    batch = serializers.IntegerField(required=False, min_value=1, max_value=2**62)


class ClaimIn(QueueFiltersIn):
    """The part of the queue that is meant; nothing means all of it."""

    besides = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=2**62),
        default=list,
        max_length=50,
        help_text="items you hold already and do not mean",
    )


class ToolOut(Out):
    name = serializers.CharField()
    description = serializers.CharField()


class SideOut(Out):
    """One of two readings that differ; whose it was is not told."""

    verdict = serializers.ChoiceField(VERDICTS, source="decision.verdict")
    query = serializers.CharField(source="decision.after.query")
    trace = serializers.CharField(source="decision.after.trace")
    answer = TextList(source="decision.after.answer")
    reason = serializers.CharField(source="decision.reason")
    note = serializers.CharField(source="decision.note")


class ItemOut(Out):
    claim = serializers.UUIDField(help_text="a decision names it")
    lease_seconds = serializers.IntegerField(help_text="send a heartbeat before they are over")
    item = serializers.IntegerField()
    round = serializers.ChoiceField(ReviewItem.Round.choices)
    sample = serializers.IntegerField()
    seen = serializers.CharField(help_text="names these texts; a decision that brings it is about no others")
    branch = serializers.ChoiceField(SynthesisRun.Branch.choices)
    domain = serializers.CharField()
    style = serializers.CharField()  # type: ignore[assignment]
    tier = serializers.CharField()
    rule = serializers.CharField(allow_null=True, help_text="code")
    rule_version = serializers.IntegerField(allow_null=True)
    rule_text = serializers.CharField()
    writer = serializers.CharField()
    query = serializers.CharField()
    trace = serializers.CharField()
    answer = Texts
    pool = ToolOut(many=True)
    readings = SideOut(many=True, help_text="what the two readers asked for; in an adjudication only")


class QueueOut(Out):
    left = serializers.IntegerField(help_text="open or claimed in this part")
    claimed_by_others = serializers.IntegerField()
    frees_at = serializers.DateTimeField(allow_null=True, help_text="when the oldest of their claims ends")
    assigned_to_others = serializers.IntegerField()
    read_by_you = serializers.IntegerField(help_text="wait for a reading by somebody else")
    adjudications_read_by_you = serializers.IntegerField()
    held = serializers.IntegerField(help_text="kept by batches that read only a part")
    elsewhere = serializers.IntegerField(help_text="open or claimed in other parts")


class ClaimOut(Out):
    item = ItemOut(allow_null=True, help_text="null: see queue")
    queue = QueueOut(allow_null=True, help_text="why there is nothing; null with an item")


class LeaseOut(Out):
    claim = serializers.UUIDField()
    item = serializers.IntegerField()
    lease_seconds = serializers.IntegerField()


class DecisionIn(InputSerializer):
    claim = serializers.UUIDField()
    verdict = serializers.ChoiceField(choices=VERDICTS)
    query = serializers.CharField(**TEXT, help_text="of an edit")
    trace = serializers.CharField(**TEXT, allow_blank=True, help_text="of an edit")
    answer = serializers.ListField(
        child=serializers.CharField(max_length=300), required=False, max_length=50, help_text="of an edit"
    )
    reason = serializers.ChoiceField(choices=list(REASONS), required=False, help_text="of a rejection")
    follow_up = serializers.ChoiceField(
        choices=Decision.FollowUp.choices,
        required=False,
        help_text="of a rejection: written again with the reason as critique, or dropped (the default)",
    )
    note = serializers.CharField(required=False, max_length=2000, allow_blank=True)
    seen = serializers.CharField(required=False, max_length=64, help_text="as it came with the item")
    seconds = serializers.FloatField(
        required=False, min_value=0, max_value=86_400, validators=[finite], help_text="of reading"
    )


class DecidedOut(Out):
    sample = serializers.IntegerField(source="pk")
    human = serializers.ChoiceField(
        Sample.Human.choices, help_text="second or disputed: another person reads it next"
    )
    approved_by = serializers.CharField()
    approved_how = serializers.CharField()


class UndoneOut(Out):
    sample = serializers.IntegerField()
    item = ItemOut(allow_null=True, help_text="claimed again; null where the sample no longer waits")


# Examples of the API's description: a payslip sample that is claimed, decided, and taken back.


CLAIM = "7b0f6f0e-6f0a-4a56-9b39-3d6c1f4b2a10"
SKIP = OpenApiParameter("skip", bool, description="put it off: it comes to you again after all others")
ITEM = {
    "claim": CLAIM,
    "lease_seconds": 300,
    "item": 4021,
    "round": 1,
    "sample": 812,
    "seen": "3b1f0c118f5d4d43",
    "branch": "rule",
    "domain": "hr",
    "style": "implicit",
    "tier": "",
    "rule": "PAYSLIP_PERIOD",
    "rule_version": 2,
    "rule_text": "Months since March 2026 are in PayrollNova, older ones in PayrollOne.",
    "writer": "offline",
    "query": "where do i see what i was paid in april",
    "trace": "April 2026 is after the change. By PAYSLIP_PERIOD it is PayrollNova/GetPayslip.",
    "answer": ["PayrollNova/GetPayslip"],
    "pool": [
        {"name": "PayrollNova/GetPayslip", "description": "Reads a payslip."},
        {"name": "PayrollOne/GetPayslip", "description": "Reads a payslip up to February 2026."},
    ],
    "readings": [],
}
QUEUE = {
    "left": 12,
    "claimed_by_others": 9,
    "frees_at": AT,
    "assigned_to_others": 0,
    "read_by_you": 3,
    "adjudications_read_by_you": 3,
    "held": 40,
    "elsewhere": 0,
}
LEASE = {"claim": CLAIM, "item": 4021, "lease_seconds": 300}
REJECTION = {
    "claim": CLAIM,
    "verdict": "reject",
    "reason": "rule_unclear",
    "note": "March itself is in both.",
    "follow_up": "regenerate",
    "seen": "3b1f0c118f5d4d43",
    "seconds": 14.5,
}
DECIDED = {"sample": 812, "human": "rejected", "approved_by": "", "approved_how": ""}
LOST = {
    "message": "sample 812: rita has it now, for 4 min unless they go on. Take the next one.",
    "code": "conflict",
    "extra": {"sample": 812, "item": 4021, "round": 1, "state": "claimed"},
}
FILTERED = {
    "message": "sample 812: leakage: The query names a tool. Correct it and try again.",
    "code": "filtered",
    "extra": {
        "failures": [
            {
                "check": "leakage",
                "message": "The query names a tool.",
                "evidence": "PayrollNova/GetPayslip",
                "span": [3, 25],
            }
        ]
    },
}
NOTHING = {"message": "you have no decision to undo.", "code": "nothing_to_undo", "extra": {}}
