"""manage.py gate: may a model take the champion's place?"""

from typing import Any

from django.core.management import CommandParser

from evaluation.core.gate import FAIL, Gate, GateRow
from evaluation.core.metrics import ALL
from evaluation.gate.selectors import answers, headline, points, row_dict, slice_words
from evaluation.gate.services import gate_request
from evaluation.models import GateReport
from trace_site.commands import TraceCommand, run_inline
from training.registry.registry import model_named


class Command(TraceCommand):
    help = (
        "Ask whether a model may take the champion's place, slice by slice; what either was not asked is asked "
        "first. A failed gate is an answer, not an error."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--candidate", required=True, help="id or alias")
        parser.add_argument("--champion", default="", help="the opponent: id or alias; default: the champion")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        candidate = model_named(options["candidate"])
        champion = model_named(options["champion"]) if options["champion"] else None
        made = run_inline(gate_request(candidate=candidate, champion=champion), self.echo)
        report = GateReport.objects.get(pk=made["report"])
        found = Gate.of(report.report)
        told = answers(found, report.candidate_id, report.champion_id)
        for sentence in told.values():
            self.echo(f"  {sentence}")
        for row in found.slices:
            if row.verdict == FAIL or (row.n and (row.domain, row.group) == (ALL, ALL)):
                self.echo(f"  {_line(row)}")
        for note in found.notes:
            self.echo(f"  {note}")
        result = {
            "report": report.pk,
            "candidate": report.candidate_id,
            "champion": report.champion_id,
            "verdict": report.verdict,
            "answers": told,
            "counts": found.counts,
            "rows": [row_dict(row) for row in found.rows],
        }
        return result, headline(report)


def _line(row: GateRow) -> str:
    interval = f"{points(row.low)} to {points(row.high)} points"
    shows = f"; n shows losses of {points(row.shows)} or more" if row.shows else ""
    aside = "" if row.binds else f" ({row.note})"
    return f"{row.verdict}: {slice_words(row)}, difference {interval}{shows}{aside}"
