"""Faults of the platform are nobody's mistake: jobs go on by themselves, who asks is told to ask again."""

import errno
from datetime import timedelta
from unittest.mock import patch

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from trace_site import jobs
from trace_site.lib.errors import TraceError
from trace_site.lib.files import write_atomic
from trace_site.outages import outage

pytestmark = pytest.mark.django_db(transaction=True)
left: list[str] = []  # faults that the handler still meets


def terminate() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def terminate_from_outside() -> None:
    settings = connection.get_connection_params()
    with psycopg.connect(
        **{
            name: settings[name]
            for name in ("host", "port", "user", "password", "dbname")
            if name in settings
        }
    ) as own:
        own.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])


def handler(ctx):
    ctx.progress(1, 3)
    fault = left.pop() if left else ""
    if fault == "disk":
        raise OSError(errno.ENOSPC, "No space left on device")
    if fault == "file":
        with patch("os.fsync", side_effect=OSError(errno.ENOSPC, "No space left on device")):
            write_atomic(settings.TRACE_HOME / "half", "written")
    if fault == "store":
        raise TraceError("the store does not answer (ReadTimeout).", code="unavailable")
    if fault == "connection":
        terminate()
    if fault == "after the last row":
        close = psycopg.ServerCursor.close

        def terminate_first(cursor):
            terminate_from_outside()
            close(cursor)

        with patch.object(psycopg.ServerCursor, "close", terminate_first):
            list(Permission.objects.iterator())
    if fault == "in a transaction":
        with ctx.guard():
            terminate()
    if fault == "progress":
        with pytest.raises(Exception, match="terminating connection"):
            terminate()
        ctx.progress(3, 3)
    return {}


@pytest.fixture(autouse=True)
def handlers(settings):
    left.clear()
    settings.JOB_HANDLERS = {"faulty": ("tests.test_outages.handler", "default")}


def enqueued() -> jobs.Job:
    return jobs.enqueue("faulty", {}, wake=False)


@pytest.mark.parametrize(
    "fault", ["connection", "in a transaction", "after the last row", "disk", "file", "store"]
)
def test_a_job_that_the_platform_fails_pauses_and_goes_on_by_itself(fault):
    left.append(fault)
    paused = jobs.run(enqueued().pk)
    assert (paused.state, paused.attempt, paused.faults, paused.error) == ("queued", 0, 1, "")
    assert "goes on by itself" in paused.note
    assert fault != "store" or paused.note.startswith("The store does not answer (ReadTimeout). ")
    assert jobs.run(paused.pk) is None  # not before its pause ends
    jobs.Job.objects.filter(pk=paused.pk).update(not_before=Now() - timedelta(seconds=1))
    assert jobs.run(paused.pk).state == "done"


def test_progress_that_cannot_be_written_ends_no_job():
    left.append("progress")
    assert jobs.run(enqueued().pk).state == "done"


def test_a_fault_that_does_not_pass_is_told_in_the_end_and_can_be_resumed(settings):
    settings.JOB_MAX_FAULTS = 0
    left.append("disk")
    failed = jobs.run(enqueued().pk)
    assert (failed.state, failed.error_code) == ("failed", "disk_full") and "disk is full" in failed.error
    assert jobs.retry(failed) and jobs.run(failed.pk).state == "done"


@pytest.fixture
def without_database():
    connection.close()
    port, connection.settings_dict["PORT"] = connection.settings_dict["PORT"], "1"
    yield
    connection.close()
    connection.settings_dict["PORT"] = port


def test_whoever_asks_while_the_database_is_away_is_told_to_ask_again(user_with, request):
    client = Client(raise_request_exception=False)
    client.force_login(user_with("expert"))
    request.getfixturevalue("without_database")
    headers = {"Idempotency-Key": "one", "Authorization": "Token trs_x"}
    answers = [
        client.get("/healthz"),
        client.get("/rules/"),
        client.post("/rules/new/", {"text": "One."}),
        client.get("/api/v1/rules"),
        client.post("/api/v1/rules/check", {}, content_type="application/json", headers=headers),
        client.post("/api/v1/retrieve", {"query": "x"}, content_type="application/json", headers=headers),
    ]
    assert [(one.status_code, one.headers.get("Retry-After")) for one in answers] == [(503, "2")] * 6
    assert answers[0].json() == {"ok": False, "database": "unreachable"}
    assert "The database is away" in answers[1].text and "Try again" in answers[1].text
    assert ["not saved" in answer.text for answer in answers[1:3]] == [False, True]
    assert all(one.json()["code"] == "unavailable" for one in answers[3:])


def test_a_full_disk_is_no_crash(client, user_with, monkeypatch):
    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    client = Client(raise_request_exception=False)
    client.force_login(user_with("expert"))
    monkeypatch.setattr("trace_site.views.jobs.Job.objects.order_by", full, raising=False)
    answer = client.get("/jobs/")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert "The disk is full" in answer.text


def test_an_error_that_is_the_context_of_its_own_cause_is_read_to_its_end():
    told, cause = TraceError("it failed.", code="write_failed"), KeyError("x")
    told.__cause__, cause.__context__ = cause, told
    assert outage(told) is None


def test_a_mistake_of_ours_is_still_a_crash():
    assert outage(KeyError("x")) is None and outage(OSError(errno.ENOENT, "x")) is None
