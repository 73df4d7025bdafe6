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
        asked = rule_results().filter(model=model, version__rule__published=F("version"))
        rows = asked.order_by("version__rule__code", "pk").values_list(
            "version__rule__code", "passed", "total"
        )
        failing = []
        for code, passed, total in rows:
            if passed < total:
                failing.append(code)
                self.echo(f"  {code}: {passed} of {total} tests pass")
        found = {
            "rules": len(rows),
            "rules_passed": len(rows) - len(failing),
            "tests": sum(total for _, _, total in rows),
            "tests_passed": sum(passed for _, passed, _ in rows),
        }
        sentence = (
            f"model {model.pk}: {found['rules_passed']:,} of {found['rules']:,} rules pass, "
            f"{found['tests_passed']:,} of {found['tests']:,} tests"
        )
        return {"model": model.pk, **found, "failing": failing}, sentence
