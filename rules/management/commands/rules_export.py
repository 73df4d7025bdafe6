"""Write the rules as JSON or CSV: the published version of each, or its newest draft."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from rules.exchange.services import as_text, rules_export
from trace_site.commands import TraceCommand
from trace_site.lib.files import write_atomic


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", default="", metavar="SLUG")
        parser.add_argument(
            "--format", choices=["json", "csv"], default="json", help="csv is for spreadsheets"
        )
        parser.add_argument("--out", type=Path, metavar="FILE", help="write a file instead of printing")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        rules = rules_export(domain=options["domain"])
        text = as_text(rules, options["format"])
        if options["out"]:
            write_atomic(options["out"], text)
            return {"rules": len(rules), "file": str(options["out"])}, f"{len(rules):,} rules written."
        return {"rules": rules}, "" if options["json"] else text
