"""Addresses of the rule pages."""

from django.urls import path

from rules import views

app_name = "rules"
urlpatterns = [
    path("", views.rule_list, name="list"),
    path("new/", views.rule_create, name="create"),
    path("<int:pk>/", views.rule_detail, name="detail"),
    path("<int:pk>/versions/<int:number>/", views.rule_detail, name="version"),
    path("<int:pk>/edit/", views.rule_update, name="update"),
    path("<int:pk>/publish/", views.rule_publish_version, name="publish"),
    path("<int:pk>/withdraw/", views.rule_withdraw_published, name="withdraw"),
    path("check/", views.rule_check, name="check"),
    path("confusables/", views.confusables, name="confusables"),
    path("tool-search/", views.tool_search, name="tool-search"),
    path("of-tool/<int:pk>/", views.rules_of_tool, name="of_tool"),
    path("affected/", views.affected, name="affected"),
    path("export.json", views.rule_export, name="export"),
]
