"""Import a catalog file into a domain, or show what that would change."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from catalog.core.importers.detect import FORMATS
from catalog.core.importers.read import LISTED_ERRORS
from catalog.imports.services import catalog_import
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError

SHOWN = 10


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--domain", required=True, metavar="SLUG")
        parser.add_argument("--format", default="auto", choices=["auto", *FORMATS])
        parser.add_argument("--dry-run", action="store_true", help="show the difference, write nothing")
        parser.add_argument(
            "--skip-bad-rows", action="store_true", help="import the good rows, list the others"
        )
        parser.add_argument(
            "--licence", default="", help="what the file may be used for: an SPDX identifier, or a few words"
        )

        parser.add_argument(
            "--api-name", default="", help="what the file's API is called here, instead of its title"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        try:
            same = ("path", "domain", "dry_run", "skip_bad_rows", "licence", "api_name")
            result = catalog_import(fmt=options["format"], **{key: options[key] for key in same})
        except TraceError as error:
            for line in error.extra.get("errors", [])[1:LISTED_ERRORS]:
                self.stderr.write(line)
            raise
        for line in result.counts["errors"][:LISTED_ERRORS]:
            self.stderr.write(f"skipped {line}")
        for note in result.notes[:LISTED_ERRORS]:
            self.stderr.write(f"note: {note}")
        for step in result.versions[:LISTED_ERRORS]:
            self.echo(str(step))
        if options["dry_run"]:
            added, changed = ([one.name for one in kind] for kind in (result.diff.added, result.diff.changed))
            rows = (("+", added), ("~", changed), ("-", result.diff.removed))
            for mark, names in (*rows, ("deprecated", result.diff.deprecated)):
                for name in names[:SHOWN]:
                    self.echo(f"{mark} {name}")
                if len(names) > SHOWN:
                    self.echo(f"{mark} ... and {len(names) - SHOWN:,} more")
        verb, counts = "would import" if options["dry_run"] else "imported", result.counts
        parts = ", ".join(f"{counts[key]:,} {key}" for key in counts if key != "errors" and counts[key])
        return counts, f"{verb} {options['path'].name} into {options['domain']}: {parts or 'nothing'}."
