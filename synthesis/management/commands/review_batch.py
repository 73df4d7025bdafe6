"""Put the waiting samples of a rule under acceptance sampling: some are read by lot, and the lot stands or falls."""

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser

from synthesis.batches.services import batch_create
from synthesis.core.acceptance import AQLS, LEVELS
from synthesis.models import Sample
from trace_site.commands import TraceCommand
from trace_site.lib.errors import TraceError


class Command(TraceCommand):
    help = __doc__

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--rule", required=True, metavar="CODE")
        parser.add_argument(
            "--by", required=True, metavar="USER", help="who makes it, and is told if it fails"
        )
        parser.add_argument("--style", default="", choices=["", *Sample.Style.values])
        parser.add_argument("--aql", type=float, default=1.0, help=f"per cent: {', '.join(map(str, AQLS))}")
        parser.add_argument("--level", default="II", choices=LEVELS)
        parser.add_argument("--seed", type=int, help="of the draw; without it one that nobody chose")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        actor = get_user_model().objects.filter(username=options["by"]).first()
        if actor is None:
            raise TraceError(f"there is no user '{options['by']}'.", code="no_such_user", where="--by")
        asked = {name: options[name] for name in ("rule", "style", "aql", "level", "seed")}
        made = batch_create(**asked, actor=actor)
        batch = made.batch
        sentence = (
            f"batch {batch.pk} of rule {options['rule']} reads {batch.sample_size:,} of {batch.lot_size:,} samples "
            f"(letter {batch.letter}, AQL {batch.aql}) and is accepted with at most {batch.accept} defects; "
            f"left out: {len(made.failing)}."
        )
        names = ("lot_size", "letter", "sample_size", "accept", "aql", "level", "seed", "style")
        result = {name: getattr(batch, name) for name in names}
        return {"batch": batch.pk, **result, "left_out": made.failing}, sentence
