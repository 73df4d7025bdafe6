"""Inspection only: the catalog changes through imports, and what is derived from it through its commands."""

from typing import Any

from django.contrib import admin

from catalog.models import (
    CatalogImport,
    Cluster,
    Clustering,
    Domain,
    LabelledQuery,
    NeighbourList,
    TokenUnit,
    Tool,
    ToolRevision,
)


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    def refused(self, *_: Any, **__: Any) -> bool:
        return False

    has_add_permission = has_change_permission = has_delete_permission = refused


admin.site.register(Domain, ReadOnly, list_display=["slug", "title"])
admin.site.register(
    Tool,
    ReadOnly,
    list_display=["name", "domain", "status", "deprecated", "version"],
    list_filter=["domain", "status", "deprecated"],
    search_fields=["name"],
    list_select_related=["domain"],
    exclude=["embedding", "search"],
)
imports = ["filename", "format", "domain", "actor", "at"]
admin.site.register(CatalogImport, ReadOnly, list_display=imports, list_select_related=["domain", "actor"])
of_tool: dict[str, list[str]] = {"search_fields": ["tool__name"], "list_select_related": ["tool"]}
admin.site.register(ToolRevision, ReadOnly, list_display=["tool", "content_hash", "at"], **of_tool)
admin.site.register(NeighbourList, ReadOnly, list_display=["tool"], **of_tool)
clusterings = ["domain", "version", "tau", "algorithm", "created_at"]
admin.site.register(Clustering, ReadOnly, list_display=clusterings, list_select_related=["domain"])
clusters = ["label", "clustering", "position", "mean_similarity", "dismissed_reason"]
admin.site.register(Cluster, ReadOnly, list_display=clusters, list_select_related=["clustering"])
admin.site.register(
    TokenUnit,
    ReadOnly,
    list_display=["family", "slot", "string", "state"],
    list_filter=["family", "state"],
    search_fields=["string"],
)
admin.site.register(
    LabelledQuery,
    ReadOnly,
    list_display=["text", "collection", "use", "source"],
    list_filter=["use", "collection"],
    search_fields=["text"],
)
