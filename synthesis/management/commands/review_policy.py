"""Approve waiting samples by a stated policy instead of reading them; the policy is written on every sample."""

from typing import Any

from django.core.management.base import CommandParser

from synthesis.review.services import policy_approve
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--auto-approve", required=True, metavar="N|all")
        parser.add_argument("--seed", type=int, default=0, help="for the lot, when N is less than what waits")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        given = options["auto_approve"]
        if given != "all" and not given.isdecimal():
            message = f"'{given}' is neither a number nor 'all'."
            raise TraceError(message, code="bad_option", where="--auto-approve")
        result = policy_approve(count=None if given == "all" else int(given), seed=options["seed"])
        return result, f"approved {result['approved']:,} samples by policy; {result['waiting']:,} still wait."
