"""Inspection only: the catalog changes through imports, and what is derived from it through its commands."""

from typing import Any

from django.contrib import admin
from django.db.models import Model

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


def inspected(model: type[Model], columns: str, *, filters: str = "", **options: Any) -> None:
    admin.site.register(model, ReadOnly, list_display=columns.split(), list_filter=filters.split(), **options)


of_tool: dict[str, Any] = {"search_fields": ["tool__name"], "list_select_related": ["tool"]}
of_domain: dict[str, Any] = {"list_select_related": ["domain"]}
heavy: dict[str, Any] = {"search_fields": ["name"], "exclude": ["embedding", "search"]}
inspected(Domain, "slug title")
inspected(
    Tool, "name domain status deprecated version", filters="domain status deprecated", **of_domain, **heavy
)
inspected(CatalogImport, "filename format domain actor at", list_select_related=["domain", "actor"])
inspected(ToolRevision, "tool content_hash at", **of_tool)
inspected(NeighbourList, "tool", **of_tool)
inspected(Clustering, "domain version tau algorithm created_at", **of_domain)
clusters = "label clustering position mean_similarity dismissed_reason"
inspected(Cluster, clusters, list_select_related=["clustering"])
inspected(TokenUnit, "family slot string state", filters="family state", search_fields=["string"])
inspected(LabelledQuery, "text collection use source", filters="use collection", search_fields=["text"])
