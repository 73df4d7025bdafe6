"""Look for rules that the catalog calls for: deprecations, version twins, conditions that vendors name, failures."""

from typing import Any

from django.core.management.base import CommandParser

from rules.suggestions.services import MOST_WORDED, WRITERS, suggestions_start
from trace_site.commands import TraceCommand, add_budget, run_inline


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", default="", metavar="SLUG")
        parser.add_argument(
            "--writer",
            default="words",
            choices=WRITERS,
            help="llm: a language model words the strongest anew",
        )
        parser.add_argument("--most", type=int, default=MOST_WORDED, help="how many the model is asked about")
        add_budget(parser)

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        job = suggestions_start(
            domain=options["domain"].lower(),
            writer=options["writer"],
            most=options["most"],
            budget={name: options[name] for name in ("calls", "tokens", "money")},
            wake=False,
        )
        result = run_inline(job, self.echo)
        told = {"domains": result["domains"], "worded": result["worded"]}
        for slug, counts in result["domains"].items():
            self.echo(
                f"{slug}: {counts['proposed']:,} suggestions from {counts['tools']:,} tools "
                f"({counts['new']:,} new, {counts['changed']:,} changed, {counts['gone']:,} gone)"
            )
        proposed = sum(counts["proposed"] for counts in result["domains"].values())
        return told, f"{proposed:,} rules are suggested; none is published without a person."
