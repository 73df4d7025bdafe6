"""manage.py coverage: what published rules tell apart, per domain."""

from typing import Any

from django.core.management import CommandParser

from catalog.models import Domain
from evaluation.coverage.selectors import coverage
from evaluation.results.predictions import coverage_lines
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError


class Command(TraceCommand):
    help = "Show how much of each domain's confusable clusters published rules cover."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", help="a domain's slug; default: all")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        rows = coverage(options["domain"])
        if options["domain"] and not rows:
            known = ", ".join(Domain.objects.values_list("slug", flat=True)) or "none yet"
            raise TraceError(
                f"there is no domain {options['domain']!r}.",
                code="not_found",
                hint=f"The domains are: {known}.",
            )
        for row in rows:
            for line in coverage_lines(row):
                self.echo(line)
        return {"domains": {row.domain: row.as_dict() for row in rows}}, ""
