"""Write queries and traces for rules, catalog tools or imported queries."""

from typing import Any

from django.core.management.base import CommandParser

from synthesis.services import BRANCHES, synthesis_start
from synthesis.yields import funnel_lines
from trace_site.commands import TraceCommand
from trace_site.jobs import run_inline


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--branch", required=True, choices=BRANCHES)
        parser.add_argument("--per-rule", type=int, default=12, help="samples per rule, over its styles")
        parser.add_argument("--anchors", type=int, default=100, help="RRB samples, one anchor tool each")
        parser.add_argument("--domain", default="")
        parser.add_argument("--writer", default="offline", choices=("offline", "llm"))
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--underspecified", action="store_true", help="add the fourth style to rule runs")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        names = ("branch", "per_rule", "anchors", "domain", "writer", "seed", "underspecified")
        run = synthesis_start(**{name: options[name] for name in names}, wake=False)
        assert run.job is not None
        counts = run_inline(run.job, self.echo)
        for line in funnel_lines(counts):
            self.echo(line)
        run.refresh_from_db()
        for entry in run.skipped[:5]:
            self.echo(f"  skipped {entry['style']} for {entry['rule']}: {entry['reason']}")
        if len(run.skipped) > 5:
            self.echo(f"  ... and {len(run.skipped) - 5:,} more styles that their rules cannot support")
        if not counts["written"]:
            return counts, "nothing was missing; nothing was written."
        return counts, f"{counts['ready']:,} of {counts['written']:,} samples are ready for review."
