"""The site as a Django application, and what `manage.py check --deploy` says beside Django's own checks."""

from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import OperationalError, connection
from django.db.models.signals import post_migrate

from trace_site.access import ACCOUNT, ADMINS, ANYBODY, ROLES, Area

OWNS = """
SELECT rolsuper OR EXISTS (SELECT FROM pg_class WHERE relname = 'trace_site_auditchange'
                           AND pg_has_role(current_user, relowner, 'MEMBER'))
FROM pg_roles WHERE rolname = current_user
"""


class TraceSiteConfig(AppConfig):
    name = "trace_site"
    areas = [
        Area((ANYBODY,), (ANYBODY,), "login logout healthz password-set api-schema api-docs"),
        Area(
            (ACCOUNT,),
            (ACCOUNT,),
            """account account-token account-token-revoke account-service-token-revoke account-password
            account-session-end account-sessions-end""",
        ),
        Area(
            ROLES,
            ROLES,
            """jobs:list jobs:detail jobs:card jobs:cancel jobs:retry notices:list notices:unread
            notices:read notices:mail notices:open""",
        ),
        Area(
            ADMINS,
            ADMINS,
            """audit audit-csv audit-event audit-change api-audit webhooks:list webhooks:detail webhooks:test
            webhooks:pause webhooks:resume webhooks:rotate webhooks:delete webhooks:delivery webhooks:again
            api-webhooks api-webhook api-webhook-test api-webhook-secret api-webhook-deliveries
            api-webhook-send people:list people:person people:reset people:deactivate people:activate
            people:token people:token_rotate people:token_permit people:token_revoke""",
        ),
    ]
    long_views = "webhooks:again webhooks:test api-webhook-send api-webhook-test"
    audit_pages = {"job": "jobs:detail", "user": "people:person", "webhook": "webhooks:detail"}
    audit_names = {
        "auth_user_groups": "user__username",
        "auth_user_user_permissions": "user__username",
        "auth_group_permissions": "group__name",
    }

    def ready(self) -> None:
        from trace_site import celery  # noqa: F401 - shared tasks find the application
        from trace_site.people.services import ensure_roles

        # the roles name a permission of the rules, which Django makes just before this is called
        post_migrate.connect(ensure_roles, sender=apps.get_app_config("rules"))


@register(Tags.security, deploy=True)
def proxies_are_counted(**_: Any) -> list[CheckMessage]:
    """What speaks TLS stands before the site; unless it is counted, every visitor has its address."""
    said = (
        "HTTPS is on and PROXIES is 0: behind a proxy all visitors share its address, and so their wrong "
        "passwords and API requests count together."
    )
    hint = "Set PROXIES to the number of your proxies before the site."
    return [Warning(said, hint=hint, id="trace.W003")] if settings.HTTPS and not settings.PROXIES else []


@register(Tags.security, deploy=True)
def application_owns_nothing(**_: Any) -> list[CheckMessage]:
    """The database role of the application must not be able to switch the audit off."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(OWNS)
            owns = cursor.fetchone()[0]
    except OperationalError as error:
        said = f"The database does not answer, so nobody knows what its role may do: {str(error).strip()}"
        return [Warning(said, hint="Check DATABASE_URL.", id="trace.W002")]
    said = "The application works as the owner of its tables: it could switch the audit ledger off."
    hint = "Give DATABASE_URL a role that owns nothing and DATABASE_OWNER_URL the owner, then migrate."
    return [Warning(said, hint=hint, id="trace.W001")] if owns else []
