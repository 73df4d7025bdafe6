"""Running a synthesis run: plan once, write what is pending, commit in small batches under the job's guard.

Killed at any moment it goes on with the rows still pending; no row is written twice, none is lost.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum

from rules.models import RuleVersion
from synthesis.core.keys import batch_seed
from synthesis.core.pools import rule_pool
from synthesis.core.queries import QueryDraft, QueryRequest, RuleText, Writers
from synthesis.core.recipe import Recipe, read_recipe
from synthesis.endpoints import clients, endpoints
from synthesis.ledger import DatabaseLedger
from synthesis.models import Attempt, Sample, SynthesisRun
from synthesis.planning import plan
from synthesis.selectors import GONE
from synthesis.sources import CatalogView, few_shot_queries, load_catalog, rule_texts
from synthesis.stages import Outcome, Pipeline, Unit
from synthesis.writers.llm import llm_writers
from synthesis.writers.offline import offline_writers
from synthesis.writing import written
from trace_site.jobs import JobContext

BATCH = 100
FEW_SHOTS = 4


def run_synthesis(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body; returns the counts of the whole run, whoever wrote them."""
    run = SynthesisRun.objects.get(pk=ctx.params["run"])
    imported = run.branch == SynthesisRun.Branch.IMPORTED
    recipe = read_recipe(run.params.get("recipe", {}))
    catalog = load_catalog(neighbours=not imported)
    ledger = DatabaseLedger(ctx.job)
    try:
        writers = run_writers(run, recipe, ledger)
        plan(ctx, run, writers, catalog)
        pipeline = Pipeline(writers, catalog.filter_context(_queries_so_far(run)), recipe.retries)
        pending = _pending(run)
        done = 0 if imported else run.samples.exclude(machine=Sample.Machine.PENDING).count()
        total = done + pending.count()
        ctx.progress(done, total, "writing")
        workers = 1 if run.writer == "offline" else settings.LLM_CONCURRENCY
        for outcomes in written(lambda: pipeline, list(_units(run, pending, catalog)), workers):
            _commit(ctx, run, writers, outcomes)
            done += len(outcomes)
            ctx.progress(done, total, "writing")
    finally:
        ledger.close()
    return run_counts(run)


def run_writers(run: SynthesisRun, recipe: Recipe, ledger: DatabaseLedger) -> Writers:
    if run.writer == "offline":
        return offline_writers(recipe)
    return llm_writers(clients(endpoints(), ledger), recipe)


def _queries_so_far(run: SynthesisRun) -> QuerySet[Sample, str]:
    """Every query that new ones must not almost repeat."""
    rows = Sample.objects.filter(branch=run.branch).exclude(GONE).exclude(query="")
    return rows.order_by("id").values_list("query", flat=True)


def _pending(run: SynthesisRun) -> QuerySet[Sample]:
    if run.branch != SynthesisRun.Branch.IMPORTED:
        return run.samples.filter(machine=Sample.Machine.PENDING).order_by("id")
    rows = Sample.objects.filter(branch=run.branch, machine=Sample.Machine.READY, trace="")
    rows = rows.exclude(human=Sample.Human.REJECTED).filter(attempts__isnull=True)
    domain = run.params.get("domain", "")
    return (rows.filter(domain_id=domain) if domain else rows).order_by("id")


def _units(run: SynthesisRun, pending: QuerySet[Sample], catalog: CatalogView) -> Iterator[Unit]:
    rows = list(pending.select_related("anchor"))
    versions = list(
        RuleVersion.objects.filter(
            pk__in={row.rule_version_id for row in rows if row.rule_version_id}
        ).select_related("rule")
    )
    rules = dict(zip((version.pk for version in versions), rule_texts(versions), strict=True))
    shots = few_shot_queries()
    share = float(run.params.get("permission_share", 0))
    per_call = read_recipe(run.params.get("recipe", {})).query.per_call
    for row in rows:
        rule = rules.get(row.rule_version_id or 0)
        given = QueryDraft(row.query, tuple(row.answer), row.explanation) if row.query else None
        yield Unit(row.pk, _request(row, run.seed, rule, catalog, shots, per_call), share, given)


def _request(
    row: Sample, seed: int, rule: RuleText | None, catalog: CatalogView, shots: list[str], per_call: int
) -> QueryRequest:
    names = row.pool or rule_pool(row.answer, catalog.neighbours, row.seed)
    index = int(row.made_from.get("index", 0))
    batch = batch_seed(seed, rule, row.style, index, per_call) if rule else None
    few = shots[(batch or row.seed) % len(shots) :][:FEW_SHOTS] if shots else []
    return QueryRequest(
        branch=row.branch,
        domain=row.domain_id,
        pool=catalog.pool(names),
        seed=row.seed,
        index=index,
        style=row.style,
        tier=row.tier,
        rule=rule,
        anchor=row.anchor.name if row.anchor else "",
        few_shot=tuple(few),
        batch_seed=batch,
    )


