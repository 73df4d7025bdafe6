"""manage.py evaluate: a model on a benchmark, with confidence intervals."""

from collections.abc import Iterator
from typing import Any

from django.core.management import CommandParser

from evaluation.benchmarks.selectors import clause_words
from evaluation.benchmarks.services import evaluation_request
from evaluation.core.metrics import METRICS
from evaluation.core.stats import interval_words
from evaluation.coverage.grouped import grouped
from evaluation.models import Benchmark, Evaluation
from trace_site.commands import TraceCommand, run_inline
from trace_site.lib.errors import not_found
from training.registry.registry import model_named

BASELINE = "embedding"


class Command(TraceCommand):
    help = "Evaluate a model (or the embedding baseline) on a frozen benchmark; what is known is not computed again."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="id, alias, or `embedding` for the baseline alone")
        parser.add_argument("--benchmark", required=True, help="name; its newest version is used")
        parser.add_argument(
            "--decode",
            choices=["trace", "trace-free", "fast", "beam", "letters", "fast-domain"],
            help="fast-domain: as fast, among the tools of the domain that the benchmark names",
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        benchmark = Benchmark.objects.filter(name=options["benchmark"]).order_by("-version").first()
        if benchmark is None:
            names = sorted(set(Benchmark.objects.values_list("name", flat=True)))
            raise not_found(f"benchmark {options['benchmark']!r}", "benchmarks", names)
        model = None if options["model"] == BASELINE else model_named(options["model"])
        decodes = [options["decode"]] if options["decode"] else []
        result = run_inline(evaluation_request(model=model, benchmark=benchmark, decodes=decodes), self.echo)
        made = Evaluation.objects.filter(pk__in=result["evaluations"]).order_by("pk")
        rows = []
        for row in made.select_related("model__run", "benchmark"):
            for line in evaluation_lines(row):
                self.echo(line)
            metrics = None if benchmark.is_development else row.metrics
            rows.append({"id": row.pk, "model": row.model_id, "decode": row.decode, "metrics": metrics})
        return {**result, "benchmark": str(benchmark), "results": rows}, ""


def evaluation_lines(evaluation: Evaluation) -> Iterator[str]:
    """One line per domain and group: n, then every metric with its interval."""
    model, benchmark = evaluation.model, evaluation.benchmark
    who = f"model {model.pk} {model.run.cell}" if model else "embedding baseline"
    words = clause_words(evaluation)
    yield f"{who} on {benchmark.title}, {evaluation.decode}{words and f', {words}'}"
    if benchmark.is_development:
        yield "  a development half: thresholds are chosen on it, so its figures are not shown"
        return
    for domain, groups in grouped([evaluation])[evaluation.pk].items():
        if "accuracy" in groups:
            accuracy = interval_words(groups["accuracy"])
            yield f"  {domain}: n {groups['n']}  accuracy {accuracy}  chance {groups['random']:.3f}"
            continue
        for group, found in groups.items():
            cells, following = found["metrics"], found.get("following") or {"n": 0}
            parts = [f"{name} {interval_words(cells[name])}" for name in METRICS if name in cells]
            if evaluation.decode == "trace-free" and (off := found.get("off_vocabulary")):
                parts.append(f"off-vocabulary {off['rate']:.3f}")
            if rate := (found.get("citation") or {}).get("rate"):
                parts.append(f"cites a rule {rate:.3f}")
                if (right := found["citation"]["correct_rule"])["n"]:
                    parts.append(f"the right rule {right['mean']:.3f} (of {right['n']} that a rule decides)")
            if following["n"]:  # 0: no answer has a trace, or it was not measured
                silent = following["names_no_tool"]
                counts = f"{following['follows']} of {following['n']}"
                counts += f", {silent} name no tool" if silent else ""
                parts.append(f"follows its trace {following['rate']:.3f} ({counts})")
            yield f"  {domain}/{group}: n {found['n']}  {'  '.join(parts)}"
