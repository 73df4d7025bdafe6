"""Inspection only: everything is written by services."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from synthesis.models import (
    Attempt,
    Decision,
    ModelCall,
    ModelReply,
    PromptVersion,
    Sample,
    Snapshot,
    SynthesisRun,
)


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(SynthesisRun)
class SynthesisRunAdmin(ReadOnly):
    list_display = ["id", "branch", "writer", "job", "created_at"]
    list_filter = ["branch"]
    list_select_related = ["job"]


@admin.register(Sample)
class SampleAdmin(ReadOnly):
    list_display = ["id", "branch", "style", "tier", "machine", "human", "query"]
    list_filter = ["branch", "style", "tier", "machine", "human"]
    search_fields = ["query", "key"]
    show_full_result_count = False


@admin.register(Attempt)
class AttemptAdmin(ReadOnly):
    list_display = ["id", "sample_id", "number", "outcome", "error_code", "query"]
    list_filter = ["outcome"]
    show_full_result_count = False


@admin.register(Decision)
class DecisionAdmin(ReadOnly):
    list_display = ["id", "sample_id", "verdict", "reason", "reviewer", "policy", "at"]
    list_filter = ["verdict"]
    list_select_related = ["reviewer"]
    show_full_result_count = False


@admin.register(ModelCall)
class ModelCallAdmin(ReadOnly):
    list_display = [
        "uid",
        "purpose",
        "model",
        "state",
        "error_code",
        "prompt_tokens",
        "completion_tokens",
        "cost",
    ]
    list_filter = ["purpose", "model", "state", "error_code"]
    show_full_result_count = False


@admin.register(ModelReply)
class ModelReplyAdmin(ReadOnly):
    list_display = ["key", "purpose", "model", "prompt_tokens", "completion_tokens", "at"]
    list_filter = ["purpose", "model"]
    show_full_result_count = False


@admin.register(PromptVersion)
class PromptVersionAdmin(ReadOnly):
    list_display = ["name", "hash", "first_used"]
    list_filter = ["name"]


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnly):
    list_display = ["id", "strategy", "per_rule", "hash", "created_at"]
