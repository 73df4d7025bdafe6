from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from trace_site import impact
        from training import impact as tellers

        impact.register("rules", tellers.of_rules)
        impact.register("tools", tellers.of_tools)
