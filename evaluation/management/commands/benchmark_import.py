"""manage.py benchmark_import: freeze a file of benchmark rows."""

from pathlib import Path
from typing import Any

from django.core.management import CommandParser

from evaluation.benchmarks.services import benchmark_import
from evaluation.core.items import PARTS, WHOLE
from evaluation.models import Benchmark
from trace_site.commands import TraceCommand


class Command(TraceCommand):
    help = (
        "Freeze a benchmark: the same content is the same version, other content the next one. "
        "Requests are asked as they are typed, so replace personal data in the file first."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--kind", choices=Benchmark.Kind.values, required=True)
        parser.add_argument("--name", required=True)
        parser.add_argument("--tier", choices=Benchmark.Tier.values, default="", help="of a prb benchmark")
        parser.add_argument(
            "--part",
            choices=PARTS,
            default=WHOLE,
            help="development: the half that thresholds are chosen on; shown: the other one",
        )
        parser.add_argument("--domain", default="", help="for rows that name no domain")
        parser.add_argument("--seed", type=int, default=0, help="orders the options of mcq questions")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        names = ("path", "kind", "name", "tier", "part", "domain", "seed")
        benchmark, created = benchmark_import(**{name: options[name] for name in names})
        told = ("id", "name", "version", "count", "hash", "random_baseline")
        result = {name: getattr(benchmark, name) for name in told} | {"created": created}
        state = "frozen" if created else "unchanged, already frozen"
        return result, f"{benchmark}: {benchmark.count:,} items {state}"
