from django.apps import AppConfig


class TraceSiteConfig(AppConfig):
    name = "trace_site"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from trace_site import celery  # noqa: F401 - makes shared tasks find the application
