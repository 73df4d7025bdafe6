"""manage.py migrate: Django's, as the database's owner; afterwards the application's role is told what it may."""

from typing import Any

from django.core.management.commands import migrate

from trace_site.database_roles import as_owner, grant_rights


class Command(migrate.Command):
    def execute(self, *args: Any, **options: Any) -> str | None:
        with as_owner():  # the checks before it ask the database too, which may not know the application yet
            return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        grant_rights()
