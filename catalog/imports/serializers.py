"""What the API reads and answers about imports: the file, its preview, what it did, what undoing would do."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from catalog.core.importers.detect import FORMATS
from catalog.imports.previews import applied_import
from catalog.models import CatalogImport, Tool
from trace_site.rest.schema import InputSerializer

Out = serializers.Serializer[Any]


class ImportIn(InputSerializer):
    """`content` or, in a form, `file`."""

    domain = serializers.CharField(max_length=60)
    content = serializers.JSONField(
        required=False, help_text="the file's text; a JSON document may stand here as it is"
    )
    file = serializers.FileField(required=False, help_text="only in a form")
    filename = serializers.CharField(
        required=False, max_length=200, help_text="the name people know the file by"
    )
    format = serializers.ChoiceField(["auto", *FORMATS], default="auto")
    licence = serializers.CharField(
        default="", allow_blank=True, max_length=100, help_text="SPDX identifier or a few words"
    )
    dry_run = serializers.BooleanField(default=False, help_text="answer what it would do, write nothing")
    skip_bad_rows = serializers.BooleanField(default=False, help_text="else one bad row refuses the file")
    plan = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="of a dry run: refuse to do anything else"
    )


class FieldChangeOut(Out):
    field = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()


class ChangedOut(Out):
    id = serializers.IntegerField(source="tool.pk")
    name = serializers.CharField(source="tool.name")
    changes = FieldChangeOut(many=True)


class NamedTool(serializers.ModelSerializer[Tool]):
    class Meta:
        model = Tool
        fields = ["id", "name"]


class SkippedOut(Out):
    where = serializers.CharField(help_text="file and line, or a JSON pointer")
    name = serializers.CharField(help_text="empty when the row has no readable name")
    message = serializers.CharField()


class ImpactOut(Out):
    name = serializers.CharField()
    count = serializers.IntegerField()
    label = serializers.CharField(help_text="read after the count")  # type: ignore[assignment]


class CountsOut(Out):
    added = serializers.IntegerField(default=0, help_text="the returning ones count too")
    changed = serializers.IntegerField(default=0)
    unchanged = serializers.IntegerField(default=0)
    removed = serializers.IntegerField(default=0, help_text="retired: the file no longer holds them")
    deprecated = serializers.IntegerField(default=0, help_text="that become deprecated")
    returned = serializers.IntegerField(default=0, help_text="retired before, active again")
    skipped = serializers.IntegerField(default=0)


class AppliedOut(Out):
    added = NamedTool(many=True)
    changed = ChangedOut(many=True)
    returned = NamedTool(many=True)
    retired = NamedTool(many=True)


class AddedOut(Out):
    name = serializers.CharField()
    description = serializers.CharField()


class PreviewOut(Out):
    """The first 200 of every kind; `counts` has them all."""

    plan = serializers.CharField(source="result.plan")
    format = serializers.CharField(source="result.format")
    domain = serializers.CharField(source="result.domain")
    counts = CountsOut()
    versions = serializers.ListField(
        child=serializers.CharField(),
        source="result.versions",
        help_text="new versions of known APIs, a sentence each",
    )
    added = AddedOut(many=True)
    changed = ChangedOut(many=True)
    returning = serializers.ListField(child=serializers.CharField())
    removed = NamedTool(many=True)
    deprecated = serializers.ListField(child=serializers.CharField())
    skipped = SkippedOut(many=True)
    notes = SkippedOut(many=True, help_text="what the file holds that is no tool by design")
    impact = ImpactOut(many=True, help_text="what would turn stale")


class ImportRow(serializers.ModelSerializer[CatalogImport]):
    domain = serializers.CharField(source="domain_id")
    counts = CountsOut()
    versions = serializers.ListField(
        child=serializers.CharField(),
        source="counts.versions",
        default=list,
        help_text="new versions of known APIs, a sentence each",
    )
    actor = serializers.CharField(source="actor.username", default=None, allow_null=True)
    undone_by = serializers.CharField(source="undone_by.username", default=None, allow_null=True)

    class Meta:
        model = CatalogImport
        fields = [
            "id",
            "filename",
            "format",
            "domain",
            "digest",
            "licence",
            "counts",
            "versions",
            "actor",
            "at",
            "undone_at",
            "undone_by",
        ]


class ImportDetail(ImportRow):
    """With what it did: the first 200 tools of every kind."""

    errors = serializers.ListField(  # type: ignore[assignment]
        child=serializers.CharField(), source="counts.errors", default=list, help_text="the skipped rows"
    )
    notes = serializers.ListField(
        child=serializers.CharField(),
        source="counts.notes",
        default=list,
        help_text="what the file holds that is no tool by design",
    )
    done = serializers.SerializerMethodField()

    class Meta(ImportRow.Meta):
        fields = [*ImportRow.Meta.fields, "errors", "notes", "done"]

    @extend_schema_field(AppliedOut)
    def get_done(self, row: CatalogImport) -> Any:
        return AppliedOut(applied_import(row)).data


class UndoOut(Out):
    """What undoing would do, as ids of tools; `reasons` says why it is refused, if it is."""

    retire = serializers.ListField(child=serializers.IntegerField())
    restore = serializers.ListField(child=serializers.IntegerField(), source="changed")
    bring_back = serializers.ListField(child=serializers.IntegerField())
    reasons = serializers.ListField(child=serializers.CharField())
    impact = ImpactOut(many=True, help_text="what uses these tools now")
