"""Write queries and traces for rules, catalog tools or imported queries."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from synthesis.core.queries import WRITERS
from synthesis.core.recipe import default_recipe, load_recipe
from synthesis.generate.estimates import Estimate, estimate
from synthesis.generate.services import BRANCHES, synthesis_start
from trace_site.commands import TraceCommand, add_budget, run_inline

SHOWN = 5


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--branch", required=True, choices=BRANCHES)
        parser.add_argument("--per-rule", type=int, default=12, help="samples per rule, over its styles")
        parser.add_argument("--anchors", type=int, default=100, help="RRB samples, one anchor tool each")
        parser.add_argument("--domain", default="")
        parser.add_argument("--rule", default="", help="the code of the one rule to write for")
        parser.add_argument("--writer", default="offline", choices=WRITERS)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--underspecified", action="store_true", help="add the fourth style to rule runs")
        parser.add_argument("--recipe", type=Path, help="a YAML file; missing fields keep their defaults")
        add_budget(parser)
        parser.add_argument(
            "--keep-outdated",
            action="store_true",
            help="keep samples that only other prompts, models or recipes made",
        )
        parser.add_argument("--estimate", action="store_true", help="tell what it would do, start nothing")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        names = ("branch", "per_rule", "anchors", "domain", "rule", "writer", "seed", "underspecified")
        chosen = {
            **{name: options[name] for name in names},
            "recipe": load_recipe(options["recipe"]) if options["recipe"] else default_recipe(),
            "budget": {name: options[name] for name in ("calls", "tokens", "money")},
            "outdated": "keep" if options["keep_outdated"] else "rewrite",
        }
        if options["estimate"]:
            return self._estimated(estimate(**chosen))
        run = synthesis_start(**chosen, wake=False)
        assert run.job is not None
        counts = run_inline(run.job, self.echo)
        for line in funnel_lines(counts):
            self.echo(line)
        run.refresh_from_db()
        for entry in run.skipped[:SHOWN]:
            self.echo(f"  skipped {entry['style']} for {entry['rule']}: {entry['reason']}")
        if len(run.skipped) > SHOWN:
            self.echo(f"  ... and {len(run.skipped) - SHOWN:,} more styles that their rules cannot support")
        if not counts["written"]:
            return counts, "nothing was missing; nothing was written."
        return counts, f"{counts['ready']:,} of {counts['written']:,} samples are ready for review."

    def _estimated(self, found: Estimate) -> tuple[dict[str, Any], str]:
        told = asdict(found)
        for name in ("samples", "calls", "tokens", "money", "seconds"):
            value = told[name]["value"]
            self.echo(f"  {name:<8} {'?' if value is None else f'{value:,.10g}':>12}  {told[name]['basis']}")
        for line in found.over:
            self.echo(f"  over the budget: {line}")
        del told["plan"]["rows"]
        return told, f"about {found.samples.value:,.10g} samples would be written; nothing was started."


def funnel_lines(counts: dict[str, Any]) -> list[str]:
    """The funnel for a terminal."""
    share = counts["ready"] / counts["written"] if counts["written"] else 0.0

    def listed(reasons: dict[str, int]) -> str:
        return f" ({', '.join(f'{name} {number:,}' for name, number in reasons.items())})" if reasons else ""

    given_up = sum(counts["given_up"].values())
    return [
        f"  planned     {counts['planned']:>7,} samples, {given_up:,} given up{listed(counts['given_up'])}",
        f"  written     {counts['written']:>7,} samples, {counts['attempts']:,} attempts",
        f"  asked       {counts['calls']:>7,} calls, {counts['tokens']:,} tokens, cost {counts['cost']:,.4f}"
        f"{', {:,} answers unwrapped'.format(counts['unwrapped']) if counts['unwrapped'] else ''}",
        f"  filter V    {counts['filtered']:>7,} attempts refused{listed(counts['checks'])}",
        f"  judge J     {counts['judged_out']:>7,} attempts refused{listed(counts['axes'])}",
        f"  errors      {counts['errors']:>7,} attempts{listed(counts['error_codes'])}",
        f"  dropped     {counts['dropped']:>7,} samples after all retries",
        f"  ready       {counts['ready']:>7,} samples ({share:.1%})",
        *(f"  {code}: {text}" for code, text in counts["error_texts"].items()),
        *(
            f"  {model}: {name} {f'is {change}' if change else 'is left out'}"
            for model, changes in counts["adapted"].items()
            for name, change in changes.items()
        ),
    ]
