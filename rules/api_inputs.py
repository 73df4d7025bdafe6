"""What the API reads about rules and change requests, in the words of the exchange format."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from rules.core.draft import FIELDS
from rules.models import ChangeRequest, RuleChange
from trace_site.api_input import InputSerializer

# texts are checked by the services, which name the place of a mistake; here they only must be text
TEXT: dict[str, Any] = {"required": False, "allow_blank": True, "trim_whitespace": False}


class ClauseIn(InputSerializer):
    when = serializers.CharField(**TEXT)
    route_to = serializers.CharField(**TEXT)
    exception = serializers.BooleanField(default=False)
    signals = serializers.ListField(child=serializers.CharField(**TEXT), default=list)


class RuleTestIn(InputSerializer):
    query = serializers.CharField(**TEXT)
    tools = serializers.ListField(child=serializers.CharField(**TEXT), default=list)


class ContentIn(InputSerializer):
    tool_name = serializers.CharField(**TEXT, help_text="the target")
    confusables = serializers.ListField(child=serializers.CharField(**TEXT), required=False)
    rule_text = serializers.CharField(**TEXT)
    clauses = ClauseIn(many=True, required=False)
    tests = RuleTestIn(many=True, required=False)


class CheckIn(ContentIn):
    rule = serializers.IntegerField(
        required=False, allow_null=True, help_text="the rule it will be a version of, if any"
    )


class ChangePut(ContentIn):
    """The whole change as it shall be: what is left out is empty."""

    domain = serializers.CharField(**TEXT, help_text="of a new rule; empty means its target's")
    code = serializers.CharField(**TEXT, help_text="of a new rule; empty means made from its target")
    note = serializers.CharField(**TEXT)


class ChangeIn(ChangePut):
    """A change of `rule`, or of a new rule. Without content it begins from the rule's newest version."""

    rule = serializers.IntegerField(required=False, allow_null=True)
    action = serializers.ChoiceField(choices=RuleChange.Action.choices, default=RuleChange.Action.SAVE)
    base = serializers.IntegerField(
        required=False, allow_null=True, help_text="number of the version it begins from; the newest"
    )


class RequestIn(InputSerializer):
    title = serializers.CharField(**TEXT)
    description = serializers.CharField(**TEXT, help_text="why the rules change, for who approves")
    changes = ChangeIn(many=True, required=False)


class RequestPatch(InputSerializer):
    title = serializers.CharField(**TEXT)
    description = serializers.CharField(**TEXT)


class ListIn(InputSerializer):
    """Filters of the list of rules."""

    q = serializers.CharField(
        default="", allow_blank=True, help_text="every word occurs in code, target or text"
    )
    domain = serializers.CharField(default="", allow_blank=True)
    state = serializers.ChoiceField(
        ["published", "changed", "draft"], default="", allow_blank=True,
        help_text="changed: published, with a newer draft",
    )  # fmt: skip
    light = serializers.ChoiceField(
        ["ok", "warning", "error"], default="", allow_blank=True, help_text="what the checks say"
    )


class ExportIn(ListIn):
    format = serializers.ChoiceField(["json", "csv"], default="json")


class DiffIn(InputSerializer):
    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python."""
        return {"from": serializers.IntegerField(), "to": serializers.IntegerField()}


class ImportIn(InputSerializer):
    dry_run = serializers.BooleanField(default=False, help_text="only say what the file would change")
    skip_bad_rows = serializers.BooleanField(
        default=False, help_text="leave rules with a mistake out instead of refusing the file"
    )
    drafts = serializers.BooleanField(
        default=False, help_text="also publish what the file repeats of drafts and withdrawn rules"
    )
    title = serializers.CharField(default="", allow_blank=True, max_length=200)
    filename = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="used in messages"
    )


class SubmitIn(InputSerializer):
    revision = serializers.IntegerField(help_text="the revision of the request that you saw")


class ApproveIn(SubmitIn):
    comment = serializers.CharField(**TEXT)


class RejectIn(SubmitIn):
    reason = serializers.CharField(**TEXT)


class SeenIn(InputSerializer):
    revision = serializers.IntegerField(required=False, help_text="refused when it is not the current one")


class ReasonIn(SeenIn):
    reason = serializers.CharField(**TEXT)


class ScheduleIn(SeenIn):
    at = serializers.DateTimeField(help_text="a time to come")


class CommentIn(InputSerializer):
    text = serializers.CharField(**TEXT)


class RequestListIn(InputSerializer):
    q = serializers.CharField(
        default="", allow_blank=True, help_text="every word occurs in title, author or a rule"
    )
    state = serializers.ChoiceField(ChangeRequest.State.choices, default="", allow_blank=True)
    whose = serializers.ChoiceField(
        ["mine", "waiting"], default="", allow_blank=True, help_text="waiting: for your decision"
    )


def draft_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """The content fields of a body, as the services name them."""
    return {key: given[name] for key, name in FIELDS.items() if name in given}
