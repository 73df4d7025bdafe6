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
        result = policy_approve(count=_count(options["auto_approve"]), seed=options["seed"])
        return result, f"approved {result['approved']:,} samples by policy; {result['waiting']:,} still wait."


def _count(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal():
        raise TraceError(
            f"'{text}' is neither a number nor 'all'.", code="bad_option", where="--auto-approve"
        )
    return int(text)
