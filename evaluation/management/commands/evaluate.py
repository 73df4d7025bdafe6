"""manage.py evaluate: a model on a benchmark, with confidence intervals."""

from typing import Any

from django.core.management import CommandParser

from evaluation.benchmarks.services import evaluation_request
from evaluation.models import Benchmark, Evaluation
from evaluation.results.predictions import evaluation_lines
from trace_site.commands import TraceCommand, run_inline
from trace_site.lib.errors import TraceError
from training.registry.registry import model_named

BASELINE = "embedding"


class Command(TraceCommand):
    help = "Evaluate a model (or the embedding baseline) on a frozen benchmark; what is known is not computed again."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="id, alias, or `embedding` for the baseline alone")
        parser.add_argument("--benchmark", required=True, help="name; its newest version is used")
        parser.add_argument("--decode", choices=["trace", "trace-free", "fast", "beam", "letters"])

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        benchmark = Benchmark.objects.filter(name=options["benchmark"]).order_by("-version").first()
        if benchmark is None:
            known = ", ".join(sorted(set(Benchmark.objects.values_list("name", flat=True)))) or "none yet"
            raise TraceError(
                f"there is no benchmark {options['benchmark']!r}.",
                code="not_found",
                hint=f"There are: {known}.",
            )
        model = None if options["model"] == BASELINE else model_named(options["model"])
        decodes = [options["decode"]] if options["decode"] else []
        job = evaluation_request(model=model, benchmark=benchmark, decodes=decodes)
        result = run_inline(job, self.echo)
        made = Evaluation.objects.filter(pk__in=result["evaluations"]).select_related(
            "model__run", "benchmark"
        )
        for evaluation in made.order_by("pk"):
            for line in evaluation_lines(evaluation):
                self.echo(line)
        rows = [
            {
                "id": row.pk,
                "model": row.model_id,
                "decode": row.decode,
                "metrics": None if benchmark.is_development else row.metrics,
            }
            for row in made.order_by("pk")
        ]
        return {**result, "benchmark": str(benchmark), "results": rows}, ""
