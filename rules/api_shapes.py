"""What the API answers about rules, in the words of the exchange format."""

from typing import Any

from rest_framework import serializers

Out = serializers.Serializer[Any]


class Clause(Out):
    when = serializers.CharField()
    route_to = serializers.CharField()
    exception = serializers.BooleanField()
    signals = serializers.ListField(child=serializers.CharField())


class RuleTest(Out):
    query = serializers.CharField()
    tools = serializers.ListField(child=serializers.CharField())


class Content(Out):
    tool_name = serializers.CharField(help_text="the target")
    confusables = serializers.ListField(child=serializers.CharField())
    rule_text = serializers.CharField()
    clauses = Clause(many=True)
    tests = RuleTest(many=True)


class ExchangeRule(Content):
    """One rule of the exchange format."""

    code = serializers.CharField()
    domain = serializers.CharField()


class RuleFinding(Out):
    code = serializers.CharField()
    level = serializers.ChoiceField(["error", "warning"])
    sentence = serializers.CharField()
    fix = serializers.CharField()
    other = serializers.CharField(help_text="code of the other rule, if any")
    place = serializers.JSONField(help_text="{pointer, start, end} in the exchange format")
    path = serializers.ListField(child=serializers.CharField(), help_text="codes of the rules on a cycle")


class RuleRow(Out):
    id = serializers.IntegerField(source="rule.pk")
    code = serializers.CharField(source="rule.code")
    domain = serializers.CharField(source="rule.domain_id")
    state = serializers.ChoiceField(["published", "changed", "draft"])
    light = serializers.ChoiceField(["ok", "warning", "error"])
    target = serializers.CharField(source="version.target.name")
    version = serializers.IntegerField(source="version.number", help_text="the newest version")
    published = serializers.SerializerMethodField(help_text="the version that is taught")
    changed_at = serializers.DateTimeField(source="version.created_at")

    def get_published(self, row: Any) -> int | None:
        """`numbers` of the context: published versions by id, read once for all rows."""
        number: int | None = self.context["numbers"].get(row.rule.published_id)
        return number


class Version(Out):
    number = serializers.IntegerField()
    published = serializers.SerializerMethodField(help_text="whether it is the version that is taught")
    note = serializers.CharField()
    author = serializers.CharField(source="author.username", default=None, allow_null=True)
    created_at = serializers.DateTimeField()
    content_hash = serializers.CharField()

    def get_published(self, version: Any) -> bool:
        return bool(version.rule.published_id == version.pk)


class VersionDetail(Version):
    content = Content()


class RuleDetail(Out):
    id = serializers.IntegerField()
    code = serializers.CharField()
    domain = serializers.CharField()
    published = serializers.IntegerField(allow_null=True)
    newest = VersionDetail()
    findings = RuleFinding(many=True, help_text="about the newest version")


class Piece(Out):
    kind = serializers.ChoiceField(["same", "added", "removed"])
    words = serializers.CharField()


class Diff(Out):
    changed = serializers.ListField(
        child=serializers.CharField(), help_text="names of the fields that differ"
    )
    target = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="[before, after]"
    )
    confusables_added = serializers.ListField(child=serializers.CharField())
    confusables_removed = serializers.ListField(child=serializers.CharField())
    text = Piece(many=True)
    clauses_added = Clause(many=True)
    clauses_removed = Clause(many=True)
    tests_added = RuleTest(many=True)
    tests_removed = RuleTest(many=True)


class VersionDiff(Out):
    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of Python."""
        return {"from": serializers.IntegerField(), "to": serializers.IntegerField(), "diff": Diff()}


class Checked(Out):
    light = serializers.ChoiceField(["ok", "warning", "error"], help_text="error: it cannot be published")
    findings = RuleFinding(many=True)


class ImportedRule(Out):
    kind = serializers.ChoiceField(["added", "changed", "draft"])
    domain = serializers.CharField()
    code = serializers.CharField()


class Imported(Out):
    request = serializers.IntegerField(allow_null=True, help_text="the change request; null for a dry run")
    format = serializers.ChoiceField(["json", "csv"])
    added = serializers.IntegerField()
    changed = serializers.IntegerField()
    unpublished = serializers.IntegerField(help_text="drafts and withdrawn rules that the file repeats")
    unchanged = serializers.IntegerField()
    skipped = serializers.IntegerField(help_text="rules with a mistake, left out")
    errors = serializers.ListField(  # type: ignore[assignment]
        child=serializers.CharField(), help_text="place and sentence of each mistake"
    )
    ignored = serializers.DictField(
        child=serializers.IntegerField(), help_text="fields that are not part of a rule: in how many rules"
    )
    changes = ImportedRule(many=True)
