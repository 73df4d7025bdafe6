"""All evaluations of requests are counted by what rules and clusters say now, from their stored predictions.

The database stamps whatever sorts queries (`coverage.selectors.Stamps`), whoever wrote it: a rule applied or
withdrawn, a tool retired, an import applied or undone, a clustering changed, a cluster dismissed. A sweeper compares
the definition in force with what it would be now and queues one job. The job counts beside what is shown, then puts the
definition and all numbers in force in one transaction. What holds the same queries as before is not resampled, and an
evaluation whose queries all stay in their groups is not read.
"""

import json
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from catalog.models import Clustering
from evaluation.benchmarks.selectors import TRACED
from evaluation.core.coverage import QueryGroups
from evaluation.core.report import Counted
from evaluation.coverage.selectors import Definition, definition_now, groups_by
from evaluation.models import Benchmark, Evaluation, GroupDefinition, Prediction
from evaluation.results import rollups
from evaluation.results.groups import KIND, define, has_failed, in_force, lock, newest_job
from evaluation.results.scoring import Grouping, Scored, benchmark_rows, score_requests
from trace_site import jobs
from trace_site.jobs import JobContext

REGROUP = """
UPDATE evaluation_prediction p SET scores = p.scores || jsonb_build_object('group', m.grp)
FROM unnest(%s::bigint[], %s::text[]) AS m(item, grp)
WHERE p.item_id = m.item AND p.scores ->> 'group' IS DISTINCT FROM m.grp
"""
RECITE = """
UPDATE evaluation_prediction p SET scores = p.scores || jsonb_build_object('cited', m.cited)
FROM unnest(%s::bigint[], %s::bigint[], %s::jsonb[]) AS m(evaluation, item, cited)
WHERE p.evaluation_id = m.evaluation AND p.item_id = m.item
"""


def counted() -> QuerySet[Evaluation]:
    """Every finished evaluation that has groups, shown or not."""
    return Evaluation.objects.filter(benchmark__kind=Benchmark.Kind.PRB, metrics__isnull=False)


def unfinished() -> QuerySet[Evaluation]:
    """Those counted by no definition that is known, and lists that the baseline came too late for."""
    newer = Evaluation.objects.filter(
        decode=Evaluation.Decode.EMBEDDING,
        metrics__isnull=False,
        benchmark=OuterRef("benchmark"),
        pk__gt=OuterRef("pk"),
    )
    late = Q(Exists(newer), decode__in=TRACED) & ~Q(metrics__has_key="same_length")
    return counted().filter(Q(definition=None) | late)


def is_due() -> bool:
    """At most five queries."""
    row = in_force()
    if row is None or row.hash != definition_now().hash:
        return Clustering.objects.exists() or counted().exists()
    return unfinished().exists()


def sweep() -> int:
    """Queue a recount where one is due and none waits or has failed at it; how many were queued."""
    if not is_due():
        return 0
    wanted = definition_now().hash
    with transaction.atomic():
        lock()
        job = newest_job()
        if job is not None and (job.is_active or has_failed(job, wanted)):
            return 0
        jobs.enqueue(KIND, {"hash": wanted}, title="recount groups with current rules and clusters")
    return 1


def run_recount(ctx: JobContext) -> dict[str, Any]:
    return {"recounted": recount(ctx)}


def recount(ctx: JobContext) -> int:
    """Until what is in force is what rules and clusters say; how many evaluations were counted. Costs nothing where
    nothing changed."""
    many = 0
    while is_due():
        definition, row = definition_now(), in_force()
        is_new = row is None or row.hash != definition.hash
        evaluations = list((counted() if is_new else unfinished()).select_related("benchmark").order_by("pk"))
        found = Recount(definition, groups_by(definition))
        for place, evaluation in enumerate(evaluations):
            found.add(evaluation)
            ctx.progress(place + 1, len(evaluations), str(evaluation.benchmark))
        figures = rollups.count()
        with ctx.guard():
            lock()
            came = counted().exclude(pk__in=[one.pk for one in evaluations]).exists() if is_new else False
            if came or in_force() != row:
                continue  # measured or counted meanwhile: once more, with it
            row = define(definition, ctx.job) if is_new or row is None else row
            found.publish(row)
            rollups.store(figures, row)
        many += len(evaluations)
    return many


class Recount:
    """The numbers of evaluations by one definition, until they are published."""

    def __init__(self, definition: Definition, by: QueryGroups) -> None:
        self.definition, self.by = definition, by
        self.groupings: dict[int, Grouping] = {}  # of each benchmark
        self.scored: dict[int, Scored | None] = {}  # of each evaluation; None: its numbers stay
        self.evaluations: dict[int, Evaluation] = {}
        self.recited: list[tuple[int, int, str]] = []  # evaluation, item, codes its trace cites as JSON

    def grouping(self, benchmark: Benchmark) -> Grouping:
        if benchmark.pk not in self.groupings:
            self.groupings[benchmark.pk] = Grouping.of(self.definition, benchmark_rows(benchmark), self.by)
        return self.groupings[benchmark.pk]

    def add(self, evaluation: Evaluation) -> None:
        grouping, old = self.grouping(evaluation.benchmark), evaluation.metrics or {}
        self.evaluations[evaluation.pk], self.scored[evaluation.pk] = evaluation, None
        is_list = evaluation.decode in TRACED
        known = evaluation.definition_id is not None and ("same_length" in old or not is_list)
        same = old.get("groups") == grouping.shown and (
            not is_list or old.get("codes") == grouping.codes_hash
        )
        if known and same:
            return
        predictions, groups, cited = [], {}, {}
        stored = Prediction.objects.filter(evaluation=evaluation).values_list("item", "output", "scores")
        for item, output, scores in stored:
            key = str(item)
            predictions.append({**output, "id": key})
            groups[key], cited[key] = scores.get("group", ""), scores.get("cited", None if is_list else [])
        before = Counted(old, groups, cited)
        scored = score_requests(evaluation.benchmark, evaluation.decode, predictions, grouping, before)
        self.recited += [
            (evaluation.pk, int(key), json.dumps(codes))
            for key, codes in scored.cited.items()
            if codes != cited[key]
        ]
        self.scored[evaluation.pk] = scored

    def publish(self, row: GroupDefinition) -> None:
        """Inside the guard and the lock. Predictions say their group and what they cite; what was answered never
        changes."""
        moved = []
        for pk, scored in self.scored.items():
            if scored is not None:
                self.evaluations[pk].metrics = scored.metrics
                moved.append(self.evaluations[pk])
        Evaluation.objects.bulk_update(moved, ["metrics"], batch_size=100)
        everything = Evaluation.objects.filter(pk__in=self.scored)
        everything.update(definition=row, clusterings=self.definition.clusterings)
        sorted_ = [pair for grouping in self.groupings.values() for pair in grouping.groups.items()]
        with connection.cursor() as cursor:
            cursor.execute(REGROUP, [[int(item) for item, _ in sorted_], [group for _, group in sorted_]])
            if self.recited:
                cursor.execute(RECITE, [list(column) for column in zip(*self.recited, strict=True)])
