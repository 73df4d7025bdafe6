"""manage.py training_import: adopt a run that was trained elsewhere."""

from pathlib import Path
from typing import Any

from django.core.management import CommandParser

from trace_site.commands import TraceCommand
from training.runs.imports import adopt


class Command(TraceCommand):
    help = "Adopt a run directory of `python -m training.ml`, or a folder with one of each stage."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="what --run named, or the folder around the stages")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        result = adopt(options["folder"])
        run, model = result["run"], result["model"]
        if not result["new"]:
            return result, f"run {run} has this model already (model {model}); nothing changed"
        sentence = f"run {run} made model {model}; its evaluation is queued."
        if not result["stages_shared"]:
            sentence += " Its stages are not shared: what it started from is not known here."
        return result, sentence
