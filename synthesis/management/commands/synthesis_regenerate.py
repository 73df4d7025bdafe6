"""Write rejected samples again, each told why it was refused."""

from typing import Any

from django.core.management.base import CommandParser

from synthesis.generate.regeneration import again, calls_to_write_again, start
from synthesis.models import Regeneration
from trace_site.commands import TraceCommand, run_inline


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--estimate", action="store_true", help="tell what it would ask, start nothing")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        if options["estimate"]:
            waiting, calls = again().to_start, calls_to_write_again()
            told = {"waiting": waiting, "calls": calls.value}
            return told, f"{waiting:,} wait; about {calls.value or 0:,.0f} model calls: {calls.basis}."
        runs = start(wake=False)
        for run in runs:
            assert run.job is not None
            run_inline(run.job, self.echo)
        rows = Regeneration.objects.filter(run__in=runs)
        written = rows.filter(state=Regeneration.State.WRITTEN).count()
        counts = {"runs": len(runs), "asked": rows.count(), "written": written}
        return counts, f"{written:,} of {counts['asked']:,} rejected samples were written again."
