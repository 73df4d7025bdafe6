"""Import rules from a JSON file."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from rules.exchange import rules_import
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError

LISTED_ERRORS = 20
SHOWN = 10


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--publish", action="store_true", help="publish every rule of the file")
        parser.add_argument("--dry-run", action="store_true", help="check and compare, write nothing")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        dry_run = options["dry_run"]
        try:
            result = rules_import(path=options["path"], publish=options["publish"], dry_run=dry_run)
        except TraceError as error:
            for line in error.extra.get("errors", [])[1:LISTED_ERRORS]:
                self.stderr.write(line)
            raise
        for mark, labels in (("+", result.added), ("~", result.changed)) if dry_run else ():
            for label in labels[:SHOWN]:
                self.echo(f"{mark} {label}")
            if len(labels) > SHOWN:
                self.echo(f"{mark} ... and {len(labels) - SHOWN:,} more")
        counts = result.counts
        parts = ", ".join(
            f"{counts[key]:,} {key}" for key in ("added", "changed", "unchanged") if counts[key]
        )
        verb = "would import" if dry_run else "imported"
        tail = f"; {result.published:,} published" if result.published else ""
        return counts, f"{verb} rules from {options['path'].name}: {parts or 'none'}{tail}."
