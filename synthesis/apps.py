from django.apps import AppConfig


class SynthesisConfig(AppConfig):
    name = "synthesis"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from synthesis import impact as tellers
        from synthesis.veils import COMMENTS, READINGS
        from trace_site import audit_veils, impact

        audit_veils.register(READINGS)
        audit_veils.register(COMMENTS)
        impact.register("rules", tellers.of_rules)
        impact.register("tools", tellers.of_tools)
