from django.apps import AppConfig


class EvaluationConfig(AppConfig):
    name = "evaluation"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from evaluation import lineage
        from evaluation import scores as own
        from synthesis import onward
        from training import scores

        onward.register(lineage.made_of_snapshots)
        scores.register(own.of_models)
