"""Find the confusable clusters of each domain and keep them as a frozen version."""

from typing import Any

from django.core.management.base import CommandParser

from catalog.lookalikes import clusters_update
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", default="", metavar="SLUG")
        parser.add_argument("--tau", type=float, help="cosine threshold; by default that of the last version")
        parser.add_argument("--retune", action="store_true", help="choose tau anew")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        results = clusters_update(
            domain=options["domain"], tau=options["tau"], retune=options["retune"], echo=self.echo
        )
        new = sum(result["new"] for result in results.values())
        return {"domains": results}, f"{new} new clustering version{'' if new == 1 else 's'}."
