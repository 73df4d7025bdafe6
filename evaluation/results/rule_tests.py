"""The tests of rules against models: live from the editor through the engine, and stored per model and version.

Stored results come from the evaluation of a model, or from a `rule_tests` job; both decode in the same child process
as benchmarks. A version and a model never change, so a result is made once.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET, require_POST

from catalog.models import Tool
from evaluation.benchmarks.services import K
from evaluation.core.golden import PASS_MEANING, Verdict, judge
from evaluation.models import Evaluation, RuleTestResult
from evaluation.retrieval import retriever
from rules.editor.forms import RuleForm
from rules.models import Rule, RuleVersion
from trace_site import jobs
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_jsonl, write_jsonl
from trace_site.paging import numbers_of
from training.models import Model
from training.registry.registry import current_aliases
from training.registry.selectors import alias_names

KIND = "rule_tests"
PATIENCE = 8.0  # seconds a model may take to load before it is left out
Test = dict[str, Any]  # {"query", "tools"}


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model and the aliases it holds, the champion first."""

    model: Model
    names: str


@dataclass(slots=True)
class ModelResult:
    """What one model made of some tests; `error` says why there is no verdict."""

    model: Model
    names: str
    verdicts: list[Verdict] = field(default_factory=list)
    error: str = ""

    @property
    def passed(self) -> int:
        return sum(verdict.passed for verdict in self.verdicts)


def named_models() -> list[NamedModel]:
    """The models that hold an alias, each once; one query."""
    current = current_aliases()
    names: dict[int, list[str]] = {}
    for alias in ("champion", "challenger", "previous"):
        if alias in current:
            names.setdefault(current[alias].pk, []).append(alias)
    found = {model.pk: model for model in current.values()}
    return [NamedModel(found[pk], " and ".join(listed)) for pk, listed in names.items()]


def answered_live(tests: Sequence[Test]) -> list[ModelResult]:
    """Every test through the engine in fast mode, on every model with an alias. An engine that is away is said."""
    return [_live(one, tests) for one in named_models()]


def _live(one: NamedModel, tests: Sequence[Test]) -> ModelResult:
    result = ModelResult(one.model, one.names)
    try:
        for test in tests:
            answer = retriever.retrieve(
                query=test["query"], model=one.model, mode="fast", k=K, patience=PATIENCE
            )
            names = [row["name"] for row in answer["tools"]]
            result.verdicts.append(judge(test["query"], test["tools"], names))
    except TraceError as error:
        result.verdicts, result.error = [], str(error)
    return result


def tool_marks(names: Sequence[str]) -> dict[str, str]:
    """Expected tools that no answer should name any more: {name: deprecated, retired or unknown}."""
    found = {
        tool.name: tool for tool in Tool.objects.filter(name__in=names).only("name", "status", "deprecated")
    }
    marks = {name: _mark(found.get(name)) for name in names}
    return {name: mark for name, mark in marks.items() if mark}


def _mark(tool: Tool | None) -> str:
    if tool is None:
        return "unknown"
    return "retired" if tool.status == Tool.Status.RETIRED else "deprecated" if tool.deprecated else ""


def waiting_versions(model: Model) -> list[RuleVersion]:
    """Published versions with tests that this model has not been asked yet."""
    published = RuleVersion.objects.filter(rule__published_id=F("pk")).exclude(tests=[])
    done = RuleTestResult.objects.filter(model=model).values("version")
    return list(published.exclude(pk__in=done).only("tests").order_by("pk"))


@dataclass
class RuleTestWork:
    """The tests a model has not answered yet, as a file for the child that decodes; see tasks.predict."""

    model: Model
    versions: list[RuleVersion]
    asked: list[dict[str, Any]] = field(default_factory=list)
    published: bool = False
    decode: str = Evaluation.Decode.FAST
    label: str = "rule tests"

    @property
    def count(self) -> int:
        return sum(len(version.tests) for version in self.versions)

    @property
    def folder(self) -> Path:
        """One for exactly these tests, so that an interrupted job goes on where it stopped."""
        which = content_hash([version.pk for version in self.versions])[:12]
        return settings.TRACE_HOME / "rule-tests" / f"model-{self.model.pk}-{which}"

    def ask(self, export: Path) -> None:
        self.asked = [
            {"id": f"{version.pk}-{number}", "query": test["query"]}
            for version in self.versions
            for number, test in enumerate(version.tests)
        ]
        write_jsonl(self.folder / "items.jsonl", self.asked)

    def files(self) -> tuple[Path, Path]:
        return self.folder / "items.jsonl", self.folder / "predictions.jsonl"

    def publish(self, ctx: JobContext, result: dict[str, Any]) -> None:
        answers = {str(row["id"]): row["tools"] for _, row in read_jsonl(self.files()[1])}
        made = [self._result(version, answers, ctx.job) for version in self.versions]
        with ctx.guard():
            RuleTestResult.objects.bulk_create(made, ignore_conflicts=True, batch_size=500)
        self.published = True
        shutil.rmtree(self.folder, ignore_errors=True)
        result["rules_tested"] = len(made)
        result["rules_passed"] = sum(row.passed == row.total for row in made)

    def _result(self, version: RuleVersion, answers: dict[str, list[str]], job: Job) -> RuleTestResult:
        results = [
            {**test, "found": answers[f"{version.pk}-{number}"]} for number, test in enumerate(version.tests)
        ]
        passed = sum(judge(row["query"], row["tools"], row["found"]).passed for row in results)
        return RuleTestResult(
            model=self.model, version=version, passed=passed, total=len(results), results=results, job=job
        )


def open_tests(model: Model) -> RuleTestWork | None:
    """What is left to ask the model; None when nothing is."""
    versions = waiting_versions(model)
    return RuleTestWork(model, versions) if versions else None


