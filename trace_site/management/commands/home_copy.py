"""manage.py home_copy: a copy of this home that sends nothing and takes up no job until it is told to."""

from pathlib import Path
from typing import Any

from django.core.management import CommandParser

from trace_site.commands import TraceCommand
from trace_site.dev.copies import copy_home


class Command(TraceCommand):
    help = (
        "Copy this home, also while it is served. The copy takes up no job and sends nothing until told to."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="the copy, which is not there yet")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        folder = options["folder"].resolve()
        copy_home(folder)
        said = (
            f"Copied. Serve it with TRACE_HOME={folder} manage.py up; --work lets it take up jobs and send."
        )
        return {"home": str(folder)}, said
