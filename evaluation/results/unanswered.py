"""What a model is asked outside of benchmarks, once each: the tests of published rules, which never change, and, with
the embedding beside it, labelled requests that it did not learn from: approved samples outside its snapshot, a few of
each tool, and reported requests. A sample whose text was edited is another request."""

import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Exists, F, Max, OuterRef, Q
from django.db.models.functions import MD5

from catalog.core.words import text_key
from evaluation.benchmarks.selectors import backend_of, kept_out_answers, rule_answers
from evaluation.core.asking import labelled_item
from evaluation.core.metrics import judge_rule_test
from evaluation.coverage.outcomes import label_of, reported, still_there
from evaluation.models import Answer, Evaluation, LabelledRequest
from rules.models import RuleVersion
from synthesis.models import Sample, SnapshotSample
from synthesis.samples.staleness import APPROVED, OUTDONE, READY, without_stale
from trace_site.database import database_now
from trace_site.jobs import JobContext
from trace_site.lib.files import content_hash, read_jsonl, write_jsonl
from training.models import Model
from training.registry.registry import Served

PER_TOOL = 10  # samples a right tool
MOST = 2000  # samples a model
DRAWN = 20_000  # of which those are taken, in an order that only their keys decide
ASKED_AGAIN = timedelta(days=1)
IDENTITY = ("version_id", "position", "sample_id", "request_id", "text_key")
Origin = LabelledRequest.Origin


@dataclass
class Unanswered:
    """Requests, each with its text, that a model has not answered yet, as a file for the child that decodes; see
    tasks.predict. `embedding`: what the embedding answers, in their order; None where nothing is embedded."""

    model: Model
    requests: list[tuple[LabelledRequest, str]]
    asked: list[dict[str, Any]] = field(default_factory=list)
    served: Served = Served()
    embedding: list[dict[str, Any]] | None = None
    published: bool = False
    decode: str = Evaluation.Decode.FAST

    @classmethod
    def tests(cls, model: Model) -> "Unanswered":
        published = RuleVersion.objects.filter(rule__published_id=F("pk")).exclude(tests=[])
        missing = published.exclude(pk__in=rule_answers().filter(model=model).values("item__version"))
        found = [
            LabelledRequest(
                origin=Origin.RULE_TEST,
                version=version,
                position=position,
                domain=version.rule.domain_id,
                data=test,
            )
            for version in missing.select_related("rule").only("tests", "rule__domain").order_by("pk")
            for position, test in enumerate(version.tests)
        ]
        return cls(model, [(one, one.data["query"]) for one in found])

    @classmethod
    def kept_out(cls, model: Model) -> "Unanswered":
        known = set(kept_out_answers(model).values_list(*(f"item__{name}" for name in IDENTITY)))
        given = [
            (LabelledRequest(origin=Origin.SAMPLE, sample_id=pk, text_key=text_key(query)), query)
            for pk, query in drawn_samples(model)
        ]
        columns = ("pk", "query", "verdict", "expected", "tools")
        for pk, query, verdict, expected, tools in reported().order_by("pk").values_list(*columns):
            if query and label_of(verdict, expected, tools):
                request = LabelledRequest(origin=Origin.REPORT, request_id=pk, text_key=text_key(query))
                given.append((request, query))
        return cls(model, [(one, text) for one, text in given if identity(one) not in known])

    @property
    def count(self) -> int:
        return len(self.requests)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [{"id": str(place), "query": text} for place, (_, text) in enumerate(self.requests)]

    @cached_property
    def backend(self) -> str:
        return backend_of(self.model)

    @property
    def folder(self) -> Path:
        """One for exactly these requests and backend, so that an interrupted job goes on where it stopped."""
        which = [[*identity(request), text] for request, text in self.requests]
        name = f"model-{self.model.pk}-{content_hash([self.backend, which])[:12]}"
        return settings.TRACE_HOME / "rule-tests" / name

    def ask(self, export: Path) -> None:
        self.served = Served.now(self.model)
        self.asked = [labelled_item(row, self.served.without) for row in self.rows]
        write_jsonl(self.folder / "items.jsonl", self.asked)

    def publish(self, ctx: JobContext, result: dict[str, Any]) -> None:
        """What was erased in the meantime is left out, as is what another job has stored."""
        given = {str(row["id"]): row for _, row in read_jsonl(self.folder / "predictions.jsonl")}
        made: list[Answer] = []
        passed = defaultdict[int, list[bool]](list)
        with ctx.guard():
            still = still_there(one.request_id for one, _ in self.requests if one.request_id)
            kept = {
                place: one
                for place, (one, _) in enumerate(self.requests)
                if not one.request_id or one.request_id in still
            }
            ids = stored(kept.values())
            for place, request in kept.items():
                answer, scores = given[str(place)], {}
                if request.version_id:
                    test = request.data
                    verdict = judge_rule_test(test["query"], test["tools"], answer["tools"])
                    passed[request.version_id].append(verdict.passed)
                    scores = {"passed": float(verdict.passed)}
                of = {"item_id": ids[identity(request)], "job": ctx.job}
                by = {"model": self.model, "backend": self.backend, "scores": scores}
                made.append(Answer(output=without_words(answer), **of, **by))
                if self.embedding is not None:
                    made.append(Answer(output=without_words(self.embedding[place]), **of))
            Answer.objects.bulk_create(made, ignore_conflicts=True, batch_size=500)
        self.published = True
        shutil.rmtree(self.folder, ignore_errors=True)
        if passed:
            result |= {"rules_tested": len(passed), "rules_passed": sum(map(all, passed.values()))}
        else:
            result["kept_out"] = len(kept)