@transaction.atomic
def rule_tests_request(*, model: Model, actor: Any = None) -> Job:
    """Queue the tests that the model has not answered; a job that is under way already is returned."""
    active = Job.objects.filter(kind=KIND, state__in=[Job.State.QUEUED, Job.State.RUNNING])
    if (under_way := active.filter(params__model=model.pk).first()) is not None:
        return under_way
    title = f"test the rules with model {model.pk} {model.run.cell}"
    return jobs.enqueue(KIND, {"model": model.pk}, title=title, created_by=actor)


# Reads of stored rule tests: one rule with every model, many rules in short.


NAMED = ("champion", "challenger", "previous")


@dataclass(frozen=True, slots=True)
class StoredResult:
    """What one model made of a version's tests; `result` is None while it has not been asked."""

    model: Model
    names: str  # its aliases, or empty
    result: RuleTestResult | None
    verdicts: list[Verdict] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShortResult:
    """`3 of 5 pass with champion` of one rule."""

    rule: int
    passed: int
    total: int
    model: str


def stored_results(version: RuleVersion) -> list[StoredResult]:
    """Models with an alias first (asked or not), then every other model that was asked, the newest first."""
    current = current_aliases()
    names = {pk: " and ".join(sorted(found, key=NAMED.index)) for pk, found in alias_names(current).items()}
    rows = RuleTestResult.objects.filter(version=version).select_related("model__run").order_by("-model_id")
    by_model = {row.model_id: row for row in rows}
    models = {current[alias].pk: current[alias] for alias in NAMED if alias in current}
    models |= {row.model_id: row.model for row in by_model.values() if row.model_id not in models}
    return [
        StoredResult(model, names.get(pk, ""), row, _verdicts(row.results) if row else [])
        for pk, model in models.items()
        for row in [by_model.get(pk)]
    ]


def _verdicts(results: Sequence[dict[str, Any]]) -> list[Verdict]:
    return [judge(row["query"], row["tools"], row["found"]) for row in results]


def short_results(rules: Iterable[int]) -> list[ShortResult]:
    """Of the published versions, with the champion; rules it has not been asked are left out. Two queries."""
    champion = current_aliases().get("champion")
    found = RuleTestResult.objects.filter(
        model=champion, version__rule__in=list(rules), version__rule__published=F("version")
    )
    rows = found.values_list("version__rule", "passed", "total") if champion else ()
    return [ShortResult(rule, passed, total, "champion") for rule, passed, total in rows]


def totals(model: Model) -> dict[str, int]:
    """Over the published versions that the model was asked: rules, rules that pass whole, tests, tests passed."""
    found = RuleTestResult.objects.filter(model=model, version__rule__published=F("version"))
    sums = found.aggregate(tests=Sum("total"), passed=Sum("passed"))
    return {
        "rules": found.count(),
        "rules_passed": found.filter(passed=F("total")).count(),
        "tests": sums["tests"] or 0,
        "tests_passed": sums["passed"] or 0,
    }


def failing(model: Model) -> list[RuleTestResult]:
    """Published versions with a failed test, by code."""
    found = RuleTestResult.objects.filter(
        model=model, version__rule__published=F("version"), passed__lt=F("total")
    )
    return list(found.select_related("version__rule").order_by("version__rule__code", "pk"))


# Fragments about the tests of rules: live from the editor, stored on the rule's page, in short on the list.


MOST_TESTS = 20  # asked live at once


@require_POST
def run_rule_tests(request: HttpRequest) -> HttpResponse:
    """The tests as typed, asked now of every model with an alias."""
    typed = [test for test in RuleForm.read(request.POST).tests if test["query"].strip()]
    tests = [test for test in typed if test["tools"]][:MOST_TESTS]
    names = [name for test in tests for name in test["tools"]]
    context = {
        "results": answered_live(tests) if tests else [],
        "tests": tests,
        "left_out": len(typed) - len(tests),
        "marks": tool_marks(names),
        "meaning": PASS_MEANING,
    }
    return render(request, "evaluation/_rule_tests.html", context)


@require_GET
def of_rule_tests(request: HttpRequest, rule_id: int) -> HttpResponse:
    """What models made of the published version's tests, without asking anybody; polls while a job asks them."""
    return _stored(request, get_object_or_404(Rule.objects.select_related("published"), pk=rule_id))


def _stored(request: HttpRequest, rule: Rule) -> HttpResponse:
    version = rule.published
    results = stored_results(version) if version and version.tests else []
    active = Job.objects.filter(
        kind__in=["evaluation", KIND], state__in=[Job.State.QUEUED, Job.State.RUNNING]
    )
    missing = [row for row in results if row.result is None]
    names = [name for test in version.tests for name in test["tools"]] if version else []
    context: dict[str, Any] = {
        "rule": rule,
        "version": version,
        "results": results,
        "missing": missing,
        "running": bool(missing) and active.exists(),
        "marks": tool_marks(names),
        "meaning": PASS_MEANING,
    }
    return render(request, "evaluation/_of_rule_tests.html", context)


@require_POST
def start_rule_tests(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Queue a job for each model with an alias that has not been asked this rule's tests."""
    rule = get_object_or_404(Rule.objects.select_related("published"), pk=rule_id)
    for row in stored_results(rule.published) if rule.published else []:
        if row.result is None:
            rule_tests_request(model=row.model, actor=request.user)
    return _stored(request, rule)


@require_GET
def rule_test_counts(request: HttpRequest) -> HttpResponse:
    """Swapped into the rows of the rule list: how many tests pass with the champion. ?rules=1,2,3"""
    wanted = numbers_of(request.GET.get("rules", "").split(","))[:500]
    return render(request, "evaluation/_rule_test_counts.html", {"rows": short_results(wanted)})
