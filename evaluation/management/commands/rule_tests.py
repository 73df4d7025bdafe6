"""manage.py rule_tests: the tests of the published rules, asked of one model."""

from typing import Any

from django.core.management import CommandParser

from evaluation.results.rule_tests import failing, rule_tests_request, totals
from trace_site.commands import TraceCommand, run_inline
from training.registry.registry import model_named


class Command(TraceCommand):
    help = "Ask a model the tests of every published rule; what it has answered is not asked again."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--model", default="champion", help="id or alias")

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        model = model_named(options["model"])
        run_inline(rule_tests_request(model=model), self.echo)
        found, failed = totals(model), failing(model)
        for row in failed:
            self.echo(f"  {row.version.rule.code}: {row.passed} of {row.total} tests pass")
        names = [row.version.rule.code for row in failed]
        sentence = (
            f"model {model.pk}: {found['rules_passed']:,} of {found['rules']:,} rules pass, "
            f"{found['tests_passed']:,} of {found['tests']:,} tests"
        )
        return {"model": model.pk, **found, "failing": names}, sentence
