"""Import real queries into the registry, or show what would be stored."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from catalog.queries.imports import MOST_BYTES, import_counts, queries_import, queries_preview, read_queries
from trace_site.commands import TraceCommand
from trace_site.lib.files import read_bytes

SHOWN = 20


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--use", default="few_shot", choices=["few_shot"])
        parser.add_argument("--collection", required=True, metavar="NAME")
        parser.add_argument("--dry-run", action="store_true", help="show every query, store nothing")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        path: Path = options["path"]
        given = read_queries(read_bytes(path, MOST_BYTES), path.name)
        if options["dry_run"]:
            found = queries_preview(given)
            for one in found:  # the scrubbed texts alone: a terminal's scrollback is kept, too
                kinds = f"  ({', '.join(one.done.kinds)} replaced)" if one.done.found else ""
                self.echo(f"- row {one.number}: {one.reason}" if one.code else f"+ {one.text}{kinds}")
        else:
            found = queries_import(given=given, collection=options["collection"], actor=None)
            for one in [one for one in found if one.code][:SHOWN]:
                self.stderr.write(f"refused row {one.number}: {one.reason}")
        verb, counts = "would import" if options["dry_run"] else "imported", import_counts(found)
        return counts, f"{verb} {counts['added']:,} of {len(given):,} queries of {path.name}."
