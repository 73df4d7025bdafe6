from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from synthesis.samples import lineage as samples_lineage
        from trace_site import impact
        from training.registry import selectors as registry_selectors

        impact.register("rules", registry_selectors.of_rules)
        impact.register("tools", registry_selectors.of_tools)
        samples_lineage.register(registry_selectors.made_of_snapshots)
