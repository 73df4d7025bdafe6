from django.apps import AppConfig

from trace_site.access import ADMINS, READERS, ROLES, Area


class TrainingConfig(AppConfig):
    name = "training"
    areas = [
        Area(
            ROLES,
            ADMINS,
            """training:list training:detail training:live training:curves training:yaml training:compare
            training:queue training:queue_live training:of_snapshot training:cancel training:resume
            training:grids training:grid training:grid_live training:grid_cancel training:grid_resume
            training:models training:model training:newer training:promote training:rollback
            training:challenger training:keep training:policies training:policy_preview
            training:policy_switch training:policy_start api-training-bases api-training-estimate
            api-training-runs api-training-run api-training-run-metrics api-training-run-cancel
            api-training-run-resume api-training-models api-training-model api-training-promote
            api-training-rollback api-training-aliases""",
        ),
        Area(
            ADMINS,
            ADMINS,
            """training:create training:estimate training:recipe training:recipe_download
            training:grid_create training:grid_preview training:imports training:import_adopt
            training:retention training:policy_create training:policy_edit""",
        ),
        Area(READERS, READERS, "training:policy_samples"),
        Area(ADMINS, ADMINS, "training:log"),
    ]
    long_views = "training:estimate training:import_adopt api-training-estimate"
    events = {
        "run.finished": "A training run made a model.",
        "model.promoted": "An alias names another model.",
    }
    notices = {
        "retraining": "A retraining policy started a run, or one of its runs failed.",
        "candidate": "A newly trained model stands beside the champion.",
    }
    audit_pages = {"model": "training:model", "run": "training:detail"}
    audit_names = {"training_aliasmove": "alias"}
    impact = {
        "rules": "training.registry.selectors.of_rules",
        "tools": "training.registry.selectors.of_tools",
    }
    made_of_snapshots = "training.registry.selectors.made_of_snapshots"
