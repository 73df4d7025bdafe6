"""A real worker on the real broker: woken by messages, surviving kill -9, and working without a broker."""

import os
import signal
import subprocess
import sys
import time

import pytest
import redis
from django.conf import settings
from django.db import connection

from trace_site import jobs

ROOT = settings.BASE_DIR


def slow_handler(ctx):
    """Ten steps of 0.2 s; each leaves one audit-like row, so a doubled or lost step shows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM worker_steps WHERE job = %s", [ctx.job.pk])
        done = cursor.fetchone()[0]
    for step in range(done, 10):
        ctx.progress(step, 10)
        time.sleep(0.2)
        with ctx.guard(), connection.cursor() as cursor:
            cursor.execute("INSERT INTO worker_steps VALUES (%s, %s)", [ctx.job.pk, step])
    return {"steps": 10}


def crashing_handler(ctx):
    raise ValueError("a fault of ours")


@pytest.fixture
def worker(transactional_db, settings):
    """start() runs a Celery worker as its own process group on the test database."""
    settings.JOB_HANDLERS = {"slow": ("tests.test_worker.slow_handler", "tests")}
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE worker_steps (job int, step int)")
    running = []

    def start(broker=settings.REDIS_URL):
        database = settings.DATABASES["default"]
        user, host = f"{database['USER']}:{database['PASSWORD']}", f"{database['HOST']}:{database['PORT']}"
        environment = {
            **os.environ,
            "DATABASE_URL": f"postgresql://{user}@{host}/{connection.settings_dict['NAME']}",
            "REDIS_URL": broker,
            "JOB_LEASE_SECONDS": "3",
            "JOB_POLL_SECONDS": "1",
            "DJANGO_SETTINGS_MODULE": "tests.worker_settings",
        }
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "trace_site",
            "--quiet",
            "worker",
            "--pool",
            "threads",
        ]
        command += ["-c", "1", "-Q", "tests", "--without-mingle", "--without-gossip", "--loglevel", "ERROR"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE worker_steps")


def wait_for(job, *states, seconds=40):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        job.refresh_from_db()
        if job.state in states:
            return job
        time.sleep(0.1)
    raise AssertionError(f"{job.progress_line()} after {seconds} s; wanted {states}")


def steps_of(job):
    with connection.cursor() as cursor:
        cursor.execute("SELECT step FROM worker_steps WHERE job = %s ORDER BY step", [job.pk])
        return [step for (step,) in cursor.fetchall()]


def wait_for_step(job):
    deadline = time.monotonic() + 40
    while not steps_of(job):
        assert time.monotonic() < deadline, job.progress_line()
        time.sleep(0.05)


def test_killed_worker_loses_and_doubles_nothing(worker):
    first = worker()
    job = jobs.enqueue("slow", {})
    wait_for_step(job)
    os.killpg(first.pid, signal.SIGKILL)
    worker()
    wait_for(job, "done")
    assert job.attempt == 2 and steps_of(job) == list(range(10))


def test_job_runs_when_the_broker_is_away(worker):
    worker(broker="redis://127.0.0.1:1/0")
    job = jobs.enqueue("slow", {}, wake=False)
    wait_for(job, "done")
    assert steps_of(job) == list(range(10))


def test_an_emptied_broker_a_crash_and_a_full_slot_cost_only_a_poll(worker, settings):
    settings.JOB_HANDLERS["crash"] = ("tests.test_worker.crashing_handler", "tests")
    first = jobs.enqueue("slow", {})
    redis.Redis.from_url(settings.REDIS_URL).flushall()
    worker()
    crashed, second = jobs.enqueue("crash", {}, wake=False), jobs.enqueue("slow", {}, wake=False)
    wait_for(second, "done")
    wait_for(first, "done")
    wait_for(crashed, "failed")
    assert steps_of(first) == steps_of(second) == list(range(10))
    assert crashed.error == "ValueError: a fault of ours"
    # it has one slot
    assert first.finished_at <= second.started_at or second.finished_at <= first.started_at


def test_worker_asked_to_end_gives_its_job_to_the_next_one(worker):
    first = worker()
    job = jobs.enqueue("slow", {})
    wait_for_step(job)
    first.terminate()
    first.wait(timeout=15)
    job.refresh_from_db()
    assert job.state == "queued" and job.attempt == 0
    worker()
    wait_for(job, "done")
    assert steps_of(job) == list(range(10))
