"""Print ready samples for a person to read blind, or score the sheet that a person filled in."""

import csv
import io
import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from textwrap import shorten
from typing import Any

from django.core.management.base import CommandParser

from catalog.models import Tool
from synthesis.core.blind import COLUMNS, LETTERS, QUESTIONS, BlindReading, score, sheet
from synthesis.models import Sample
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, read_text, write_atomic
from trace_site.lib.texts import Lines, header, sheet_rows

ASKED = {
    "natural": "the request reads as a person's",
    "which_tools": "the same tools chosen from request and rule",
    "leads_to": "the reasoning, without its end, leads to the answer",
}

SHOWN = 10
DESCRIPTION = 200


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
        out = io.StringIO(newline="")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(options["sheet"], "\ufeff" + out.getvalue())
        write_atomic(options["key"], json.dumps({"run": options["run"], **key}, indent=1))
        for stratum, number in sorted(Counter(reading.stratum for reading in readings).items()):
            self.echo(f"  {stratum:<18} {number:>4}")
        self.echo("Part 1: is the request natural (yes/no), and which tools does it need (letters)?")
        self.echo("Part 2: to which tools does the reasoning lead (letters)? Its last sentence is left out.")
        result = {"samples": len(readings), "sheet": str(options["sheet"]), "key": str(options["key"])}
        return result, f"{len(readings)} samples in {options['sheet']}; the answers are in {options['key']}."

    def _scored(self, path: Path, key: Path) -> tuple[dict[str, Any], str]:
        rows = sheet_rows(Lines(read_text(path), str(path)), COLUMNS)
        begins, cells = next(rows, None) or (1, [])
        columns = header(cells, f"{path}:{begins}", COLUMNS, ("part", "number"))
        found = score([dict(zip(columns, row, strict=False)) for _, row in rows], read_json(key))
        for question in QUESTIONS:
            self.echo(f"{ASKED[question]}:")
            for group, cell in sorted(found[question].items()):
                self.echo(
                    f"  {group:<18} {cell['agreed']:>3} of {cell['of']:>3}  {cell['share']:6.1%} "
                    f"[{cell['low']:.1%}, {cell['high']:.1%}]"
                )
        if not any(found[question] for question in QUESTIONS):
            raise TraceError("The sheet is not filled in.", code="bad_sheet", where=str(path))
        left = found["open"]
        return found, f"{left} questions are open." if left else "every question is answered."


def blind_readings(*, run: int | None, count: int, seed: int) -> list[BlindReading]:
    """`count` ready samples, or as many as there are; raises TraceError when there are none."""
    ready = Sample.objects.filter(machine=Sample.Machine.READY, branch__in=("rule", "rrb"))
    if run is not None:
        ready = ready.filter(run_id=run)
    strata: dict[str, list[int]] = defaultdict(list)
    for pk, branch, style, tier in ready.order_by("pk").values_list("pk", "branch", "style", "tier"):
        strata[f"{branch} {style or tier}".strip()].append(pk)
    if not strata:
        raise TraceError("No ready samples to read.", code="no_samples", hint="Run synthesis_run first.")
    rng = random.Random(f"{seed}|blind sample")
    queues = {name: rng.sample(pks, len(pks)) for name, pks in sorted(strata.items())}
    picked: dict[int, str] = {}  # one from each stratum in turn until `count` or nothing is left
    while len(picked) < count and any(queues.values()):
        for name, queue in queues.items():
            if queue and len(picked) < count:
                picked[queue.pop()] = name
    samples = Sample.objects.filter(pk__in=picked).select_related("rule_version").order_by("pk")
    named = {name for sample in samples for name in sample.pool}
    texts = dict(Tool.objects.filter(name__in=named).values_list("name", "description"))
    return [_reading(sample, picked[sample.pk], texts, seed) for sample in samples]


def _reading(sample: Sample, stratum: str, texts: dict[str, str], seed: int) -> BlindReading:
    """With the answer, what the rule or the trace names, and others of the pool, shuffled."""
    rng = random.Random(f"{seed}|{sample.pk}")
    rule = sample.rule_version.text if sample.rule_version else ""
    close = [name for name in sample.pool if name in sample.trace or name in rule]
    rest = [name for name in sample.pool if name not in close and name not in sample.answer]
    names = list(dict.fromkeys([*sample.answer, *close]))[: len(LETTERS)]
    names += rng.sample(rest, min(len(rest), max(0, SHOWN - len(names))))
    tools = tuple(
        (name, shorten(texts.get(name, ""), DESCRIPTION, placeholder="…"))
        for name in rng.sample(names, len(names))
    )
    return BlindReading(sample.pk, stratum, sample.query, rule, tools, tuple(sample.answer), sample.trace)
