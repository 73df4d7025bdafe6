"""What the API reads and answers about assignments and comments."""

from typing import Any

from rest_framework import serializers

from synthesis.assignments import MOST
from synthesis.comments import LONGEST
from synthesis.models import ReviewItem, Sample, SynthesisRun
from trace_site.api_input import InputSerializer

Out = serializers.Serializer[Any]
BIGGEST = 2**62


class QueueFiltersIn(InputSerializer):
    """A part of the review queue; what is left out does not narrow."""

    domain = serializers.CharField(required=False, max_length=60, help_text="slug")
    branch = serializers.ChoiceField(choices=SynthesisRun.Branch.choices, required=False)
    style = serializers.ChoiceField(choices=Sample.Style.choices, required=False)  # type: ignore[assignment]
    tier = serializers.ChoiceField(choices=Sample.Tier.choices, required=False)
    round = serializers.ChoiceField(choices=ReviewItem.Round.choices, required=False)
    rule = serializers.CharField(required=False, max_length=120, help_text="code")
    batch = serializers.IntegerField(required=False, min_value=1, max_value=BIGGEST)


class AssignmentIn(InputSerializer):
    assignee = serializers.CharField(required=False, max_length=150, help_text="user name; default: yourself")
    filters = QueueFiltersIn(required=False)
    count = serializers.IntegerField(
        allow_null=True,
        min_value=1,
        max_value=MOST,
        help_text="the first so many; null: all that are free",
    )
    note = serializers.CharField(default="", allow_blank=True, max_length=300)


class AssignmentListIn(InputSerializer):
    state = serializers.ChoiceField(choices=["running", "ended"], default="running")
    assignee = serializers.CharField(required=False, max_length=150, help_text="user name")


class AssignmentOut(Out):
    id = serializers.IntegerField(source="pk")
    assignee = serializers.CharField(source="assignee.username")
    assigned_by = serializers.CharField(source="assigned_by.username")
    filters = serializers.JSONField(help_text="the part of the queue it was taken from")
    count = serializers.IntegerField(help_text="items given")
    done = serializers.IntegerField()
    left = serializers.IntegerField()
    gone = serializers.IntegerField(help_text="wait no more: their rule or sample was replaced")
    note = serializers.CharField()
    at = serializers.DateTimeField()
    last_decision = serializers.DateTimeField(source="last", allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True, help_text="all decided, or taken back")


class SampleCommentIn(InputSerializer):
    text = serializers.CharField(max_length=LONGEST, help_text="plain text; @name tells that person")


class CommentOut(Out):
    id = serializers.IntegerField(source="pk")
    sample = serializers.IntegerField(source="sample_id")
    author = serializers.CharField(source="author.username")
    text = serializers.CharField()
    at = serializers.DateTimeField()
