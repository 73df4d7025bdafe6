"""manage.py rule_tests: the tests of the published rules, asked of one model."""

from typing import Any

from django.core.management import CommandParser
from django.db.models import F

from evaluation.benchmarks.selectors import rule_results
from evaluation.results.rule_tests import rule_tests_request
from trace_site.commands import TraceCommand, run_inline
from training.registry.registry import model_named


class Command(TraceCommand):
    help = "Ask a model the tests of every published rule; what it has answered is not asked again."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--model", default="champion", help="id or alias")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        model = model_named(options["model"])
        run_inline(rule_tests_request(model=model), self.echo)
        rows = rule_results(model=model, item__version__rule__published=F("item__version"))
        failing = []
        for row in rows:
            if row.passed < row.total:
                failing.append(row.code)
                self.echo(f"  {row.code}: {row.passed} of {row.total} tests pass")
        found = {
            "rules": len(rows),
            "rules_passed": len(rows) - len(failing),
            "tests": sum(row.total for row in rows),
            "tests_passed": sum(row.passed for row in rows),
        }
        sentence = (
            f"model {model.pk}: {found['rules_passed']:,} of {found['rules']:,} rules pass, "
            f"{found['tests_passed']:,} of {found['tests']:,} tests"
        )
        return {"model": model.pk, **found, "failing": failing}, sentence
