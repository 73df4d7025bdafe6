"""Addresses of the synthesis pages."""

from django.urls import URLPattern

app_name = "synthesis"
urlpatterns: list[URLPattern] = []
