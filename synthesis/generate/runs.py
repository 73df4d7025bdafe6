"""Running a synthesis run: plan once, write what is pending, commit in small batches under the job's guard.

Killed at any moment it goes on with the rows still pending; no row is written twice, none is lost.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from catalog.lookalikes import await_look_alikes
from catalog.models import NeighbourList
from rules.models import RuleVersion
from synthesis.core.plan import shuffled_pool
from synthesis.core.queries import QueryDraft, QueryRequest, RuleText, Writers
from synthesis.core.recipe import Recipe, read_recipe
from synthesis.generate.imports import untraced
from synthesis.generate.pipeline import Outcome, Pipeline, Unit, written
from synthesis.generate.planning import plan
from synthesis.generate.regeneration import plan_again
from synthesis.generate.selectors import run_counts
from synthesis.llm.ledger import LOST, DatabaseLedger, patiently, spent
from synthesis.llm.prompts import source
from synthesis.llm.writers import clients, endpoints, llm_writers
from synthesis.models import Attempt, Decision, ModelCall, PromptVersion, Regeneration, Sample, SynthesisRun
from synthesis.offline.recorded import NAME as RECORDED
from synthesis.offline.recorded import recorded_writers
from synthesis.offline.writer import offline_writers
from synthesis.samples.inputs import FewShots
from synthesis.samples.rejections import OF_TRACE
from synthesis.samples.sources import CatalogView, few_shot_queries, load_catalog, published_codes, rule_texts
from synthesis.samples.staleness import STANDING
from synthesis.samples.units import alone, equation, join_all, take_over, writing_elsewhere
from trace_site.jobs import Job, JobContext, JobPostponed
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.limiter import Budget

PER_SLOT = 2  # samples under way for each exchange an endpoint takes: one waits or is filtered, another asks


@dataclass(frozen=True, slots=True)
class Staff:
    """Who writes a run: the writers, the clients of their endpoints, the ledger."""

    writers: Writers
    ledger: DatabaseLedger
    clients: list[Client] = field(default_factory=list)

    def written(
        self, pipeline: Pipeline, units: Iterable[Unit], check: Callable[[], None]
    ) -> Iterator[list[Outcome]]:
        """Outcomes in batches. Writers without a client never wait, so one sample is under way at a time."""

        async def close() -> None:
            for client in self.clients:
                await client.close()

        slots = {client.endpoint.base_url: client.endpoint.concurrency for client in self.clients}
        workers = PER_SLOT * sum(slots.values()) or 1
        return written(pipeline, units, workers, check=check, close=close)


def run_staff(run: SynthesisRun, recipe: Recipe, job: Job) -> Staff:
    """With the models the run was started with, whatever the settings say by now."""
    ledger = DatabaseLedger(job)
    if run.writer == "offline":
        return Staff(offline_writers(recipe), ledger)
    if run.writer == RECORDED:
        return Staff(recorded_writers(recipe, ledger), ledger)
    models = {row["role"]: row["model"] for row in run.params.get("endpoints", ())}
    limits = run.params.get("budget")
    made = clients(endpoints(models), ledger, Budget(**limits, spent=spent(job)) if limits else None)
    for client in made.values():
        if not client.manner:  # another process has learnt it
            client.manner.update(run.params.get("adapted", {}).get(client.endpoint.model, {}))
    return Staff(llm_writers(made, recipe), ledger, list(dict.fromkeys(made.values())))


def _open_books(ctx: JobContext, run: SynthesisRun, writers: Writers) -> None:
    """At the start of every attempt: keep the prompts' texts, close the rows that a killed process left open."""
    used = writers.made_with(run.branch).values()
    prompts = {part["prompt_hash"]: part["prompt"] for part in used if "prompt_hash" in part}
    with ctx.guard():
        PromptVersion.objects.bulk_create(
            (PromptVersion(hash=digest, name=name, source=source(name)) for digest, name in prompts.items()),
            ignore_conflicts=True,
        )
        open_rows = ModelCall.objects.filter(job=ctx.job, state=ModelCall.State.SENT)
        open_rows.update(state=ModelCall.State.FAILED, error_code=LOST, ended_at=Now())


CHUNK = 500  # planned samples read at once
AS_TRIED = ("number", "query", "trace", "outcome", "judge", "critique", "error", "error_code", "calls")
WRITTEN = [
    *("query", "answer", "explanation", "trace", "permissions", "pool"),
    *("machine", "writer", "run", "approved_by", "updated_at"),
]


def run_synthesis(ctx: JobContext) -> dict[str, Any]:
    """The job's handler body; returns the counts of the whole run, whoever wrote them.

    Raises JobPostponed while look-alikes are being found, or another run writes what both have planned; TraceError
    `incomplete` when units are missing that nobody writes.
    """
    run = SynthesisRun.objects.get(pk=ctx.params["run"])
    patiently(partial(_wait_on, ctx, run))
    recipe = read_recipe(run.params.get("recipe", {}))
    catalog = _catalog(ctx, run)
    staff = run_staff(run, recipe, ctx.job)
    try:
        _open_books(ctx, run, staff.writers)
        (plan_again if run.params.get("regenerate") else plan)(ctx, run, staff.writers, catalog)
        _write_all(ctx, run, recipe, catalog, staff)
    except TraceError as error:
        raise (_over_budget(run, ctx.job) if error.code == "llm_budget" else error) from error
    finally:
        staff.ledger.close()
        patiently(partial(_adapted, run, staff))
    return patiently(lambda: run_counts(run))


