"""The demo's later steps, with workers that take no time: killed at any moment and started again they end the same, and
what fails is said and leaves the site running."""

import io
from collections import Counter
from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from synthesis.models import Snapshot, SynthesisRun
from tests.factories import make_evaluation, make_gate_report, make_model, make_snapshot, make_tool
from trace_site import jobs
from trace_site.dev.terminal import Progress
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.management.commands import demo
from trace_site.people.services import ensure_demo_users
from training.models import AliasMove, Model, Run

pytestmark = pytest.mark.django_db
KINDS = ("synthesis", "snapshot", "training", "evaluation", "gate")


class Killed(BaseException):
    """No more steps."""


def work(ctx):
    """What a worker makes of each kind of job."""
    match ctx.job.kind:
        case "snapshot":
            make_snapshot()
        case "training":
            make_model(run=Run.objects.get(pk=ctx.params["run"]))
        case "evaluation" if ctx.params["model"] is None:
            make_evaluation((make_tool(), []), decode="embedding", model=None)
        case "gate":
            make_gate_report(Model.objects.get(pk=ctx.params["model"]), verdict="cannot tell")
    return {}


@pytest.fixture(autouse=True)
def workers(settings, monkeypatch):
    settings.JOB_HANDLERS = dict.fromkeys(KINDS, ("tests.test_demo.work", "default"))
    settings.JOB_LEASE_SECONDS = 3600  # the heartbeat's own connection does not see this test's transaction
    monkeypatch.setattr(demo, "send_wake", lambda job: None)
    ensure_demo_users()
    demo.order_rule_samples()


def command():
    found = demo.Command()
    found.ends, found.started, found.logins = False, 0.0, []
    found.out = io.StringIO()
    found.progress = Progress(found.out)
    return found


def drive(steps, looks=1000):
    """At each look the workers do what is queued; whether the steps came to their end within so many looks."""
    for number, _ in enumerate(steps, start=1):
        if number == looks:
            return False
        for job in Job.objects.filter(state="queued"):
            jobs.run(job.pk)
    return True


def check_the_end():
    """One champion, two models compared, and nothing done twice."""
    moves = AliasMove.objects.values_list("alias", "model__run__retrieval", "note")
    assert list(moves) == [("champion", "r+R", "the demo's first champion")]
    assert [of.objects.count() for of in (SynthesisRun, Snapshot, Model)] == [3, 1, 2]
    assert Counter(Job.objects.values_list("kind", flat=True)) == {
        "synthesis": 3,
        "snapshot": 1,
        "training": 2,
        "evaluation": 3,  # the models and plain search
        "gate": 2,
    }
    assert not Job.objects.exclude(state="done").exists()


def test_it_ends_with_a_champion_and_a_model_to_compare_it_with():
    assert drive(command().train_in_view())
    check_the_end()


@pytest.mark.parametrize("looks", range(1, 10))
def test_killed_while_a_job_is_under_way_it_ends_the_same(looks):
    assert not drive(command().train_in_view(), looks)
    assert drive(command().train_in_view())
    check_the_end()


@pytest.mark.parametrize("steps", range(1, 14))
def test_killed_between_two_steps_it_ends_the_same(steps, monkeypatch):
    begun = []

    def begin(self, *step):
        begun.append(step)
        if len(begun) == steps:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "begin", begin)
        with pytest.raises(Killed):
            drive(command().train_in_view())
    assert drive(command().train_in_view())
    check_the_end()


def test_a_job_that_was_killed_with_the_demo_time_and_again_is_not_quarantined():
    job = demo.ordered("rule")
    for _ in range(5):
        Job.objects.filter(pk=job.pk).update(
            state="running", attempt=F("attempt") + 1, lease_until=Now() - timedelta(seconds=1)
        )
        demo.excuse_running_jobs()
        jobs.reap()
        job.refresh_from_db()
        assert job.state == "queued"


def test_a_second_run_has_nothing_to_do():
    drive(command().train_in_view())
    second = command()
    assert list(second.train_in_view()) == [] and second.out.getvalue() == ""


def test_every_step_is_one_line_and_the_end_says_what_was_reached():
    found = command()
    drive(found.train_in_view())
    lines = found.out.getvalue().splitlines()
    assert len(lines) == len(found.later_steps()) + 2
    assert lines[-2].startswith("All steps are done") and "/evaluation/before-after/" in lines[-1]


def test_a_job_that_failed_is_said_and_tried_again_by_the_next_demo(monkeypatch):
    def fail(ctx):
        raise TraceError("the disk is full.", code="job_failed")

    found = command()
    with monkeypatch.context() as patched:
        patched.setattr("tests.test_demo.work", fail)
        assert drive(found.meanwhile())  # it raises nothing: the site goes on
    assert "error: the disk is full." in found.out.getvalue()
    assert drive(command().train_in_view())
    check_the_end()


def test_a_demo_that_ends_by_itself_fails_with_its_job(monkeypatch):
    found = command()
    found.ends = True
    steps = found.meanwhile()
    next(steps)
    Job.objects.filter(kind="evaluation").update(state="cancelled")
    with pytest.raises(TraceError, match="was cancelled"):
        next(steps)


def test_passwords_are_not_written_where_nobody_looks():
    found = command()
    found.logins = ensure_demo_users()
    next(found.meanwhile())
    told = found.out.getvalue()
    assert all(login["username"] in told and login["password"] not in told for login in found.logins)
