"""Inspection only: runs and models change through their jobs, aliases through promotion."""

from django.contrib import admin

from catalog.admin import ReadOnly
from training.models import AliasMove, Model, Retraining, RetrainPolicy, Run, RunMetric, TrainedStage

of_run = {"list_select_related": ["run"]}
admin.site.register(
    Run,
    ReadOnly,
    list_display=["id", "cell", "base", "snapshot", "created_at"],
    list_select_related=["snapshot"],
    list_filter=["format", "memo", "retrieval"],
)
admin.site.register(
    Model, ReadOnly, list_display=["id", "run", "bytes", "parameters", "created_at"], **of_run
)
admin.site.register(TrainedStage, ReadOnly, list_display=["key", "stage", "run", "created_at"], **of_run)
admin.site.register(RunMetric, ReadOnly, list_display=["run", "stage", "step"], **of_run)
moves = ["id", "alias", "model", "actor", "note", "override", "at"]
admin.site.register(AliasMove, ReadOnly, list_display=moves, list_select_related=["model", "actor"])
policies = ["name", "active", "base", "format", "memo", "retrieval", "changed_by", "changed_at"]
admin.site.register(RetrainPolicy, ReadOnly, list_display=policies, list_select_related=["changed_by"])
retrainings = ["id", "policy", "run", "actor", "at"]
related = ["policy", "run", "actor"]
admin.site.register(Retraining, ReadOnly, list_display=retrainings, list_select_related=related)
