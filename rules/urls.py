"""Addresses of the rule pages."""

from django.urls import path

from rules import views, views_editor, views_live

app_name = "rules"
urlpatterns = [
    path("", views.rule_list, name="list"),
    path("new/", views_editor.rule_create, name="create"),
    path("<int:pk>/", views.rule_detail, name="detail"),
    path("<int:pk>/versions/<int:number>/", views.rule_detail, name="version"),
    path("<int:pk>/edit/", views_editor.rule_update, name="update"),
    path("<int:pk>/publish/", views.rule_publish_version, name="publish"),
    path("<int:pk>/withdraw/", views.rule_withdraw_published, name="withdraw"),
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
    path("export.json", views.rule_export, name="export"),
]
