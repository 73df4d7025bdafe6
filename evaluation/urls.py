"""Addresses of the evaluation pages."""

from django.urls import URLPattern

app_name = "evaluation"
urlpatterns: list[URLPattern] = []
