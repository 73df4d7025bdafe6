from django.apps import AppConfig


class RulesConfig(AppConfig):
    name = "rules"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from rules.impact import rules_of_tools
        from trace_site import impact

        impact.register("tools", rules_of_tools)
