"""Addresses of the catalog pages."""

from django.urls import path

from catalog import views, views_imports

app_name = "catalog"
urlpatterns = [
    path("", views.tool_list, name="list"),
    path("apis/", views.api_options, name="apis"),
    path("tools/<int:pk>/", views.tool_detail, name="detail"),
    path("tools/named/<path:name>", views.tool_named, name="named"),
    path("imports/", views_imports.import_list, name="imports"),
    path("imports/new/", views_imports.import_form, name="import"),
    path("imports/apply/", views_imports.import_apply, name="apply"),
    path("imports/<int:pk>/", views_imports.import_detail, name="import_detail"),
    path("imports/<int:pk>/undo/", views_imports.undo, name="import_undo"),
    path("refresh/", views_imports.refresh_start, name="refresh"),
]
