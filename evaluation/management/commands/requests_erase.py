"""manage.py requests_erase: one person's requests taken out of the log."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management import CommandParser

from evaluation.requests.services import requests_erase
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError


class Command(TraceCommand):
    help = "Delete every logged request of a person, for good."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--caller", default="", help="the id that calls named the person by")
        parser.add_argument("--owner", default="", help="the user whose tokens asked")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        name = options["owner"]
        owner = User.objects.filter(username=name).first() if name else None
        if name and owner is None:
            raise TraceError(f"there is no user {name}.", code="no_such_user", where="--owner")
        gone = requests_erase(actor=None, owner=owner, caller=options["caller"])
        return {"erased": gone}, f"{gone:,} request{'' if gone == 1 else 's'} erased"
