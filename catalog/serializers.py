"""What the API reads and answers about tools, domains and clusters."""

from typing import Literal

from rest_framework import serializers

from catalog.core.tokens import FORMATS, tool_units
from catalog.models import Cluster, Domain, Tool, ToolRevision
from catalog.selectors import pair_reasons
from catalog.services import LONGEST_REASON
from trace_site.rest.schema import InputSerializer
from trace_site.rest.shapes import Shape, field

YES_NO = ["yes", "no"]


class ToolsIn(InputSerializer):
    """Filters of the list of tools; what is left out narrows nothing."""

    q: str = field("words of the name or the description", default="", max_length=200)
    domain: str = field(default="", max_length=60)
    api: str = field("an API's whole name, or how it begins", default="", max_length=400)
    state: Literal["current", "deprecated", "retired", "all"] = field(
        "active tools unless said otherwise", default="", allow_blank=True
    )
    clustered: str = field("inside a cluster", default="", allow_blank=True, choices=YES_NO)
    ruled: str = field("held by a published rule", default="", allow_blank=True, choices=YES_NO)


class DomainIn(InputSerializer):
    domain: str = field(default="", max_length=60)


class ToolRow(serializers.ModelSerializer[Tool]):
    domain = serializers.CharField(source="domain_id")
    cluster = serializers.IntegerField(source="cluster_id", allow_null=True)
    blocked = serializers.SerializerMethodField(help_text="an admin blocked it: no answer names it")

    class Meta:
        model = Tool
        fields = [
            *("id", "name", "api", "endpoint", "family", "api_version", "description", "domain"),
            *("permissions", "deprecated", "version", "status", "cluster", "source", "blocked"),
        ]

    def get_blocked(self, tool: Tool) -> bool:
        return tool.blocked_at is not None


class BlockIn(InputSerializer):
    because: str = field("why; kept in the audit log", max_length=LONGEST_REASON)


class ToolDetail(ToolRow):
    blocked_by = serializers.CharField(source="blocked_by.username", default=None, allow_null=True)
    tokens = serializers.SerializerMethodField(help_text="the tokens that name the tool, by token format")

    class Meta(ToolRow.Meta):
        fields = [
            *ToolRow.Meta.fields,
            *("blocked_at", "blocked_by", "blocked_because", "tokens", "content_hash", "created_at"),
            "updated_at",
        ]

    def get_tokens(self, tool: Tool) -> dict[str, str]:
        return {fmt: "".join(tool_units(tool.name, fmt)) for fmt in FORMATS}


class NeighbourOut(Shape):
    score: float = field("cosine")
    tool: ToolRow


class TwinOut(Shape):
    newer: bool = field("a newer version than the tool's own")
    tool: ToolRow


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
    edges = serializers.SerializerMethodField(help_text="[tool, tool, cosine]")
    reasons = serializers.SerializerMethodField(
        help_text="of each edge: why the two are look-alikes, in words"
    )
    dismissed_by = serializers.CharField(source="dismissed_by.username", default=None, allow_null=True)

    class Meta:
        model = Cluster
        fields = [
            *("id", "domain", "clustering", "label", "tools", "edges", "reasons", "mean_similarity"),
            *("dismissed_reason", "dismissed_by"),
        ]

    def get_edges(self, cluster: Cluster) -> list[list[float]]:
        return [edge[:3] for edge in cluster.edges]

    def get_reasons(self, cluster: Cluster) -> list[list[str]]:
        return pair_reasons(cluster)
