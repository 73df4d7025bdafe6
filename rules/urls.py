"""Addresses of the rule pages."""

from django.urls import path

from rules import views

app_name = "rules"
urlpatterns = [
    path("", views.rule_list, name="list"),
]
