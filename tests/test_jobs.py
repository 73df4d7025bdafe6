"""The job engine: one owner at a time, nothing lost, nothing written by a worker that lost its lease."""

import time
from datetime import timedelta

import pytest
from celery import Celery
from django.db import DatabaseError, transaction
from django.db.models.functions import Now

from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.celery import wake_worker
from trace_site.commands import run_inline
from trace_site.lib.errors import TraceError

calls: list[dict] = []


def ok_handler(ctx):
    ctx.progress(1, 2, "half")
    calls.append(ctx.params)
    return {"seen": ctx.params}


def failing_handler(ctx):
    raise TraceError("the file is gone.", code="no_such_file", hint="Upload it again.")


def stopping_handler(ctx):
    for done in range(8):
        ctx.progress(done, 10, "writing")
    raise TraceError("stopped at its budget.", code="llm_budget")


def crashing_handler(ctx):
    raise ValueError("a\0b \ud800")


def overtaken_handler(ctx):
    jobs.Job.objects.filter(pk=ctx.job.pk).update(lease_until=Now() - timedelta(seconds=1))
    jobs.reap()
    jobs.claim(ctx.job.pk).close()
    with ctx.guard():
        calls.append({"written": "by a worker without the lease"})
    return {}


@pytest.fixture(autouse=True)
def handlers(settings):
    calls.clear()
    settings.JOB_HANDLERS = {
        "ok": ("tests.test_jobs.ok_handler", "default"),
        "failing": ("tests.test_jobs.failing_handler", "default"),
        "stopping": ("tests.test_jobs.stopping_handler", "default"),
        "crashing": ("tests.test_jobs.crashing_handler", "default"),
        "overtaken": ("tests.test_jobs.overtaken_handler", "default"),
    }


@pytest.mark.django_db
def test_job_runs_to_done_with_its_result_and_progress():
    job = jobs.run(jobs.enqueue("ok", {"n": 1}, wake=False).pk)
    assert (job.state, job.result, job.done, job.total) == ("done", {"seen": {"n": 1}}, 1, 2)


@pytest.mark.django_db
def test_job_that_is_claimed_is_not_claimed_again():
    job = jobs.enqueue("ok", {}, wake=False)
    first = jobs.claim(job.pk)
    assert first is not None and jobs.claim(job.pk) is None and jobs.run(job.pk) is None
    first.close()


@pytest.mark.django_db
def test_same_idempotency_key_returns_the_first_job():
    first = jobs.enqueue("ok", {"n": 1}, idempotency_key="k", wake=False)
    assert jobs.enqueue("ok", {"n": 2}, idempotency_key="k", wake=False).pk == first.pk


@pytest.mark.django_db
def test_failed_job_says_why_and_can_be_retried():
    job = jobs.run(jobs.enqueue("failing", {}, wake=False).pk)
    assert (job.state, job.error) == ("failed", "the file is gone. Upload it again.")
    assert jobs.retry(job) and not jobs.retry(job)
    assert jobs.cancel(job) and not jobs.cancel(job)
    actions = audit_models.AuditEntry.objects.filter(object_id=str(job.pk)).values_list("action", flat=True)
    assert sorted(actions) == ["job.cancelled", "job.resumed"]


@pytest.mark.django_db
def test_a_job_that_ends_early_tells_how_far_it_came():
    """Progress is written twice a second; what came after the last time must not be lost."""
    job = jobs.run(jobs.enqueue("stopping", {}, wake=False).pk)
    assert (job.state, job.done, job.total) == ("failed", 7, 10)


@pytest.mark.django_db
def test_crash_is_recorded_even_in_words_that_no_database_stores():
    job = jobs.enqueue("crashing", {}, wake=False)
    with pytest.raises(ValueError):
        jobs.run(job.pk)
    job.refresh_from_db()
    assert (job.state, job.error, job.error_code) == ("failed", "ValueError: ab ?", "crash")


@pytest.mark.django_db
def test_expired_lease_goes_back_to_the_queue_and_is_quarantined_after_three_deaths():
    job = jobs.enqueue("ok", {}, wake=False)
    for _ in range(3):
        jobs.claim(job.pk).close()
        jobs.Job.objects.filter(pk=job.pk).update(lease_until=Now() - timedelta(seconds=1))
        assert jobs.reap() == 1
    job.refresh_from_db()
    assert job.state == "quarantined" and "died 3 times" in job.error


