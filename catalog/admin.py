"""Inspection only: the catalog changes through imports, and what is derived from it through its commands."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

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


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Domain)
class DomainAdmin(ReadOnly):
    list_display = ["slug", "title"]


@admin.register(Tool)
class ToolAdmin(ReadOnly):
    list_display = ["name", "domain", "status", "deprecated", "version"]
    list_filter = ["domain", "status", "deprecated"]
    search_fields = ["name"]
    list_select_related = ["domain"]
    exclude = ["embedding", "search"]


@admin.register(CatalogImport)
class CatalogImportAdmin(ReadOnly):
    list_display = ["filename", "format", "domain", "actor", "at"]
    list_select_related = ["domain", "actor"]


@admin.register(ToolRevision)
class ToolRevisionAdmin(ReadOnly):
    list_display = ["tool", "content_hash", "at"]
    search_fields = ["tool__name"]
    list_select_related = ["tool"]


@admin.register(NeighbourList)
class NeighbourListAdmin(ReadOnly):
    list_display = ["tool"]
    search_fields = ["tool__name"]
    list_select_related = ["tool"]


@admin.register(Clustering)
class ClusteringAdmin(ReadOnly):
    list_display = ["domain", "version", "tau", "algorithm", "created_at"]
    list_select_related = ["domain"]


@admin.register(Cluster)
class ClusterAdmin(ReadOnly):
    list_display = ["label", "clustering", "position", "mean_similarity", "dismissed_reason"]
    list_select_related = ["clustering"]


@admin.register(TokenUnit)
class TokenUnitAdmin(ReadOnly):
    list_display = ["family", "slot", "string", "state"]
    list_filter = ["family", "state"]
    search_fields = ["string"]


@admin.register(LabelledQuery)
class LabelledQueryAdmin(ReadOnly):
    list_display = ["text", "collection", "use", "source"]
    list_filter = ["use", "collection"]
    search_fields = ["text"]
