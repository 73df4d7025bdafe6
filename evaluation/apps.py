from django.apps import AppConfig


class EvaluationConfig(AppConfig):
    name = "evaluation"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from evaluation.results import scoring as own
        from evaluation.results import views as results_views
        from synthesis.samples import lineage as samples_lineage
        from training.registry import registry

        samples_lineage.register(results_views.made_of_snapshots)
        registry.register(own.of_models)
