from django.apps import AppConfig


class SynthesisConfig(AppConfig):
    name = "synthesis"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from synthesis.review.selectors import COMMENTS, READINGS
        from synthesis.samples import impact as tellers
        from trace_site import impact
        from trace_site.audit import lines as audit_lines

        audit_lines.register(READINGS)
        audit_lines.register(COMMENTS)
        impact.register("rules", tellers.of_rules)
        impact.register("tools", tellers.of_tools)
