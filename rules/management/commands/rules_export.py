"""Print the rules as JSON: the published version of each, or its newest draft."""

import json
from typing import Any

from django.core.management.base import CommandParser

from rules.exchange import rules_export
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", default="", metavar="SLUG")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        rules = rules_export(domain=options["domain"])
        text = "" if options["json"] else json.dumps(rules, ensure_ascii=False, indent=1)
        return {"rules": rules}, text
