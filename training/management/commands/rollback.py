"""manage.py rollback: make an earlier champion champion again."""

from typing import Any

from django.core.management import CommandParser

from trace_site.commands import TraceCommand
from training.registry.registry import model_named, roll_back


class Command(TraceCommand):
    help = (
        "Go back to the champion before this one, or to the earlier champion that --model names; not to one that "
        "was rolled back itself."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--model", help="id of a model that was champion; default: the one before")
        parser.add_argument("--note", default="", help="why; kept in the history")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        model = model_named(options["model"]) if options["model"] else None
        move = roll_back(model=model, actor=None, note=options["note"])
        result = {"model": move.model_id, "alias": move.alias, "move": move.pk}
        return result, f"model {move.model_id} {move.model.run.cell} is champion again"
