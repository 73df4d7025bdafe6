"""Check every rule against the catalog and the other rules: one line a rule. Exits with 1 when there is an error."""

import sys
from typing import Any

from django.core.management.base import CommandParser

from rules.core.check import Finding
from rules.services import check_all, light_of, recheck
from trace_site.commands import TraceCommand

SHAPES = {"ok": "●", "warning": "▲", "error": "■"}


class Command(TraceCommand):
    help = __doc__
    errors = 0

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", default="", metavar="SLUG")
        parser.add_argument(
            "--refresh", action="store_true", help="also keep the result for the list of rules"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        if options["refresh"]:
            recheck(None)
        told: list[dict[str, Any]] = []
        lights = dict.fromkeys(SHAPES, 0)
        for (domain, code), findings in check_all(options["domain"]):
            light = light_of(findings)
            lights[light] += 1
            self.echo(_line(f"{domain}/{code}", light, findings))
            told += [{"domain": domain, "rule": code, **finding.as_dict()} for finding in findings]
        self.errors = sum(row["level"] == "error" for row in told)
        counts = {"rules": sum(lights.values()), "errors": self.errors, "warnings": len(told) - self.errors}
        words = f"{counts['rules']:,} rules: {counts['errors']:,} errors, {counts['warnings']:,} warnings."
        return {**counts, "lights": lights, "findings": told}, words

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if self.errors:
            sys.exit(1)


def _line(rule: str, light: str, findings: list[Finding]) -> str:
    """The light as shape and word, the rule, and every finding with its fix."""
    said = "; ".join(f"{finding.sentence} {finding.fix}" for finding in findings)
    return f"{SHAPES[light]} {light:7} {rule}{': ' if said else ''}{said}"
