"""Fragments about the tests of rules: live from the editor, stored on the rule's page, in short on the list."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_POST

from evaluation import rule_tests, selectors_tests
from evaluation.core.golden import PASS_MEANING
from rules.forms import RuleForm
from rules.models import Rule
from trace_site.jobs import Job

MOST_TESTS = 20  # asked live at once


@require_POST
def run_rule_tests(request: HttpRequest) -> HttpResponse:
    """The tests as typed, asked now of every model with an alias."""
    typed = [test for test in RuleForm.read(request.POST).tests if test["query"].strip()]
    tests = [test for test in typed if test["tools"]][:MOST_TESTS]
    names = [name for test in tests for name in test["tools"]]
    context = {
        "results": rule_tests.answered_live(tests) if tests else [],
        "tests": tests,
        "left_out": len(typed) - len(tests),
        "marks": rule_tests.tool_marks(names),
        "meaning": PASS_MEANING,
    }
    return render(request, "evaluation/_rule_tests.html", context)


@require_GET
def of_rule_tests(request: HttpRequest, rule_id: int) -> HttpResponse:
    """What models made of the published version's tests, without asking anybody; polls while a job asks them."""
    return _stored(request, get_object_or_404(Rule.objects.select_related("published"), pk=rule_id))


def _stored(request: HttpRequest, rule: Rule) -> HttpResponse:
    version = rule.published
    results = selectors_tests.stored_results(version) if version and version.tests else []
    active = Job.objects.filter(
        kind__in=["evaluation", rule_tests.KIND], state__in=[Job.State.QUEUED, Job.State.RUNNING]
    )
    missing = [row for row in results if row.result is None]
    names = [name for test in version.tests for name in test["tools"]] if version else []
    context: dict[str, Any] = {
        "rule": rule,
        "version": version,
        "results": results,
        "missing": missing,
        "running": bool(missing) and active.exists(),
        "marks": rule_tests.tool_marks(names),
        "meaning": PASS_MEANING,
    }
    return render(request, "evaluation/_of_rule_tests.html", context)


@require_POST
def start_rule_tests(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Queue a job for each model with an alias that has not been asked this rule's tests."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=rule_id)
    for row in selectors_tests.stored_results(rule.published) if rule.published else []:
        if row.result is None:
            rule_tests.rule_tests_request(model=row.model, actor=request.user)
    return _stored(request, rule)


@require_GET
def rule_test_counts(request: HttpRequest) -> HttpResponse:
    """Swapped into the rows of the rule list: how many tests pass with the champion. ?rules=1,2,3"""
    wanted = [int(text) for text in request.GET.get("rules", "").split(",") if text.isdecimal()][:500]
    return render(
        request, "evaluation/_rule_test_counts.html", {"rows": selectors_tests.short_results(wanted)}
    )
