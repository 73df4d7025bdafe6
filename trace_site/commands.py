"""The one shape of every command: `--json` makes the last line of stdout one JSON object; errors are one line."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import IntegrityError

from trace_site.audit_context import acting
from trace_site.database import frozen_error
from trace_site.lib.errors import TraceError


class TraceCommand(BaseCommand):
    """A thin shell: define `add_options` and `run`, which returns (result, sentence for people)."""

    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="print the result as one JSON object, last line"
        )
        self.add_options(parser)

    def add_options(self, parser: CommandParser) -> None:
        """Add the command's own options."""

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Do the work; raise TraceError for what the user can fix."""
        raise CommandError("this command does nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        source = f"command {type(self).__module__.rpartition('.')[2]}"
        try:
            with acting(None, source):
                result, sentence = self.run(options)
        except TraceError as error:
            raise CommandError(str(error)) from error
        except IntegrityError as error:
            if (frozen := frozen_error(error)) is None:
                raise
            raise CommandError(str(frozen)) from error
        if sentence:
            self.stdout.write(sentence)
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False, default=str))

    def echo(self, line: str) -> None:
        """Progress for people; with or without --json it goes to stdout before the last line."""
        self.stdout.write(line)
        self.stdout.flush()
