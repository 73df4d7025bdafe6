"""Import labelled queries {"query", "tools"} as samples of the branch `imported`; personal data are replaced first."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from synthesis.generate.imports import samples_import
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument(
            "--approve", action="store_true", help="take the labels as they are, without review"
        )
        parser.add_argument(
            "--split", default="train", help="rows of this split (or without one); all for every row"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        counts = samples_import(path=options["path"], approve=options["approve"], split=options["split"])
        for line in counts.errors[:10]:
            self.stderr.write(line)
        return asdict(counts), (
            f"imported {counts.imported:,} labelled queries ({counts.unchanged:,} known, {counts.repeated:,} repeated, "
            f"{counts.skipped:,} skipped, {counts.other_split:,} of another split, "
            f"{counts.contaminated:,} too close to a benchmark); "
            f"personal data were replaced in {counts.scrubbed:,}."
        )