def _adapted(run: SynthesisRun, staff: Staff) -> None:
    """Put down what of the requests the servers did not take."""
    found = {client.endpoint.model: client.manner for client in staff.clients if client.manner}
    if found and found != run.params.get("adapted"):
        run.params["adapted"] = found
        run.save(update_fields=["params"])


def _wait_on(ctx: JobContext, run: SynthesisRun) -> None:
    """What the last attempt was put off for is asked before anything is loaded, and before other plans are held up."""
    if ctx.waited_for is None or _pending(run).exists():
        return
    if (other := writing_elsewhere(run)) is not None and other[0].job_id == ctx.waited_for:
        raise _postponed(*other)


def _postponed(owner: SynthesisRun, number: int) -> JobPostponed:
    samples = "1 of its samples" if number == 1 else f"{number:,} of its samples"
    return JobPostponed(f"waits for {owner}, which writes {samples}", owner.job)


def _catalog(ctx: JobContext, run: SynthesisRun) -> CatalogView:
    """A trace of an imported query is written against look-alikes where they are known; the others need them."""
    imported = run.branch == SynthesisRun.Branch.IMPORTED
    try:
        return load_catalog(neighbours=not imported or NeighbourList.objects.exists())
    except TraceError as error:
        if error.code != "no_neighbours":
            raise
        await_look_alikes(ctx)


def _write_all(
    ctx: JobContext, run: SynthesisRun, recipe: Recipe, catalog: CatalogView, staff: Staff
) -> None:
    """Until the equation holds. What another run writes is waited for; what nobody writes is told."""
    missing = None
    while True:
        patiently(partial(_take_over, ctx, run))
        _write(ctx, run, recipe, catalog, staff)
        found = patiently(partial(equation, run))
        if not found.missing:
            return
        if (other := patiently(partial(writing_elsewhere, run))) is not None:
            raise _postponed(*other)
        if found.missing == missing:
            raise TraceError(
                f"{found.missing:,} of {found.planned:,} samples are not written.",
                code="incomplete",
                where=str(run),
                hint="Resume the run. If they stay missing, start a new one: it plans what is not there.",
            )
        missing = found.missing


def _take_over(ctx: JobContext, run: SynthesisRun) -> None:
    with alone(ctx):
        take_over(run)


def _write(ctx: JobContext, run: SynthesisRun, recipe: Recipe, catalog: CatalogView, staff: Staff) -> None:
    """Write what is pending; every batch is committed before the next is taken."""
    found = patiently(partial(equation, run))
    total, done = found.planned, found.planned - found.missing

    def progress() -> None:
        patiently(lambda: ctx.progress(done, total, "writing"))

    progress()
    if not (pending := _pending(run)).exists():
        return
    # every query that new ones must not almost repeat; what is being replaced is no rival of its replacement, and a
    # query kept while its trace is written again stands in a row of this run already
    rivals = Sample.objects.filter(STANDING, branch=run.branch).exclude(query="")
    rivals = rivals.exclude(run=run, machine=Sample.Machine.PENDING)
    queries = rivals.order_by("id").values_list("query", flat=True)
    of_query = Decision.objects.filter(verdict=Decision.Verdict.REJECT).exclude(reason__in=OF_TRACE)
    rejected = Sample.objects.filter(human=Sample.Human.REJECTED, branch=run.branch, decisions__in=of_query)
    refused = rejected.exclude(query="").values_list("query", flat=True)
    context = catalog.filter_context(recipe, queries, published_codes(), refused)
    pipeline = Pipeline(staff.writers, context, recipe.retries)
    for outcomes in staff.written(pipeline, _units(recipe, pending, catalog), progress):
        # a batch whose commit was not heard of is found committed
        patiently(partial(_commit, ctx, run, staff.writers, outcomes))
        done += len(outcomes)
        progress()


def _pending(run: SynthesisRun) -> QuerySet[Sample]:
    if run.branch != SynthesisRun.Branch.IMPORTED:
        return run.samples.filter(machine=Sample.Machine.PENDING).order_by("id")
    return untraced().filter(shared_by__run=run, shared_by__why="")


