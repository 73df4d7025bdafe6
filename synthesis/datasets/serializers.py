"""What the API reads and answers about snapshots."""

from rest_framework import serializers

from synthesis.datasets.diff import SHOWS
from trace_site.rest.examples import AT
from trace_site.rest.schema import InputSerializer, Out

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


# Examples of the API's description of snapshots: one of 36 samples, and what the next one changed.


HASH = "9f2b61c0d1" * 6 + "9f2b"
OPTIONS = {
    "strategy": "append",
    "per_rule": 12,
    "branches": ["rrb", "rule"],
    "rrb": None,
    "domain": "",
    "seed": 0,
    "strict": False,
    "budgets": {"hr": {"rule": 24}},
    "licence": "CC-BY-4.0",
}
COUNTS = {
    "samples": 36,
    "rrb": 12,
    "rule": 24,
    "imported": 0,
    "styles": {"explicit": 8, "implicit": 8, "exception": 8},
    "rules_with_samples": 2,
    "rules": 3,
    "tools": 40,
    "removed": 0,
    "contaminated": 1,
    "stale": {"tool changed": 2},
    "replaced": 0,
    "short": 1,
    "left_out": 3,
}
ROW = {
    "id": 5,
    "hash": HASH,
    "catalog_hash": HASH,
    "strategy": "append",
    "per_rule": 12,
    "params": OPTIONS,
    "counts": COUNTS,
    "created_by": "erin",
    "created_at": AT,
}
FILE = {"sha256": HASH, "bytes": 20480, "rows": 36}
DETAIL = {
    "snapshot": ROW,
    "manifest": {
        "schema": 2,
        "hash": HASH,
        "counts": COUNTS,
        "files": {"samples.jsonl": FILE},
        "shortfall": {"hr/LEAVE_FORM": 0},
    },
}
CARD = {"card": "---\npretty_name: TRACE snapshot 9f2b61c0d19f\n---\n\n# TRACE snapshot 9f2b61c0d19f\n"}
SAMPLE = {
    "id": 812,
    "query": "where is my pay slip of March",
    "trace": "A pay slip of this year is read in the new system. So it is PayrollNova/GetPayslip.",
    "answer": ["PayrollNova/GetPayslip"],
    "permissions": [],
    "branch": "rule",
    "domain": "hr",
    "style": "implicit",
    "tier": "",
    "writer": "llm:writer-large",
    "rule": "PAYSLIP_PERIOD",
}
DIFF = {
    "a": {**ROW, "id": 4},
    "b": ROW,
    "counts": {"changed": 1, "added": 0, "removed": 0, "rules": 1, "tools": 0},
    "options": [{"option": "per_rule", "before": 6, "after": 12}],
    "totals": [{"branch": "rule", "domain": "hr", "style": "implicit", "before": 8, "after": 8}],
    "results": [
        {
            "kind": "changed",
            "name": "sample 812",
            "before": {**SAMPLE, "id": 640, "query": "my pay slip please"},
            "after": SAMPLE,
        }
    ],
    "next": None,
}
