from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from synthesis import onward
        from trace_site import impact
        from training import impact as tellers
        from training import lineage

        impact.register("rules", tellers.of_rules)
        impact.register("tools", tellers.of_tools)
        onward.register(lineage.made_of_snapshots)
