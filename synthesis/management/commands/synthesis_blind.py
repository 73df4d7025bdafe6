"""Print ready samples for a person to read blind, or score the sheet that a person filled in."""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from synthesis.core.review.blind import COLUMNS, QUESTIONS, score, sheet
from synthesis.quality.blind import blind_readings
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, read_text, write_atomic

ASKED = {
    "natural": "the request reads as a person's",
    "which_tools": "the same tools chosen from request and rule",
    "leads_to": "the reasoning, without its end, leads to the answer",
}


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--run", type=int, help="samples of this run only")
        parser.add_argument("--count", type=int, default=60)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument(
            "--sheet", type=Path, default=Path("blind_sheet.csv"), help="where the sheet goes"
        )
        parser.add_argument("--key", type=Path, default=Path("blind_key.json"), help="where its answers go")
        parser.add_argument(
            "--score", type=Path, nargs=2, metavar=("SHEET", "KEY"), help="a filled sheet, and its key"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        if options["score"]:
            return self._scored(*options["score"])
        if options["count"] < 1:
            raise TraceError("A sheet needs at least one sample.", code="bad_count", where="--count")
        readings = blind_readings(run=options["run"], count=options["count"], seed=options["seed"])
        rows, key = sheet(readings, options["seed"])
        write_atomic(options["sheet"], "\ufeff" + _csv(rows))
        write_atomic(options["key"], json.dumps({"run": options["run"], **key}, indent=1))
        for stratum, number in sorted(Counter(reading.stratum for reading in readings).items()):
            self.echo(f"  {stratum:<18} {number:>4}")
        self.echo("Part 1: is the request natural (yes/no), and which tools does it need (letters)?")
        self.echo("Part 2: to which tools does the reasoning lead (letters)? Its last sentence is left out.")
        result = {"samples": len(readings), "sheet": str(options["sheet"]), "key": str(options["key"])}
        return result, f"{len(readings)} samples in {options['sheet']}; the answers are in {options['key']}."

    def _scored(self, path: Path, key: Path) -> tuple[dict[str, Any], str]:
        text = read_text(path).removeprefix("\ufeff")
        found = score(list(csv.DictReader(io.StringIO(text, newline=""))), read_json(key))
        for question in QUESTIONS:
            self.echo(f"{ASKED[question]}:")
            for group, cell in sorted(found[question].items()):
                self.echo(
                    f"  {group:<18} {cell['agreed']:>3} of {cell['of']:>3}  {cell['share']:6.1%} "
                    f"[{cell['low']:.1%}, {cell['high']:.1%}]"
                )
        if not any(found[question] for question in QUESTIONS):
            raise TraceError("The sheet is not filled in.", code="bad_sheet", where=str(path))
        return found, f"{found['open']} questions are open." if found[
            "open"
        ] else "every question is answered."


def _csv(rows: list[dict[str, str]]) -> str:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
