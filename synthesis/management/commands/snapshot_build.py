"""Freeze approved samples, the published rules and the catalog into a dataset to train on."""

from typing import Any

from django.core.management.base import CommandParser

from synthesis.core.budgets import read_budgets
from synthesis.datasets.build import STRATEGIES, snapshot_start
from trace_site.commands import TraceCommand, run_inline
from trace_site.lib.errors import TraceError


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--strategy", required=True, choices=STRATEGIES)
        parser.add_argument("--per-rule", type=int, required=True, help="approved samples per rule")
        parser.add_argument("--branches", default="rrb,rule", help="comma-separated: rrb, rule, imported")
        parser.add_argument("--rrb", type=int, default=None, help="at most this many RRB samples")
        parser.add_argument("--domain", default="")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument(
            "--strict", action="store_true", help="refuse when a sample repeats a benchmark or few-shot query"
        )
        parser.add_argument(
            "--budget",
            action="append",
            default=[],
            metavar="DOMAIN:LIMITS",
            help="hr:rule=100,rrb=50 (at most so many) or hr:share=40 (percent of each branch); may be repeated",
        )
        parser.add_argument(
            "--licence",
            default="",
            help="of the dataset itself, for its card: an SPDX identifier, or a few words; an equal dataset frozen "
            "before keeps its own",
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        names = ("strategy", "per_rule", "rrb", "domain", "seed", "strict", "licence")
        branches = [name.strip() for name in options["branches"].split(",") if name.strip()]
        try:
            budgets = read_budgets(options["budget"])
        except ValueError as error:
            hint = "Write hr:rule=100,rrb=50 or hr:share=40."
            message = f"{str(error)!r} is no budget."
            raise TraceError(message, code="bad_option", where="--budget", hint=hint) from error
        given = {name: options[name] for name in names}
        job = snapshot_start(branches=branches, budgets=budgets, wake=False, **given)
        result = run_inline(job, self.echo)
        counts = result["counts"]
        return result, (
            f"snapshot {result['id']} ({result['hash'][:12]}): {counts['samples']:,} samples "
            f"({counts['rrb']:,} rrb, {counts['rule']:,} rule, {counts['imported']:,} imported); "
            f"{result['contaminated']:,} left out as too close to a benchmark or few-shot query."
        )
