from django.apps import AppConfig


class RulesConfig(AppConfig):
    name = "rules"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from catalog import hooks
        from catalog.selectors import tell_ruled_tools
        from rules.health import recheck_tools
        from rules.selectors import ruled_tools, rules_of_tools
        from trace_site import impact

        impact.register("tools", rules_of_tools)
        tell_ruled_tools(ruled_tools)
        hooks.on_tools_changed(recheck_tools)
