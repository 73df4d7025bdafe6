"""manage.py requests_erase: one person's requests taken out of the log."""

from typing import Any

from django.core.management import CommandParser

from evaluation.requests.services import requests_erase
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = "Delete every logged request of a person, for good."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--caller", default="", help="the id that calls named the person by")
        parser.add_argument("--owner", default="", help="the user whose tokens asked")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        gone = requests_erase(actor=None, owner=options["owner"], caller=options["caller"])
        return {"erased": gone}, f"{gone:,} request{'' if gone == 1 else 's'} erased"
