from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate


class TraceSiteConfig(AppConfig):
    name = "trace_site"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from trace_site import celery, checks  # noqa: F401 - shared tasks find the application, checks are known

        # the roles name a permission of the rules, which Django makes just before this is called
        post_migrate.connect(_make_roles, sender=apps.get_app_config("rules"))


def _make_roles(**_: Any) -> None:
    from trace_site.accounts import ensure_roles

    ensure_roles()
