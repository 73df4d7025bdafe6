"""What `manage.py check --deploy` says beside Django's own checks."""

from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import OperationalError, connection

OWNS = """
SELECT rolsuper OR EXISTS (SELECT FROM pg_class WHERE relname = 'trace_site_auditchange'
                           AND pg_has_role(current_user, relowner, 'MEMBER'))
FROM pg_roles WHERE rolname = current_user
"""


@register(Tags.security, deploy=True)
def application_owns_nothing(**_: Any) -> list[CheckMessage]:
    """The database role of the application must not be able to switch the audit off."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(OWNS)
            owns = cursor.fetchone()[0]
    except OperationalError as error:
        return [
            Warning(
                f"The database does not answer, so nobody knows what its role may do: {str(error).strip()}",
                hint="Check DATABASE_URL.",
                id="trace.W002",
            )
        ]
    if not owns:
        return []
    return [
        Warning(
            "The application works as the owner of its tables: it could switch the audit ledger off.",
            hint="Give DATABASE_URL a role that owns nothing and DATABASE_OWNER_URL the owner, then migrate.",
            id="trace.W001",
        )
    ]
