"""The tests of rules against models: live from the editor through the engine, and as models answered them once.

Those answers come from the evaluation of a model, or from a `rule_tests` job; see `unanswered`.
"""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_POST

from catalog.models import Tool
from evaluation.benchmarks.selectors import rule_answers, rule_results
from evaluation.benchmarks.services import K
from evaluation.core.asking import Query
from evaluation.core.metrics import PASS_MEANING, RuleTestVerdict, judge_rule_test
from evaluation.retrieval import retriever
from rules.editor.services import RuleForm
from rules.models import Rule, RuleVersion
from trace_site import jobs
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.paging import numbers_of
from training.models import UNDER_WAY, Model
from training.registry.registry import current_aliases

KIND = "rule_tests"
PATIENCE = 8.0  # seconds a model may take to load before it is left out
MOST_TESTS = 20  # asked live at once


@transaction.atomic
def rule_tests_request(*, model: Model, actor: Any = None) -> Job:
    """Queue the tests that the model has not answered; a job that is under way already is returned."""
    active = Job.objects.filter(kind=KIND, state__in=UNDER_WAY, params__model=model.pk)
    if (under_way := active.first()) is not None:
        return under_way
    title = f"test the rules with model {model.pk} {model.run.cell}"
    return jobs.enqueue(KIND, {"model": model.pk}, title=title, created_by=actor)


def named_models() -> dict[Model, str]:
    """The models that hold an alias with their aliases in words, the champion first; one query."""
    current = current_aliases()
    names: dict[Model, list[str]] = {}
    for alias in ("champion", "challenger", "previous"):
        if alias in current:
            names.setdefault(current[alias], []).append(alias)
    return {model: " and ".join(aliases) for model, aliases in names.items()}


def tool_marks(names: Sequence[str]) -> dict[str, str]:
    """Expected tools that no answer should name any more: {name: deprecated, retired or unknown}."""
    marks = dict.fromkeys(names, "unknown")
    for tool in Tool.objects.filter(name__in=names).only("name", "status", "deprecated"):
        retired = tool.status == Tool.Status.RETIRED
        marks[tool.name] = "retired" if retired else "deprecated" if tool.deprecated else ""
    return {name: mark for name, mark in marks.items() if mark}


# Fragments about the tests of rules: live from the editor, stored on the rule's page, in short on the list.


@require_POST
def run_rule_tests(request: HttpRequest) -> HttpResponse:
    """The tests as typed, asked now of every model with an alias, in fast mode. An engine that is away is said."""
    typed = [test for test in RuleForm.read(request.POST).draft["tests"] if test["query"].strip()]
    tests = [test for test in typed if test["tools"]][:MOST_TESTS]
    results = []
    for model, names in named_models().items() if tests else ():
        judged, error = [], ""
        try:
            for test in tests:
                answer = retriever.retrieve(Query(test["query"], k=K), model, patience=PATIENCE)
                found = [row["name"] for row in answer["tools"]]
                judged.append(judge_rule_test(test["query"], test["tools"], found))
        except TraceError as refused:
            judged, error = [], str(refused)
        passed = sum(verdict.passed for verdict in judged)
        results.append({"model": model, "names": names, "verdicts": judged, "passed": passed, "error": error})
    context = {
        "results": results,
        "tests": tests,
        "left_out": len(typed) - len(tests),
        "marks": tool_marks([name for test in tests for name in test["tools"]]),
        "meaning": PASS_MEANING,
    }
    return render(request, "evaluation/_rule_tests.html", context)


def stored_results(version: RuleVersion) -> list[dict[str, Any]]:
    """[{"model", "names", "verdicts", "passed", "at"}]: models with an alias first (without verdicts: not asked), then
    every other model that was asked, the newest first; each as it is served now."""
    names, dates = named_models(), {}
    verdicts: dict[Any, list[RuleTestVerdict]] = {model: [] for model in names}
    rows = rule_answers().filter(item__version=version).select_related("model__run", "item")
    for row in rows.order_by("-model_id", "item__position"):
        test, dates[row.model] = row.item.data, row.created_at
        verdict = judge_rule_test(test["query"], test["tools"], row.output["tools"])
        verdicts.setdefault(row.model, []).append(verdict)
    return [
        {
            "model": model,
            "names": names.get(model, ""),
            "verdicts": judged,
            "passed": sum(verdict.passed for verdict in judged),
            "at": dates.get(model),
        }
        for model, judged in verdicts.items()
    ]


@require_GET
def of_rule_tests(request: HttpRequest, rule_id: int) -> HttpResponse:
    """What models made of the published version's tests, without asking anybody; polls while a job asks them."""
    return _stored(request, get_object_or_404(Rule.objects.select_related("published"), pk=rule_id))


def _stored(request: HttpRequest, rule: Rule) -> HttpResponse:
    version = rule.published
    results = stored_results(version) if version and version.tests else []
    missing = [row for row in results if not row["verdicts"]]
    active = Job.objects.filter(kind__in=["evaluation", KIND], state__in=UNDER_WAY)
    context: dict[str, Any] = {
        "rule": rule,
        "version": version,
        "results": results,
        "missing": missing,
        "running": bool(missing) and active.exists(),
        "marks": tool_marks([name for test in version.tests for name in test["tools"]] if version else []),
        "meaning": PASS_MEANING,
    }
    return render(request, "evaluation/_of_rule_tests.html", context)


@require_POST
def start_rule_tests(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Queue a job for each model with an alias that has not been asked this rule's tests."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=rule_id)
    for row in stored_results(rule.published) if rule.published else []:
        if not row["verdicts"]:
            rule_tests_request(model=row["model"], actor=request.user)
    return _stored(request, rule)


@require_GET
def rule_test_counts(request: HttpRequest) -> HttpResponse:
    """Swapped into the rows of the rule list: how many tests of the published version pass with the champion.
    ?rules=1,2,3; rules it has not been asked are left out."""
    wanted = numbers_of(request.GET.get("rules", "").split(","))[:500]
    champion = current_aliases().get("champion")
    of = {"model": champion, "item__version__rule__in": wanted}
    rows = rule_results(**of, item__version__rule__published=F("item__version")) if champion else []
    return render(request, "evaluation/_rule_test_counts.html", {"rows": rows})
