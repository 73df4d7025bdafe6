"""Addresses of the catalog pages."""

from django.urls import path

from catalog import views, views_imports, views_queries

app_name = "catalog"
urlpatterns = [
    path("", views.tool_list, name="list"),
    path("apis/", views.api_options, name="apis"),
    path("tools/<int:pk>/", views.tool_detail, name="detail"),
    path("tools/<int:pk>/block/", views.tool_block_toggle, name="block"),
    path("tools/named/<path:name>", views.tool_named, name="named"),
    path("imports/", views_imports.import_list, name="imports"),
    path("imports/new/", views_imports.import_form, name="import"),
    path("imports/apply/", views_imports.import_apply, name="apply"),
    path("imports/<int:pk>/", views_imports.import_detail, name="import_detail"),
    path("imports/<int:pk>/undo/", views_imports.undo, name="import_undo"),
    path("queries/", views_queries.query_list, name="queries"),
    path("queries/import/", views_queries.query_import, name="queries_import"),
    path("queries/apply/", views_queries.query_apply, name="queries_apply"),
    path("queries/<int:pk>/remove/", views_queries.query_delete, name="query_remove"),
    path("refresh/", views_imports.refresh_start, name="refresh"),
]
