"""The champion and the embedding are asked labelled requests that no benchmark holds and the champion did not learn
from: approved samples outside its snapshot, a few of each tool, and reported requests. Asked once each, with the tests
of rules (`rule_tests` jobs); what is asked anew is a sample whose text was edited."""

import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Exists, Max, OuterRef
from django.db.models.functions import MD5

from catalog.core.words import text_key
from evaluation.benchmarks.services import K
from evaluation.core.asking import labelled_item
from evaluation.coverage.outcomes import label_of, reported, still_there
from evaluation.models import Evaluation, KeptOutAnswer
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
SAMPLE, REQUEST = "sample", "request"


@dataclass
class KeptOutWork:
    """What a model has not answered yet, as a file for the child that decodes; see tasks.predict. `rows`: {id, query,
    of: (what, id)}; `embedding`: {id: names}, None where nothing is embedded."""

    model: Model
    rows: list[dict[str, Any]]
    asked: list[dict[str, Any]] = field(default_factory=list)
    served: Served = Served()
    embedding: dict[str, list[str]] | None = None
    published: bool = False
    decode: str = Evaluation.Decode.FAST

    @classmethod
    def of(cls, model: Model) -> "KeptOutWork":
        answers = KeptOutAnswer.objects.filter(model=model)
        known = dict(answers.filter(sample__isnull=False).values_list("sample", "text_key"))
        told = set(answers.filter(request__isnull=False).values_list("request", flat=True))
        waiting = [
            (SAMPLE, pk, query) for pk, query in drawn_samples(model) if known.get(pk) != text_key(query)
        ]
        columns = ("pk", "query", "verdict", "expected", "tools")
        for pk, query, verdict, expected, tools in reported().order_by("pk").values_list(*columns):
            if pk not in told and query and label_of(verdict, expected, tools):
                waiting.append((REQUEST, pk, query))
        return cls(
            model, [{"id": f"{what}-{pk}", "query": query, "of": (what, pk)} for what, pk, query in waiting]
        )

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def folder(self) -> Path:
        """One for exactly these requests, so that an interrupted job goes on where it stopped."""
        which = content_hash([[row["id"], row["query"]] for row in self.rows])[:12]
        return settings.TRACE_HOME / "rule-tests" / f"kept-out-{self.model.pk}-{which}"

    def ask(self, export: Path) -> None:
        self.served = Served.now(self.model)
        self.asked = [labelled_item(row, self.served.without) for row in self.rows]
        write_jsonl(self.folder / "items.jsonl", self.asked)

    def publish(self, ctx: JobContext, result: dict[str, Any]) -> None:
        answers = {str(row["id"]): row["tools"] for _, row in read_jsonl(self.folder / "predictions.jsonl")}
        made, again = [], []
        for row in self.rows:
            what, pk = row["of"]
            again += [pk] if what == SAMPLE else []
            made.append(
                KeptOutAnswer(
                    model=self.model,
                    text_key=text_key(row["query"]),
                    tools=answers[row["id"]][:K],
                    embedding=self.embedding[row["id"]][:K] if self.embedding is not None else None,
                    job=ctx.job,
                    **{f"{what}_id": pk},
                )
            )
        with ctx.guard():
            still = still_there(one.request_id for one in made if one.request_id)
            kept = [one for one in made if not one.request_id or one.request_id in still]
            KeptOutAnswer.objects.filter(model=self.model, sample__in=again).delete()
            KeptOutAnswer.objects.bulk_create(kept, ignore_conflicts=True, batch_size=500)
        self.published = True
        shutil.rmtree(self.folder, ignore_errors=True)
        result["kept_out"] = len(kept)


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
    """Whether the model is to be asked what it did not answer: at once, and a day after it was asked last."""
    newest = KeptOutAnswer.objects.filter(model=model).aggregate(at=Max("at"))["at"]
    if newest is not None and newest > database_now() - ASKED_AGAIN:
        return False
    return _waiting(model.pk, int(time.monotonic()) // 3600)


@lru_cache(maxsize=4)
def _waiting(model: int, hour: int) -> bool:
    """Looked for once an hour: it goes through all approved samples."""
    return KeptOutWork.of(Model.objects.select_related("run").get(pk=model)).count > 0
