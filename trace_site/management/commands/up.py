"""manage.py up: the site, the workers, beat and the engine, on embedded or configured services."""

from typing import Any

from django.conf import settings
from django.core.management import CommandParser, call_command

from trace_site.commands import TraceCommand
from trace_site.dev import copies
from trace_site.dev.supervisor import serve
from trace_site.people.services import ensure_roles


class Command(TraceCommand):
    help = "Serve the site with its workers until Ctrl-C."

    def add_options(self, parser: CommandParser) -> None:
        first = "first port to try (default: %(default)s)"
        parser.add_argument("--port", type=int, default=settings.PORT, help=first)
        work = "let a copy made by home_copy take up jobs and send mail and webhooks from now on"
        parser.add_argument("--work", action="store_true", help=work)

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        if options["work"]:
            copies.wake()
        call_command("migrate", verbosity=0)
        ensure_roles()
        serve(options["port"], self.echo)
        return {}, "stopped"
