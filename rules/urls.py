"""Addresses of the rule pages."""

from django.urls import path

from rules import views, views_editor, views_exchange, views_list, views_live, views_requests, views_versions

app_name = "rules"
urlpatterns = [
    path("", views_list.rule_list, name="list"),
    path("new/", views_editor.rule_create, name="create"),
    path("<int:pk>/", views.rule_detail, name="detail"),
    path("<int:pk>/versions/<int:number>/", views.rule_detail, name="version"),
    path("<int:pk>/edit/", views_editor.rule_update, name="update"),
    path("<int:pk>/compare/", views_versions.compare_chosen, name="compare_chosen"),
    path("<int:pk>/compare/<int:first>/<int:second>/", views_versions.compare, name="compare"),
    path("<int:pk>/versions/<int:number>/propose/", views_versions.propose_version, name="propose"),
    path("<int:pk>/withdraw/", views_versions.propose_withdrawal, name="withdraw"),
    path("requests/", views_requests.request_list, name="requests"),
    path("requests/count/", views_requests.request_count, name="request_count"),
    path("requests/<int:pk>/", views_requests.request_page, name="request"),
    path("requests/<int:pk>/impact/", views_requests.request_impact, name="request_impact"),
    path("requests/<int:pk>/<slug:verb>/", views_requests.request_action, name="request_action"),
    path("changes/<int:pk>/", views_editor.change_edit, name="change"),
    path("changes/save/", views_editor.change_save, name="change_save"),
    path("<int:pk>/impact/", views_live.rule_impact, name="impact"),
    path("fields/", views_live.fields, name="fields"),
    path("sentence-fix/", views_live.sentence_fix, name="sentence_fix"),
    path("check/", views_live.rule_check, name="check"),
    path("confusables/", views_live.confusables, name="confusables"),
    path("tool-search/", views_live.tool_search, name="tool-search"),
    path("of-tool/<int:pk>/", views.rules_of_tool, name="of_tool"),
    path("affected/", views.affected, name="affected"),
    path("export.json", views_exchange.rule_export, {"fmt": "json"}, name="export"),
    path("export.csv", views_exchange.rule_export, {"fmt": "csv"}, name="export_csv"),
    path("import/", views_exchange.rule_import, name="import"),
    path("import/request/", views_exchange.rule_import_request, name="import_request"),
]
