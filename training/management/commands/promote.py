"""manage.py promote: make a model the champion, where the gate lets it through."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management import CommandParser

from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError
from training.registry.registry import model_named, promote


class Command(TraceCommand):
    help = (
        "Make a model the champion, if its gate report says that it is not worse; the old champion becomes "
        "`previous`. To go back to an earlier champion use rollback, which asks no gate."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="id or alias")
        parser.add_argument("--note", default="", help="why; kept with the promotion")
        parser.add_argument(
            "--confirm",
            action="store_true",
            help="promote it although the gate cannot tell whether it is worse",
        )
        parser.add_argument(
            "--override",
            default="",
            metavar="WHY",
            help="promote it although its gate failed or was not asked; kept in the history with --by",
        )
        parser.add_argument(
            "--by", default="", metavar="USERNAME", help="the admin whose word the override is"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        model, actor = model_named(options["model"]), None
        if options["by"]:
            actor = User.objects.filter(username=options["by"], is_active=True).first()
            if actor is None:
                problem = f"there is no account {options['by']!r}."
                raise TraceError(problem, code="no_such_user", where="--by", hint="Use a username.")
        said = {name: options[name] for name in ("note", "override")}
        move = promote(model=model, actor=actor, confirmed=options["confirm"], **said)
        result = {
            "model": model.pk,
            "alias": move.alias,
            "move": move.pk,
            "gate": move.gate,
            "override": move.override,
        }
        return result, f"model {model.pk} {model.run.cell} is champion"
