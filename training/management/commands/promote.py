"""manage.py promote: make a model the champion."""

from typing import Any

from django.core.management import CommandParser

from trace_site.commands import TraceCommand
from training.registry.registry import model_named, promote


class Command(TraceCommand):
    help = "Make a model the champion; the old champion becomes `previous`."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="id or alias (promote --model previous goes back)")
        parser.add_argument("--note", default="", help="why; kept with the promotion")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        model = model_named(options["model"])
        move = promote(model=model, actor=None, note=options["note"])
        return {
            "model": model.pk,
            "alias": move.alias,
            "move": move.pk,
        }, f"model {model.pk} {model.run.cell} is champion"
