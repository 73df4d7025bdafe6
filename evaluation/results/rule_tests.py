"""The tests of rules against models: live from the editor through the engine, and stored per model and version.

Stored results come from the evaluation of a model, or from a `rule_tests` job; both decode in the same child process
as benchmarks. A version and a model never change, so a result is made once.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_POST

from catalog.models import Tool
from evaluation.benchmarks.selectors import backend_of, rule_results
from evaluation.benchmarks.services import K
from evaluation.core.asking import Query, labelled_item
from evaluation.core.metrics import PASS_MEANING, judge_rule_test
from evaluation.models import Evaluation, RuleTestResult
from evaluation.retrieval import retriever
from rules.editor.services import RuleForm
from rules.models import Rule, RuleVersion
from trace_site import jobs
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_jsonl, write_jsonl
from trace_site.paging import numbers_of
from training.models import UNDER_WAY, Model
from training.registry.registry import Served, current_aliases

KIND = "rule_tests"
PATIENCE = 8.0  # seconds a model may take to load before it is left out
MOST_TESTS = 20  # asked live at once


@dataclass
class RuleTestWork:
    """The tests of published rules that a model has not answered yet, as a file for the child that decodes; see
    tasks.predict."""

    model: Model
    versions: list[RuleVersion]
    asked: list[dict[str, Any]] = field(default_factory=list)
    served: Served = Served()
    published: bool = False
    decode: str = Evaluation.Decode.FAST

    @classmethod
    def of(cls, model: Model) -> "RuleTestWork":
        published = RuleVersion.objects.filter(rule__published_id=F("pk")).exclude(tests=[])
        done = rule_results().filter(model=model).values("version")
        return cls(model, list(published.exclude(pk__in=done).only("tests").order_by("pk")))

    @property
    def count(self) -> int:
        return sum(len(version.tests) for version in self.versions)

    @cached_property
    def backend(self) -> str:
        return backend_of(self.model)

    @property
    def folder(self) -> Path:
        """One for exactly these tests and backend, so that an interrupted job goes on where it stopped."""
        which = content_hash([self.backend, [version.pk for version in self.versions]])[:12]
        return settings.TRACE_HOME / "rule-tests" / f"model-{self.model.pk}-{which}"

    def ask(self, export: Path) -> None:
        self.served = Served.now(self.model)
        self.asked = [
            labelled_item({"id": f"{version.pk}-{number}", "query": test["query"]}, self.served.without)
            for version in self.versions
            for number, test in enumerate(version.tests)
        ]
        write_jsonl(self.folder / "items.jsonl", self.asked)

    def publish(self, ctx: JobContext, result: dict[str, Any]) -> None:
        answers = {str(row["id"]): row["tools"] for _, row in read_jsonl(self.folder / "predictions.jsonl")}
        made = []
        for version in self.versions:
            rows = [
                {**test, "found": answers[f"{version.pk}-{number}"]}
                for number, test in enumerate(version.tests)
            ]
            passed = sum(verdict.passed for verdict in verdicts(rows))
            counts = {"passed": passed, "total": len(rows), "results": rows}
            of = {"model": self.model, "version": version, "backend": self.backend}
            made.append(RuleTestResult(**of, job=ctx.job, **counts))
        with ctx.guard():
            RuleTestResult.objects.bulk_create(made, ignore_conflicts=True, batch_size=500)
        self.published = True
        shutil.rmtree(self.folder, ignore_errors=True)
        result["rules_tested"] = len(made)
        result["rules_passed"] = sum(row.passed == row.total for row in made)


def verdicts(results: Sequence[dict[str, Any]]) -> list[Any]:
    return [judge_rule_test(row["query"], row["tools"], row["found"]) for row in results]


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
        asked, error = [], ""
        try:
            for test in tests:
                answer = retriever.retrieve(Query(test["query"], k=K), model, patience=PATIENCE)
                asked.append({**test, "found": [row["name"] for row in answer["tools"]]})
        except TraceError as refused:
            asked, error = [], str(refused)
        judged = verdicts(asked)
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
    """[{"model", "names", "result", "verdicts"}]: models with an alias first (asked or not: result None), then every
    other model that was asked, the newest first; each as it is served now."""
    rows = rule_results().filter(version=version).select_related("model__run").order_by("-model_id")
    results = {row.model: row for row in rows}
    names = named_models()
    return [
        {
            "model": model,
            "names": names.get(model, ""),
            "result": (found := results.get(model)),
            "verdicts": verdicts(found.results) if found else [],
        }
        for model in names | results
    ]


@require_GET
def of_rule_tests(request: HttpRequest, rule_id: int) -> HttpResponse:
    """What models made of the published version's tests, without asking anybody; polls while a job asks them."""
    return _stored(request, get_object_or_404(Rule.objects.select_related("published"), pk=rule_id))


def _stored(request: HttpRequest, rule: Rule) -> HttpResponse:
    version = rule.published
    results = stored_results(version) if version and version.tests else []
    missing = [row for row in results if row["result"] is None]
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
        if row["result"] is None:
            rule_tests_request(model=row["model"], actor=request.user)
    return _stored(request, rule)


@require_GET
def rule_test_counts(request: HttpRequest) -> HttpResponse:
    """Swapped into the rows of the rule list: how many tests of the published version pass with the champion.
    ?rules=1,2,3; rules it has not been asked are left out."""
    wanted = numbers_of(request.GET.get("rules", "").split(","))[:500]
    champion = current_aliases().get("champion")
    asked = rule_results().filter(
        model=champion, version__rule__in=wanted, version__rule__published=F("version")
    )
    rows = asked.values("passed", "total", rule=F("version__rule")) if champion else []
    return render(request, "evaluation/_rule_test_counts.html", {"rows": rows})
