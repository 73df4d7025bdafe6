"""Inspection only: rules change through new versions and publishing."""

from django.contrib import admin

from catalog.admin import ReadOnly
from rules.models import Rule, RuleVersion


@admin.register(Rule)
class RuleAdmin(ReadOnly):
    list_display = ["code", "domain", "published", "created_at"]
    list_filter = ["domain"]
    search_fields = ["code"]
    list_select_related = ["domain", "published__rule"]


@admin.register(RuleVersion)
class RuleVersionAdmin(ReadOnly):
    list_display = ["rule", "number", "target", "author", "created_at"]
    search_fields = ["rule__code", "text"]
    list_select_related = ["rule", "target", "author"]
