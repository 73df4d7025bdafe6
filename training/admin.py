"""Inspection only: runs and models change through their jobs, aliases through promotion."""

from django.contrib import admin
from django.db.models import Model as DjangoModel
from django.http import HttpRequest

from training.models import AliasMove, Model, Retraining, RetrainPolicy, Run, RunMetric, TrainedStage


class ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: DjangoModel | None = None) -> bool:
        return False


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ["id", "cell", "base", "snapshot", "created_at"]
    list_select_related = ["snapshot"]
    list_filter = ["format", "memo", "retrieval"]


@admin.register(Model)
class ModelAdmin(ReadOnly):
    list_display = ["id", "run", "bytes", "parameters", "created_at"]
    list_select_related = ["run"]


@admin.register(AliasMove)
class AliasMoveAdmin(ReadOnly):
    list_display = ["id", "alias", "model", "actor", "note", "at"]
    list_select_related = ["model", "actor"]


@admin.register(TrainedStage)
class TrainedStageAdmin(ReadOnly):
    list_display = ["key", "stage", "run", "created_at"]
    list_select_related = ["run"]


@admin.register(RunMetric)
class RunMetricAdmin(ReadOnly):
    list_display = ["run", "stage", "step"]
    list_select_related = ["run"]


@admin.register(RetrainPolicy)
class RetrainPolicyAdmin(ReadOnly):
    list_display = ["name", "active", "base", "format", "memo", "retrieval", "changed_by", "changed_at"]
    list_select_related = ["changed_by"]


@admin.register(Retraining)
class RetrainingAdmin(ReadOnly):
    list_display = ["id", "policy", "run", "actor", "at"]
    list_select_related = ["policy", "run", "actor"]
