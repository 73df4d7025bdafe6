"""Import rules from a JSON or CSV file."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from rules.exchange.services import rules_import
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
        parser.add_argument(
            "--skip-bad-rows",
            action="store_true",
            help="leave rules with mistakes out instead of refusing all",
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        given = {key: options[key] for key in ("path", "publish", "dry_run", "skip_bad_rows")}
        try:
            preview, published = rules_import(**given)
        except TraceError as error:
            self._list(error.extra.get("errors", [])[1:])
            raise
        counts = preview.counts()
        del counts["unpublished"]  # they count as unchanged
        self._list(counts["errors"])
        for name, number in counts["ignored"].items():
            self.stderr.write(f"The field {name} of {number:,} rules is not part of a rule and was not kept.")
        for mark, kind in (("+", "added"), ("~", "changed")) if options["dry_run"] else ():
            changes = preview.of(kind)
            for change in changes[:SHOWN]:
                self.echo(f"{mark} {change.label}")
            if len(changes) > SHOWN:
                self.echo(f"{mark} ... and {len(changes) - SHOWN:,} more")
        words = ("added", "changed", "unchanged", "skipped")
        parts = ", ".join(f"{counts[key]:,} {key}" for key in words if counts[key])
        verb = "would import" if options["dry_run"] else "imported"
        tail = f"; {published:,} published" if published else ""
        return counts, f"{verb} rules from {options['path'].name}: {parts or 'none'}{tail}."

    def _list(self, lines: list[str]) -> None:
        for line in lines[:LISTED_ERRORS]:
            self.stderr.write(line)
        if len(lines) > LISTED_ERRORS:
            self.stderr.write(f"... and {len(lines) - LISTED_ERRORS:,} more")
