"""Addresses of the catalog pages."""

from django.urls import path

from catalog import views

app_name = "catalog"
urlpatterns = [
    path("", views.tool_list, name="list"),
    path("tools/<int:pk>/", views.tool_detail, name="detail"),
    path("tools/named/<path:name>", views.tool_named, name="named"),
    path("imports/", views.import_list, name="imports"),
    path("imports/new/", views.import_form, name="import"),
    path("imports/apply/", views.import_apply, name="apply"),
    path("refresh/", views.refresh_start, name="refresh"),
]
