"""manage.py model_retention: remove the files of models and stages that nothing needs."""

from typing import Any

from django.core.management import CommandParser
from django.template.defaultfilters import filesizeformat

from trace_site.commands import TraceCommand
from training.registry import retention


class Command(TraceCommand):
    help = (
        "Remove the files of models and stages that no alias, run, evaluation, policy or mark by hand needs."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="only say what would go and what stays why"
        )
        parser.add_argument("--keep", type=int, help="so many newest models stay (MODEL_RETENTION_KEEP)")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        if options["dry_run"]:
            return self._dry_run(options["keep"])
        done = retention.apply(keep=options["keep"])
        counts = f"{len(done['models'])} models and {len(done['stages'])} stages"
        return done, f"removed the files of {counts}, {filesizeformat(done['bytes'])}"

    def _dry_run(self, keep: int | None) -> tuple[dict[str, Any], str]:
        found = retention.plan(keep)
        for row in found.stays:
            self.echo(
                f"stays: {row.kind} {row.id} ({row.why or 'shares its folder with what stays, or is the last'})"
            )
        for row in found.goes:
            self.echo(f"goes: {row.kind} {row.id}, {filesizeformat(row.bytes)}, {row.store_key}")
        result = {
            "dry_run": True,
            "models": [row.id for row in found.goes if row.kind == "model"],
            "stages": [row.id for row in found.goes if row.kind == "stage"],
            "bytes": found.bytes,
        }
        return result, f"would remove {filesizeformat(found.bytes)}"
