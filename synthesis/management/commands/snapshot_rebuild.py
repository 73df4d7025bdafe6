"""Write a snapshot's folder again from the database, compare every file, and put back what the store lost."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from synthesis.datasets.files import rebuild
from synthesis.models import Snapshot
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("snapshot", type=int, metavar="ID")
        parser.add_argument("--into", default="", help="write the folder here, which must be empty")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        pk = options["snapshot"]
        snapshot = Snapshot.objects.filter(pk=pk).first()
        if snapshot is None:
            raise TraceError(f"there is no snapshot {pk}.", code="no_snapshot", where=f"snapshot {pk}")
        found = rebuild(snapshot, Path(options["into"]) if options["into"] else None)
        if found["equal"]:
            store = "put back" if found["restored"] else found["stored"]
            return found, f"{snapshot} is equal, {snapshot.hash[:12]}; the store's copy: {store}."
        different = [f"{file['name']}: {file['difference']}" for file in found["files"] if not file["equal"]]
        return found, f"{snapshot} DIFFERS. " + " | ".join(different)
