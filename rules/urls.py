"""Addresses of the rule pages."""

from django.urls import path

from rules import views as rules_views
from rules.changes import views as changes_views
from rules.editor import views as editor_views
from rules.exchange import views as exchange_views
from rules.suggestions import views as suggestions_views

app_name = "rules"
urlpatterns = [
    path("", rules_views.rule_list, name="list"),
    path("new/", editor_views.rule_create, name="create"),
    path("<int:pk>/", rules_views.rule_detail, name="detail"),
    path("<int:pk>/versions/<int:number>/", rules_views.rule_detail, name="version"),
    path("<int:pk>/edit/", editor_views.rule_update, name="update"),
    path("<int:pk>/compare/", rules_views.compare_chosen, name="compare_chosen"),
    path("<int:pk>/compare/<int:first>/<int:second>/", rules_views.compare, name="compare"),
    path("<int:pk>/versions/<int:number>/propose/", rules_views.propose_version, name="propose"),
    path("<int:pk>/versions/<int:number>/pair/", rules_views.correct_pair, name="pair_correct"),
    path("<int:pk>/wait/", rules_views.wait, name="wait"),
    path("<int:pk>/withdraw/", rules_views.propose_withdrawal, name="withdraw"),
    path("requests/", changes_views.request_list, name="requests"),
    path("requests/count/", changes_views.request_count, name="request_count"),
    path("requests/<int:pk>/", changes_views.request_page, name="request"),
    path("requests/<int:pk>/impact/", changes_views.request_impact, name="request_impact"),
    path("requests/<int:pk>/<slug:verb>/", changes_views.request_action, name="request_action"),
    path("changes/<int:pk>/", editor_views.change_edit, name="change"),
    path("changes/save/", editor_views.change_save, name="change_save"),
    path("<int:pk>/impact/", editor_views.rule_impact, name="impact"),
    path("fields/", editor_views.fields, name="fields"),
    path("sentence-fix/", editor_views.sentence_fix, name="sentence_fix"),
    path("check/", editor_views.rule_check, name="check"),
    path("confusables/", editor_views.confusables, name="confusables"),
    path("tool-search/", editor_views.tool_search, name="tool-search"),
    path("suggestions/", suggestions_views.suggestion_list, name="suggestions"),
    path("suggestions/start/", suggestions_views.suggestions_start, name="suggestions_start"),
    path("suggestions/<int:pk>/", suggestions_views.suggestion_page, name="suggestion"),
    path("suggestions/<int:pk>/dismiss/", suggestions_views.suggestion_dismiss, name="suggestion_dismiss"),
    path("suggestions/<int:pk>/restore/", suggestions_views.suggestion_restore, name="suggestion_restore"),
    path("of-tool/<int:pk>/", rules_views.rules_of_tool, name="of_tool"),
    path("affected/", rules_views.affected, name="affected"),
    path("export.json", exchange_views.rule_export, {"fmt": "json"}, name="export"),
    path("export.csv", exchange_views.rule_export, {"fmt": "csv"}, name="export_csv"),
    path("import/", exchange_views.rule_import, name="import"),
    path("import/request/", exchange_views.rule_import_request, name="import_request"),
]
