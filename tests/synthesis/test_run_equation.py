"""A run that says done: planned = ready + dropped + given up with a reason, whoever wrote them."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import NeighbourList, Tool
from rules.models import Rule
from synthesis.generate import pipeline, regeneration, runs, selectors
from synthesis.generate.estimates import estimate
from synthesis.generate.imports import samples_import
from synthesis.generate.planning import MOVED, NEWER, TAKEN, plan
from synthesis.generate.selectors import Slice, funnel, tell_counts
from synthesis.generate.services import synthesis_resume, synthesis_start
from synthesis.models import Attempt, Regeneration, RunUnit, Sample, SynthesisRun
from synthesis.offline.writer import offline_writers
from synthesis.review import services as review_services
from synthesis.samples.selectors import samples
from synthesis.samples.units import of_run
from tests.factories import make_domain, make_tool
from tests.synthesis.rows import make_book, run_job
from tests.synthesis.test_incremental_runs import (  # noqa: F401
    edit_rule,
    make_catalog,
    near,
)
from trace_site import jobs
from trace_site.commands import run_inline
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_jsonl

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("every_draft_passes")]


def start(**options):
    return synthesis_start(**{"branch": "rule", "per_rule": 30, "seed": 1, "wake": False, **options})


def two_domains() -> None:
    make_catalog(2)
    version = Rule.objects.get(code="RULE_1").published
    Rule.objects.filter(code="RULE_1").update(domain=make_domain("it"))
    Tool.objects.filter(pk__in=version.tool_ids).update(domain=make_domain("it"))


def stop(run: SynthesisRun, written: int, reason: type[BaseException] = jobs.JobCancelled) -> Job:
    """Work on the run until so many samples are written."""
    commit, seen = runs._commit, []

    def stops(ctx, run, writers, outcomes):
        if len(seen) >= written:
            raise reason
        commit(ctx, run, writers, outcomes)
        seen.extend(outcomes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_commit", stops)
        patch.setattr(pipeline, "BATCH", 1)
        done = jobs.run(run.job.pk)
    assert done is not None
    return done


def resumed(run: SynthesisRun) -> dict:
    synthesis_resume(run)
    return run_job(run.job)


def kept(counts: dict) -> tuple[int, int, int, int]:
    """(planned, ready, dropped, given up) of a run that is done."""
    given_up = sum(counts["given_up"].values())
    assert counts["missing"] == 0
    assert counts["planned"] == counts["ready"] + counts["dropped"] + given_up
    return counts["planned"], counts["ready"], counts["dropped"], given_up


def test_a_run_keeps_its_plan_while_another_writes_another_domain():
    two_domains()
    first = start(domain="hr")
    assert stop(first, 10).state == "cancelled"
    assert kept(run_job(start(domain="it").job)) == (30, 30, 0, 0)
    assert kept(resumed(first)) == (30, 30, 0, 0)
    assert Sample.objects.filter(machine="ready").count() == 60


def test_a_run_counts_what_another_wrote_of_its_plan_and_writes_nothing_twice():
    make_catalog(1)
    first = start()
    stop(first, 10)
    second = start()
    assert second.pk != first.pk
    assert kept(run_job(second.job)) == (20, 20, 0, 0)
    assert kept(resumed(first)) == (30, 30, 0, 0)
    assert Sample.objects.count() == Attempt.objects.filter(number=1).count() == 30
    assert second.samples.count() == 20


def test_lists_search_and_funnel_show_all_that_a_run_planned():
    make_catalog(1)
    first = start()
    stop(first, 10)
    run_job(start().job)
    resumed(first)
    row = SynthesisRun.objects.get(pk=first.pk)
    tell_counts([row])
    assert (row.planned, row.ready, row.dropped) == (30, 30, 0)
    total = funnel(Slice(first.pk)).total
    assert (total.planned, total.written, total.ready) == (30, 30, 30)
    assert samples({"run": first.pk}).total == 30


def test_what_a_run_shares_is_looked_up_and_never_listed_in_a_query():
    make_catalog(1)
    first = start()
    stop(first, 0)
    run_job(start().job)

    def shown() -> tuple[int, int, str, str]:
        found = Sample.objects.filter(of_run(first.pk))
        tried = Attempt.objects.filter(of_run(first.pk, "sample__"), number=1)
        return found.count(), tried.count(), str(found.query), str(tried.query)

    before = shown()
    RunUnit.objects.filter(pk=RunUnit.objects.filter(run=first).values("pk")[:1]).delete()
    assert (before[:2], shown()) == ((30, 30), (29, 29, *before[2:]))


def test_what_another_seed_has_filled_meanwhile_is_given_up():
    make_catalog(1)
    first = start()
    stop(first, 10)
    run_job(start(seed=2).job)
    counts = resumed(first)
    assert kept(counts) == (30, 10, 0, 20)
    assert counts["given_up"] == {NEWER: 20}
    assert funnel(Slice(first.pk)).given_up == [(NEWER, 20)]


def test_an_edit_of_the_rule_gives_up_its_part_and_plans_it_anew():
    make_catalog(2)
    run = start(per_rule=6)
    stop(run, 0)
    edit_rule("RULE_0")
    counts = resumed(run)
    assert kept(counts) == (18, 12, 0, 6)
    assert counts["given_up"] == {MOVED: 6}


def test_a_plan_that_somebody_deleted_is_told_as_incomplete():
    make_catalog(1)
    run = start()
    stop(run, 10)
    Sample.objects.filter(machine="pending").delete()
    synthesis_resume(run)
    job = jobs.run(run.job.pk)
    assert (job.state, job.error_code) == ("failed", "incomplete")
    assert "20 of 30 samples are not written" in job.error
    assert "a new run plans" in selectors.next_step(SynthesisRun.objects.get(pk=run.pk))


def test_a_run_waits_for_the_one_that_writes_what_both_planned():
    make_catalog(1)
    first, writers = start(), offline_writers(runs.read_recipe({}))
    stop(first, 10)
    second = start()
    context = jobs.claim(second.job.pk)
    plan(context, second, writers, runs.load_catalog())
    runs._take_over(context, second)
    context.close()
    synthesis_resume(first)
    waits = jobs.run(first.job.pk)
    assert (waits.state, waits.params["waits_for"]) == ("queued", second.job.pk)
    assert waits.note == f"waits for synthesis {second.pk} (rule), which writes 20 of its samples"
    with CaptureQueriesContext(connection) as asked, pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "load_catalog", pytest.fail)
        again = jobs.run(first.job.pk)
    assert (again.state, again.params, again.note) == ("queued", waits.params, waits.note)
    assert not any("pg_advisory_xact_lock" in query["sql"] for query in asked)
    Job.objects.filter(pk=second.job.pk).update(state="queued")
    assert kept(run_job(second.job)) == (20, 20, 0, 0)
    assert kept(run_job(first.job)) == (30, 30, 0, 0)


def test_what_a_run_gives_up_goes_back_to_the_one_that_planned_it_too():
    make_catalog(1)
    first, second = start(per_rule=6), None
    stop(first, 0)
    second = start(per_rule=6)
    stop(second, 0)
    assert first.samples.count() == 0 and second.samples.count() == 6
    edit_rule("RULE_0")
    assert kept(resumed(second)) == (12, 6, 0, 6)
    assert first.samples.filter(machine="pending").count() == 6
    assert kept(resumed(first)) == (6, 0, 0, 6)
    assert not Sample.objects.filter(machine="pending").exists()


def test_what_is_taken_back_from_another_run_is_not_written_for_a_rule_that_has_moved_on():
    make_catalog(1)
    first = start(per_rule=6)
    stop(first, 0)
    stop(start(per_rule=6), 0)
    edit_rule("RULE_0")
    assert kept(resumed(first)) == (12, 6, 0, 6)
    assert not Sample.objects.filter(machine="ready", rule_version__number=1).exists()


def test_a_run_of_rejected_samples_says_what_it_gave_up():
    make_catalog(1)
    run_job(start(per_rule=6).job)
    rita = User.objects.create(username="rita")
    for sample in Sample.objects.filter(style="explicit"):
        review_services.reject(sample=sample.pk, reviewer=rita, reason="unclear", follow_up="regenerate")
    (first,) = regeneration.start(wake=False)
    assert stop(first, 0).state == "cancelled"
    (second,) = regeneration.start(wake=False)
    assert kept(run_job(second.job)) == (2, 2, 0, 0)
    counts = resumed(first)
    assert kept(counts) == (2, 0, 0, 2)
    assert counts["given_up"] == {regeneration.TAKEN: 2}
    for sample in Sample.objects.filter(run=second):
        review_services.reject(sample=sample.pk, reviewer=rita, reason="unclear", follow_up="regenerate")
    (third,) = regeneration.start(wake=False)
    edit_rule("RULE_0")
    assert kept(run_job(third.job)) == (2, 0, 0, 2)
    assert not Regeneration.objects.filter(state="writing").exists()


def test_a_tracing_run_has_the_queries_it_planned_and_says_what_became_of_them(tmp_path):
    make_book()
    rows = [
        {"query": f"three days off in week {n} please", "tools": ["TimeDesk/SubmitLeave"]} for n in range(4)
    ]
    write_jsonl(tmp_path / "logs.jsonl", [*rows, rows[0]])
    found = samples_import(path=tmp_path / "logs.jsonl")
    assert (found.rows, found.imported, found.repeated) == (5, 4, 1)
    first = start(branch="imported")
    assert estimate(branch="imported").samples.value == 4
    stop(first, 2)
    by_hand, more = Sample.objects.filter(trace="")[0], [{"query": "a late one", "tools": rows[0]["tools"]}]
    Sample.objects.filter(pk=by_hand.pk).update(trace="A person wrote this.")
    write_jsonl(tmp_path / "more.jsonl", more)
    samples_import(path=tmp_path / "more.jsonl")
    counts = resumed(first)
    assert kept(counts)[0] == 4 and counts["given_up"] == {TAKEN: 1}
    assert kept(run_job(start(branch="imported", seed=2).job))[0] == 1
    imports = SynthesisRun.objects.filter(writer="import").order_by("pk")
    tell_counts(list(imports))
    assert [(row.planned, row.ready) for row in imports] == [(4, 4), (1, 1)]


def stalled() -> tuple[SynthesisRun, Tool]:
    """A run that is queued again, and a tool that was imported into another domain meanwhile."""
    make_catalog(1)
    run = start(per_rule=6)
    stop(run, 2, KeyError)
    new = make_tool("Added/Get", domain=make_domain("new"))
    synthesis_resume(run)
    return run, new


@pytest.fixture(autouse=True)
def crashes_are_quiet(monkeypatch, request):
    """`stop` with an error that no handler knows is raised again by the job engine."""
    real = jobs.run

    def run(pk):
        try:
            return real(pk)
        except KeyError:
            return Job.objects.get(pk=pk)

    monkeypatch.setattr(jobs, "run", run)


def test_a_tool_imported_elsewhere_puts_a_run_off_until_its_look_alikes_are_found():
    run, new = stalled()
    job = jobs.run(run.job.pk)
    refresh = Job.objects.get(kind="catalog")
    assert (job.state, job.params["waits_for"]) == ("queued", refresh.pk)
    assert job.note.startswith("waits for the look-alikes of") and f"job {refresh.pk} finds" in job.note
    assert jobs.run(run.job.pk).state == "queued"  # still not
    assert Job.objects.filter(kind="catalog").count() == 1
    near(new)
    Job.objects.filter(pk=refresh.pk).update(state="done")
    assert kept(run_job(run.job)) == (6, 6, 0, 0)
    assert "waits_for" not in Job.objects.get(pk=run.job.pk).params


def test_a_run_says_why_the_look_alikes_it_waits_for_were_not_found():
    run, _ = stalled()
    jobs.run(run.job.pk)
    Job.objects.filter(kind="catalog").update(state="failed", error="the encoder is not there")
    job = jobs.run(run.job.pk)
    assert (job.state, job.error_code) == ("failed", "no_neighbours")
    assert "the encoder is not there" in job.error
    synthesis_resume(run)
    assert jobs.run(run.job.pk).state == "queued"  # they are looked for again
    assert Job.objects.filter(kind="catalog", state="queued").count() == 1


def test_a_command_finds_the_look_alikes_itself_where_no_worker_does(settings):
    run, _ = stalled()
    settings.JOB_HANDLERS |= {"catalog": (f"{__name__}.find_them", "gpu")}
    assert kept(run_inline(Job.objects.get(pk=run.job.pk), echo=lambda line: None)) == (6, 6, 0, 0)


def find_them(ctx) -> dict:
    for tool in Tool.objects.filter(neighbour_list=None):
        near(tool)
    return {}


def test_an_estimate_still_says_that_look_alikes_are_missing():
    stalled()
    with pytest.raises(TraceError, match="1 tools have no neighbours yet"):
        estimate(branch="rule")
    assert not NeighbourList.objects.filter(tool__name="Added/Get").exists()
