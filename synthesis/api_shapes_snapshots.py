"""What the API reads and answers about snapshots."""

from rest_framework import serializers

from synthesis.api_shapes import Out
from synthesis.snapshot_diffs import SHOWS
from trace_site.api_input import InputSerializer

MOST = 2**62


class DiffIn(InputSerializer):
    a = serializers.IntegerField(min_value=1, max_value=MOST, help_text="the snapshot compared with")
    b = serializers.IntegerField(min_value=1, max_value=MOST, help_text="the snapshot that is looked at")
    show = serializers.ChoiceField(choices=list(SHOWS), default="changed")


class SnapshotRow(Out):
    id = serializers.IntegerField(source="pk")
    hash = serializers.CharField(help_text="over the five JSON-lines files")
    catalog_hash = serializers.CharField(help_text="over tools, neighbours and tokens")
    strategy = serializers.ChoiceField(["append", "replace"])
    per_rule = serializers.IntegerField()
    params = serializers.JSONField(help_text="the options it was built with")
    counts = serializers.JSONField(help_text="samples by branch and style, rules, tools, what was kept out")
    created_by = serializers.CharField(source="created_by.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()


class SnapshotDetail(Out):
    snapshot = SnapshotRow()
    manifest = serializers.JSONField(help_text="manifest.json of its folder")


class CardOut(Out):
    card = serializers.CharField(help_text="Markdown with YAML front matter")


class DiffCounts(Out):
    changed = serializers.IntegerField(help_text="another sample in the same place")
    added = serializers.IntegerField()
    removed = serializers.IntegerField()
    rules = serializers.IntegerField()
    tools = serializers.IntegerField()


class OptionDiff(Out):
    option = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class TotalDiff(Out):
    branch = serializers.CharField()
    domain = serializers.CharField()
    style = serializers.CharField(help_text="or tier")  # type: ignore[assignment]
    before = serializers.IntegerField()
    after = serializers.IntegerField()


class ChangeOut(Out):
    kind = serializers.ChoiceField(["changed", "added", "removed"])
    name = serializers.CharField(help_text="of the rule or tool; of a sample, its number")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class DiffOut(Out):
    a = SnapshotRow()
    b = SnapshotRow()
    counts = DiffCounts()
    options = OptionDiff(many=True)
    totals = TotalDiff(many=True)
    results = ChangeOut(many=True)
    next = serializers.CharField(allow_null=True, help_text="what ?after= takes; null on the last page")
