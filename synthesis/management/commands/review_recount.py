"""Compare the counts and items of the review queue with what the samples say; --repair puts right what differs."""

from typing import Any

from django.core.management.base import CommandParser

from synthesis.review.queue import repair_items, wrong_items
from synthesis.samples import counts
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--repair", action="store_true")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        repair: bool = options["repair"]
        items = wrong_items()
        if items and repair:
            repair_items(items)
        differences = counts.recount(repair=repair)
        if repair:
            counts.fold(1)
        result = {"items": sorted(items), "counts": differences, "repaired": repair}
        found = f"{len(items):,} samples have the wrong item, {len(differences):,} counts are wrong"
        return result, f"{found}{', repaired' if repair and (items or differences) else ''}."
