"""The tests of rules against models: live from the editor through the engine, and stored per model and version.

Stored results come from the evaluation of a model, or from a `rule_tests` job; both decode in the same child process
as benchmarks. A version and a model never change, so a result is made once.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from catalog.models import Tool
from evaluation import retriever
from evaluation.core.golden import Verdict, judge
from evaluation.models import Evaluation, RuleTestResult
from evaluation.services import K
from rules.models import RuleVersion
from trace_site import jobs
from trace_site.jobs import Job, JobContext
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_jsonl, write_jsonl
from training.models import Model
from training.registry import current_aliases

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