def without_words(row: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an answer: nothing that repeats its request."""
    return {name: row[name] for name in ("tools", "scores", "clause") if name in row}


def identity(request: LabelledRequest) -> tuple[Any, ...]:
    return tuple(getattr(request, name) for name in IDENTITY)


def stored(requests: Collection[LabelledRequest]) -> dict[tuple[Any, ...], int]:
    """{identity: id}; other models may have been asked them before."""
    LabelledRequest.objects.bulk_create(requests, ignore_conflicts=True, batch_size=500)
    rows = LabelledRequest.objects.filter(
        Q(version__in={one.version_id for one in requests})
        | Q(sample__in={one.sample_id for one in requests})
        | Q(request__in={one.request_id for one in requests})
    )
    return {tuple(of): pk for *of, pk in rows.values_list(*IDENTITY, "pk")}


def drawn_samples(model: Model) -> list[tuple[int, str]]:
    """(id, query) of approved samples that stand and that the model's snapshot does not hold."""
    inside = SnapshotSample.objects.filter(snapshot=model.run.snapshot_id, sample=OuterRef("pk"))
    standing = without_stale(Sample.objects.filter(APPROVED & READY).exclude(Exists(inside))).filter(~OUTDONE)
    rows = standing.order_by(MD5("key"), "pk").values_list("pk", "query", "answer")
    taken: Counter[str] = Counter()
    found = []
    for pk, query, answer in rows[:DRAWN]:
        if answer and all(taken[name] < PER_TOOL for name in answer):
            taken.update(answer)
            found.append((pk, query))
    return found[:MOST]


def is_due(model: Model) -> bool:
    """Whether the model is to be asked what was kept out of its training: at once, and a day after it was asked
    last."""
    newest = kept_out_answers(model).aggregate(at=Max("created_at"))["at"]
    if newest is not None and newest > database_now() - ASKED_AGAIN:
        return False
    return _waiting(model.pk, int(time.monotonic()) // 3600)


@lru_cache(maxsize=4)
def _waiting(model: int, hour: int) -> bool:
    """Looked for once an hour: it goes through all approved samples."""
    return Unanswered.kept_out(Model.objects.select_related("run").get(pk=model)).count > 0
