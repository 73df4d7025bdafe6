"""Addresses of the catalog pages."""

from django.urls import path

from catalog import views
from catalog.imports import views as imports_views
from catalog.queries import views as queries_views

app_name = "catalog"
urlpatterns = [
    path("", views.tool_list, name="list"),
    path("apis/", views.api_options, name="apis"),
    path("tools/<int:pk>/", views.tool_detail, name="detail"),
    path("tools/<int:pk>/block/", views.tool_block_toggle, name="block"),
    path("tools/named/<path:name>", views.tool_named, name="named"),
    path("imports/", imports_views.import_list, name="imports"),
    path("imports/new/", imports_views.import_form, name="import"),
    path("imports/apply/", imports_views.import_apply, name="apply"),
    path("imports/<int:pk>/", imports_views.import_detail, name="import_detail"),
    path("imports/<int:pk>/undo/", imports_views.undo, name="import_undo"),
    path("queries/", queries_views.query_list, name="queries"),
    path("queries/import/", queries_views.query_import, name="queries_import"),
    path("queries/apply/", queries_views.query_apply, name="queries_apply"),
    path("queries/<int:pk>/remove/", queries_views.query_delete, name="query_remove"),
    path("refresh/", imports_views.refresh_start, name="refresh"),
]
