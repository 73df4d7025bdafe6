"""manage.py training_run: train one cell on a snapshot and evaluate the model."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import CommandParser

from synthesis.models import Snapshot
from trace_site.commands import TraceCommand, run_inline
from trace_site.jobs import Job
from trace_site.lib.errors import not_found
from training.core import recipe as recipes
from training.core.recipe import CELL
from training.models import Run
from training.runs.services import run_create
from training.runs.stages import default_recipe


class Command(TraceCommand):
    help = "Train one cell (format, memo, retrieval) on a snapshot; evaluation follows by itself."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--snapshot", type=int, required=True, help="id of a snapshot")
        parser.add_argument("--format", choices=Run.Format.values, required=True)
        parser.add_argument("--memo", choices=Run.Memo.values, required=True)
        parser.add_argument("--retrieval", choices=Run.Retrieval.values, required=True)
        parser.add_argument("--base", default=settings.BASE_MODEL, help="pocket, or a model's name or path")
        parser.add_argument("--recipe", type=Path, help="a YAML file; default: the recipe of the base")
        parser.add_argument("--seed", type=int, default=0)

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        snapshot = Snapshot.objects.filter(pk=options["snapshot"]).first()
        if snapshot is None:
            known = Snapshot.objects.values_list("pk", flat=True)[:10]
            raise not_found(f"snapshot {options['snapshot']}", "snapshots", known)
        path = options["recipe"]
        recipe = recipes.load(path) if path else default_recipe(options["base"])
        cell = {name: options[name] for name in CELL}
        run = run_create(snapshot=snapshot, recipe=recipe.with_cell(**cell))
        assert run.job is not None
        result = run_inline(run.job, self.echo)
        if follow_up := Job.objects.filter(pk=result["evaluation_job"]).first():
            result["evaluation"] = run_inline(follow_up, self.echo)
        return result, f"run {run.pk} {run.cell} made model {result['model']}"
