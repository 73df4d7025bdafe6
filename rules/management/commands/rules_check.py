"""Check every rule against the catalog and the other rules."""

from typing import Any

from django.core.management.base import CommandParser

from rules.book import current_versions, rule_book, version_contents
from rules.core.findings import check_rule
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", default="", metavar="SLUG")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        versions = current_versions(options["domain"])
        contents, book = version_contents(versions), rule_book()
        found: list[dict[str, Any]] = []
        for version in versions:
            key = (version.rule.domain_id, version.rule.code)
            for finding in check_rule(contents[version.pk], book, key):
                found.append({"domain": key[0], "rule": key[1], **finding.as_dict()})
                self.echo(f"{finding.level:7} {key[0]}/{key[1]}: {finding.sentence} {finding.fix}")
        errors = sum(row["level"] == "error" for row in found)
        result = {
            "rules": len(versions),
            "errors": errors,
            "warnings": len(found) - errors,
            "findings": found,
        }
        return result, f"{len(versions):,} rules: {errors:,} errors, {len(found) - errors:,} warnings."