def _units(recipe: Recipe, pending: QuerySet[Sample], catalog: CatalogView) -> Iterator[Unit]:
    """What is pending now, read in chunks as it is asked for."""
    waiting = list(pending.values_list("pk", flat=True))
    shots = FewShots(few_shot_queries(), recipe.query.few_shots)
    share = recipe.trace.permission_share
    for chunk in (waiting[first : first + CHUNK] for first in range(0, len(waiting), CHUNK)):
        for row, rule in patiently(partial(_planned, chunk)):
            batch, again = row.made_from.get("batch_seed"), row.made_from.get("again", {})
            request = QueryRequest(
                branch=row.branch,
                domain=row.domain_id,
                pool=catalog.pool(row.pool or shuffled_pool(row.answer, catalog.neighbours, row.seed)),
                seed=row.seed,
                index=int(row.made_from.get("index", 0)),
                style=row.style,
                tier=row.tier,
                rule=rule,
                anchor=row.anchor.name if row.anchor else "",
                few_shot=shots.chosen(row.seed, batch),
                batch_seed=batch,
                critique=again.get("critique", ""),
            )
            given = QueryDraft(row.query, tuple(row.answer), row.explanation) if row.query else None
            yield Unit(row.pk, request, share, given, frozenset(again.get("refused", ())))


def _planned(chunk: list[int]) -> list[tuple[Sample, RuleText | None]]:
    rows = list(Sample.objects.filter(pk__in=chunk).select_related("anchor").order_by("pk"))
    wanted = {row.rule_version_id for row in rows if row.rule_version_id}
    versions = list(RuleVersion.objects.filter(pk__in=wanted).select_related("rule"))
    rules = dict(zip((version.pk for version in versions), rule_texts(versions), strict=True))
    return [(row, rules.get(row.rule_version_id or 0)) for row in rows]


def _commit(ctx: JobContext, run: SynthesisRun, writers: Writers, outcomes: list[Outcome]) -> None:
    """Publish a batch: attempts and samples together, or, when the job was taken over, nothing."""
    with ctx.guard():
        rows = Sample.objects.select_for_update().in_bulk([outcome.sample_id for outcome in outcomes])
        # two runs may trace the same imported samples: the first to commit has them
        taken = set(Attempt.objects.filter(sample__in=rows).values_list("sample_id", flat=True))
        fresh = [one for one in outcomes if one.sample_id in rows and one.sample_id not in taken]
        Attempt.objects.bulk_create(
            Attempt(
                sample_id=outcome.sample_id,
                answer=list(tried.answer),
                filter_failures=[failure.as_dict() for failure in tried.failures],
                **{name: getattr(tried, name) for name in AS_TRIED},
            )
            for outcome in fresh
            for tried in outcome.attempts
        )
        if run.branch == SynthesisRun.Branch.IMPORTED:  # they stay units of the import
            join_all((rows[one.sample_id].run_id, one.sample_id) for one in fresh)
        ended = (_finished(rows[outcome.sample_id], outcome, run, writers) for outcome in fresh)
        changed = [row for row in ended if row is not None]
        # the rows are there and locked: an upsert is an update, several times cheaper than bulk_update
        Sample.objects.bulk_create(
            changed, update_conflicts=True, unique_fields=["id"], update_fields=WRITTEN
        )
        for row in changed:  # what became of the rejected samples that these were written for
            if again := row.made_from.get("again"):
                ready = row.machine == Sample.Machine.READY
                state = Regeneration.State.WRITTEN if ready else Regeneration.State.ENDED
                why = "" if ready else "No attempt passed filter and judge."
                rejected = Regeneration.objects.filter(sample=again["of"], state=Regeneration.State.WRITING)
                rejected.update(state=state, why=why, replacement=row, ended_at=Now())


def _finished(row: Sample, outcome: Outcome, run: SynthesisRun, writers: Writers) -> Sample | None:
    """The row as it ended; None for an imported one that a person edited meanwhile: what they typed stands."""
    draft = outcome.draft
    if run.branch == SynthesisRun.Branch.IMPORTED:
        if row.trace or row.query != draft.query:
            return None
        row.run = run
        if outcome.ready:
            row.trace, row.permissions, row.writer = outcome.trace, list(outcome.permissions), writers.name
            row.pool = list(outcome.pool)
            if row.approved_by:
                row.approved_by = f"{row.approved_by}; trace by {writers.name}, not read"[:200]
        return row
    row.query, row.answer, row.explanation = draft.query, list(draft.answer), draft.explanation
    row.trace, row.permissions = outcome.trace, list(outcome.permissions)
    row.machine = Sample.Machine.READY if outcome.ready else Sample.Machine.DROPPED
    return row


def _over_budget(run: SynthesisRun, job: Job) -> TraceError:
    """The sentence of a run that stopped at its budget, with the figures."""
    limits, used = run.params["budget"], asdict(spent(job))
    figures = ", ".join(
        f"{took:,.2f} of {limits[name]:,.2f} spent"
        if name == "money"
        else f"{took:,} of {limits[name]:,} {name}"
        for name, took in used.items()
        if name in limits
    )
    left = equation(run).missing
    return TraceError(
        f"stopped at its budget: {figures}; {left:,} samples are not written.",
        code="llm_budget",
        hint="Raise the budget and resume; what was paid is not paid again.",
        extra={"budget": limits, **used, "left": left},
        permanent=True,
    )