def _commit(ctx: JobContext, run: SynthesisRun, writers: Writers, outcomes: list[Outcome]) -> None:
    """Publish a batch: attempts and samples together, or, when the job was taken over, nothing."""
    with ctx.guard():
        rows = Sample.objects.select_for_update().in_bulk([outcome.sample_id for outcome in outcomes])
        # two runs may trace the same imported samples: the first to commit has them
        taken = set(Attempt.objects.filter(sample__in=rows).values_list("sample_id", flat=True))
        outcomes = [outcome for outcome in outcomes if outcome.sample_id not in taken]
        Attempt.objects.bulk_create(
            Attempt(
                sample_id=outcome.sample_id,
                number=tried.number,
                query=tried.query,
                trace=tried.trace,
                answer=list(tried.answer),
                outcome=tried.outcome,
                filter_failures=[failure.as_dict() for failure in tried.failures],
                judge=tried.judge,
                critique=tried.critique,
                error=tried.error,
                error_code=tried.error_code,
                calls=tried.calls,
            )
            for outcome in outcomes
            for tried in outcome.attempts
        )
        changed = [
            _finished(row, outcome, run, writers)
            for outcome in outcomes
            if not _edited_meanwhile(row := rows[outcome.sample_id], outcome, run)
        ]
        fields = [
            "query",
            "answer",
            "explanation",
            "trace",
            "permissions",
            "machine",
            "writer",
            "run",
            "approved_by",
        ]
        Sample.objects.bulk_update(changed, fields, batch_size=BATCH)


def _edited_meanwhile(row: Sample, outcome: Outcome, run: SynthesisRun) -> bool:
    """An imported sample can be read while its trace is written: what a person typed stands."""
    return run.branch == SynthesisRun.Branch.IMPORTED and bool(row.trace or row.query != outcome.draft.query)


def _finished(row: Sample, outcome: Outcome, run: SynthesisRun, writers: Writers) -> Sample:
    if run.branch == SynthesisRun.Branch.IMPORTED:
        row.run = run
        if outcome.ready:
            row.trace, row.permissions, row.writer = outcome.trace, list(outcome.permissions), writers.name
            if row.approved_by:
                row.approved_by = f"{row.approved_by}; trace by {writers.name}, not read"[:200]
        return row
    row.query, row.answer, row.explanation = (
        outcome.draft.query,
        list(outcome.draft.answer),
        outcome.draft.explanation,
    )
    row.trace, row.permissions = outcome.trace, list(outcome.permissions)
    row.machine = Sample.Machine.READY if outcome.ready else Sample.Machine.DROPPED
    return row


def run_counts(run: SynthesisRun) -> dict[str, Any]:
    """The yield funnel. written: samples; filtered, judged_out: attempts refused; ready, dropped: samples."""
    attempts = Attempt.objects.filter(sample__run=run)
    outcomes = Counter(dict(attempts.values_list("outcome").annotate(n=Count("pk"))))
    passed = attempts.filter(outcome="ready").count()
    tried = attempts.values("sample").distinct().count()
    checks: Counter[str] = Counter()
    axes: Counter[str] = Counter()
    for failures, judge in attempts.filter(Q(outcome="filtered") | Q(outcome="judged_out")).values_list(
        "filter_failures", "judge"
    ):
        checks.update({failure["check"] for failure in failures})
        axes.update(judge.get("failed", ()))
    return {
        "written": tried,
        "filtered": outcomes["filtered"],
        "judged_out": outcomes["judged_out"],
        "ready": passed,
        "dropped": tried - passed,
        "calls": attempts.aggregate(calls=Sum("calls"))["calls"] or 0,
        "attempts": sum(outcomes.values()),
        "errors": outcomes["error"],
        "checks": dict(checks.most_common()),
        "axes": dict(axes.most_common()),
        "skipped": len(run.skipped),
        "run": run.pk,
    }


def funnel_lines(counts: dict[str, Any]) -> list[str]:
    """The funnel for a terminal."""
    share = counts["ready"] / counts["written"] if counts["written"] else 0.0

    def listed(reasons: dict[str, int]) -> str:
        return f" ({', '.join(f'{name} {number:,}' for name, number in reasons.items())})" if reasons else ""

    return [
        f"  written     {counts['written']:>7,} samples, {counts['attempts']:,} attempts, {counts['calls']:,} calls",
        f"  filter V    {counts['filtered']:>7,} attempts refused{listed(counts['checks'])}",
        f"  judge J     {counts['judged_out']:>7,} attempts refused{listed(counts['axes'])}",
        f"  errors      {counts['errors']:>7,} attempts",
        f"  dropped     {counts['dropped']:>7,} samples after all retries",
        f"  ready       {counts['ready']:>7,} samples ({share:.1%})",
    ]