@pytest.mark.django_db
def test_worker_that_lost_its_lease_writes_nothing():
    job = jobs.run(jobs.enqueue("overtaken", {}, wake=False).pk)
    assert calls == [] and job.state == "running" and job.attempt == 2


@pytest.mark.django_db
def test_queued_job_is_cancelled_at_once_and_never_runs():
    job = jobs.enqueue("ok", {}, wake=False)
    assert jobs.cancel(job) and jobs.run(job.pk) is None and calls == []


@pytest.mark.django_db
def test_running_job_stops_at_its_next_progress_after_a_cancel():
    job = jobs.enqueue("ok", {}, wake=False)
    context = jobs.claim(job.pk)
    assert jobs.cancel(job)
    with pytest.raises(jobs.JobCancelled):
        context.progress(1, 2)
    context.close()


@pytest.mark.django_db
def test_process_that_ends_gives_its_job_back_without_losing_an_attempt():
    job = jobs.enqueue("ok", {}, wake=False)
    jobs.stopping.set()
    try:
        job = jobs.run(job.pk)
    finally:
        jobs.stopping.clear()
    assert (job.state, job.attempt) == ("queued", 0)


@pytest.mark.django_db
def test_run_inline_raises_the_error_of_a_failed_job():
    with pytest.raises(TraceError, match="the file is gone"):
        run_inline(jobs.enqueue("failing", {}, wake=False), echo=lambda line: None)


@pytest.mark.django_db
def test_audit_entries_cannot_be_changed_or_deleted(user_with):
    audit_models.record(actor=user_with("admin"), action="test", obj=jobs.enqueue("ok", {}, wake=False))
    for change in (lambda e: e.update(action="other"), lambda e: e.delete()):
        with pytest.raises(DatabaseError, match="frozen"), transaction.atomic():
            change(audit_models.AuditEntry.objects.all())


def waiting_handler(ctx):
    if ctx.params.get("cancelled"):
        jobs.cancel(jobs.Job.objects.get(pk=ctx.job.pk))
    raise jobs.JobPostponed("waits for another job")


@pytest.mark.django_db
def test_job_that_waits_for_another_goes_back_to_the_queue_without_losing_an_attempt(settings):
    settings.JOB_HANDLERS = {"waiting": ("tests.test_jobs.waiting_handler", "default")}
    job = jobs.run(jobs.enqueue("waiting", {}, wake=False).pk)
    assert (job.state, job.attempt, job.note) == ("queued", 0, "waits for another job")
    job = jobs.run(jobs.enqueue("waiting", {"cancelled": True}, wake=False).pk)
    assert job.state == "cancelled"


def refusing_handler(ctx):
    if ctx.waited_for is not None:
        raise TraceError("what it waited for failed.", code="no_neighbours")
    return {}


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["cancelled", "failed", "quarantined"])
def test_a_job_that_is_resumed_has_forgotten_what_it_waited_for(settings, state):
    settings.JOB_HANDLERS = {"refusing": ("tests.test_jobs.refusing_handler", "default")}
    job = jobs.enqueue("refusing", {"run": 7, "waits_for": 1}, wake=False)
    jobs.Job.objects.filter(pk=job.pk).update(state=state)
    assert jobs.retry(job)
    done = jobs.run(job.pk)
    assert (done.state, done.params) == ("done", {"run": 7})


@pytest.mark.django_db
def test_poll_passes_over_a_job_that_waits_and_runs_the_next(settings, monkeypatch):
    from trace_site import worker

    settings.JOB_HANDLERS |= {"waiting": ("tests.test_jobs.waiting_handler", "default")}
    monkeypatch.setattr(worker.connection, "close", lambda: None)  # this test's own connection
    kinds = ("waiting", "ok", "ok")
    waiting, first, second = (jobs.enqueue(kind, {}, wake=False) for kind in kinds)
    worker.slots.acquire()
    worker._run_polled([waiting.pk, first.pk, second.pk])
    states = [jobs.Job.objects.get(pk=job.pk).state for job in (waiting, first, second)]
    assert states == ["queued", "done", "queued"]


def test_nobody_waits_for_a_broker_that_is_away(settings, monkeypatch):
    away = Celery("away", broker="redis://127.0.0.1:1/0")
    away.conf.broker_transport_options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    monkeypatch.setattr("trace_site.celery.app", away)
    began = time.monotonic()
    assert wake_worker("deliver") is not None
    assert time.monotonic() - began < 10
