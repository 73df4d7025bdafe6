"""manage.py migrate: Django's, as the database's owner; afterwards the application's role is told what it may."""

from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.commands import migrate
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from trace_site.database import as_owner, grant_rights
from trace_site.lib.errors import TraceError


class Command(migrate.Command):
    def execute(self, *args: Any, **options: Any) -> str | None:
        with as_owner():  # the checks before it ask the database too, which may not know the application yet
            return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        refuse_old_home()
        super().handle(*args, **options)
        grant_rights()


def refuse_old_home() -> None:
    """Raises TraceError "old_home" where migrations were applied that are no longer here: they have been squashed."""
    loader = MigrationLoader(connection)
    ours = {app.label for app in apps.get_app_configs() if Path(app.path).parent == settings.BASE_DIR}
    gone = sorted(
        name
        for app, name in loader.applied_migrations
        if app in ours and (app, name) not in loader.disk_migrations
    )
    if gone:
        raise TraceError(
            f"this home's database was made by an earlier version (it has {len(gone)} migrations that this one has "
            "not), and cannot be brought up to this one.",
            code="old_home",
            where=str(connection.settings_dict["NAME"]),
            hint="Start a new one: set TRACE_HOME to another folder, or DATABASE_URL to an empty database. The rules "
            "come along: `manage.py rules_export` of the earlier version, then `manage.py rules_import` of this one.",
        )
