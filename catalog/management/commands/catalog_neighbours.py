"""Encode what changed and find every tool's nearest neighbours."""

from typing import Any

from django.core.management.base import CommandParser

from catalog.lookalikes import K, neighbours_update
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--k", type=int, default=K, help="neighbours per tool")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        result = neighbours_update(k=options["k"], echo=self.echo)
        return result, (
            f"{result['tools']:,} tools: {result['encoded']:,} encoded, {result['changed']:,} neighbour lists written, "
            f"{result['removed']:,} removed in {result['seconds']} s."
        )
