"""What the API reads and answers about the catalog."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from catalog.core.importers.detect import FORMATS
from catalog.models import CatalogImport, Cluster, Domain, Tool, ToolRevision
from catalog.previews import applied_import
from catalog.selectors import token_strings
from trace_site.api_input import InputSerializer

Out = serializers.Serializer[Any]
YES_NO = ["yes", "no"]


class ToolsIn(InputSerializer):
    """Filters of the list of tools; what is left out narrows nothing."""

    q = serializers.CharField(default="", allow_blank=True, help_text="words of the name or the description")
    domain = serializers.CharField(default="", allow_blank=True)
    api = serializers.CharField(
        default="", allow_blank=True, help_text="an API's whole name, or how it begins"
    )
    state = serializers.ChoiceField(
        ["current", "deprecated", "retired", "all"],
        default="",
        allow_blank=True,
        help_text="active tools unless said otherwise",
    )
    clustered = serializers.ChoiceField(YES_NO, default="", allow_blank=True, help_text="inside a cluster")
    ruled = serializers.ChoiceField(
        YES_NO, default="", allow_blank=True, help_text="held by a published rule"
    )


class DomainIn(InputSerializer):
    domain = serializers.CharField(default="", allow_blank=True)


class ToolRow(serializers.ModelSerializer[Tool]):
    domain = serializers.CharField(source="domain_id")
    cluster = serializers.IntegerField(source="cluster_id", allow_null=True)

    class Meta:
        model = Tool
        fields = [
            "id",
            "name",
            "api",
            "endpoint",
            "family",
            "api_version",
            "description",
            "domain",
            "permissions",
            "deprecated",
            "version",
            "status",
            "cluster",
            "source",
        ]


class ToolDetail(ToolRow):
    tokens = serializers.SerializerMethodField(help_text="the tokens that name the tool, by token format")

    class Meta(ToolRow.Meta):
        fields = [*ToolRow.Meta.fields, "tokens", "content_hash", "created_at", "updated_at"]

    def get_tokens(self, tool: Tool) -> dict[str, str]:
        return dict(token_strings(tool))


class NeighbourOut(Out):
    score = serializers.FloatField(help_text="cosine")
    tool = ToolRow()


class TwinOut(Out):
    newer = serializers.BooleanField(help_text="a newer version than the tool's own")
    tool = ToolRow()


class RevisionOut(serializers.ModelSerializer[ToolRevision]):
    imported_by = serializers.IntegerField(source="catalog_import_id", allow_null=True, help_text="an import")
    undo_of = serializers.IntegerField(
        source="undo_of_id", allow_null=True, help_text="the import whose undoing brought this content back"
    )
    data = serializers.DictField()  # type: ignore[assignment]

    class Meta:
        model = ToolRevision
        fields = ["id", "at", "content_hash", "data", "imported_by", "undo_of"]


class DomainOut(serializers.ModelSerializer[Domain]):
    active = serializers.IntegerField(help_text="tools")
    deprecated = serializers.IntegerField(help_text="of the active ones")
    retired = serializers.IntegerField()

    class Meta:
        model = Domain
        fields = ["slug", "title", "active", "deprecated", "retired"]


class ClusterOut(serializers.ModelSerializer[Cluster]):
    domain = serializers.CharField(source="clustering.domain_id")
    clustering = serializers.IntegerField(source="clustering.version", help_text="version of the clustering")
    tools = serializers.ListField(child=serializers.IntegerField(), source="tool_ids")
    edges = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField()), help_text="[tool, tool, cosine]"
    )
    dismissed_by = serializers.CharField(source="dismissed_by.username", default=None, allow_null=True)

    class Meta:
        model = Cluster
        fields = [
            "id",
            "domain",
            "clustering",
            "label",
            "tools",
            "edges",
            "mean_similarity",
            "dismissed_reason",
            "dismissed_by",
        ]


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
    dry_run = serializers.BooleanField(default=False, help_text="answer what it would do, write nothing")
    skip_bad_rows = serializers.BooleanField(default=False, help_text="else one bad row refuses the file")
    plan = serializers.CharField(
        default="", allow_blank=True, help_text="of a dry run: refuse to do anything else"
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
    done = serializers.SerializerMethodField()

    class Meta(ImportRow.Meta):
        fields = [*ImportRow.Meta.fields, "errors", "done"]

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
