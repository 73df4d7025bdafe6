from django.apps import AppConfig


class SynthesisConfig(AppConfig):
    name = "synthesis"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from synthesis import impact as tellers
        from trace_site import impact

        impact.register("rules", tellers.of_rules)
        impact.register("tools", tellers.of_tools)
