"""Find the confusable clusters of each domain and keep them as a frozen version."""

from typing import Any

from django.core.management.base import CommandParser

from catalog.lookalikes import clusters_update
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", default="", metavar="SLUG")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        results = clusters_update(domain=options["domain"], echo=self.echo)
        new = sum(result["new"] for result in results.values())
        return {"domains": results}, f"{new} new clustering version{'' if new == 1 else 's'}."
