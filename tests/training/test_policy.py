"""A policy counts what changed, starts one retraining at a time, and never the same failure twice."""

import json
import threading
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from catalog.models import Tool
from catalog.services import ledger_update
from synthesis.generate.automatic import loop_save
from synthesis.models import Decision, Sample, Snapshot
from tests.factories import make_rule, make_sample, make_tool
from trace_site import jobs
from trace_site.audit import models as audit_models
from trace_site.audit.models import AuditEntry
from trace_site.lib.errors import TraceError
from trace_site.notices.services import Notice
from trace_site.worker import Worker
from training.models import Retraining, Run
from training.retraining import services
from training.retraining.selectors import standing
from training.runs import stages

pytestmark = pytest.mark.django_db
SNAPSHOT = {"strategy": "append", "per_rule": 2, "branches": ["rrb", "rule"]}


@pytest.fixture(autouse=True)
def home(monkeypatch, settings, tmp_path):
    monkeypatch.setattr(stages, "TRAINER", "tests.training.fake_trainer")
    monkeypatch.delenv("FAKE_TRAINER", raising=False)
    settings.TRACE_HOME, settings.STORE_URL = tmp_path, (tmp_path / "store").as_uri()
    settings.JOB_LEASE_SECONDS = 3600


def policy(**fields):
    values = {
        "name": "line",
        "base": "pocket",
        "format": "a",
        "memo": "m",
        "retrieval": "r+R",
        "active": True,
    }
    limits = {"approved_samples": 2, "changed_rules": 1, "quiet_minutes": 0}
    active = fields.pop("active", True)
    made = services.policy_save(actor=None, snapshot=SNAPSHOT, **{**values, **limits, **fields})
    return services.policy_switch(policy=made, active=active, actor=None)


@pytest.fixture
def rule():
    tools = [make_tool("Pay/GetPayslip"), make_tool("Old/GetSlip")]
    ledger_update()
    return make_rule(*tools, code="PAYSLIP_PERIOD")


def approved(rule, **fields):
    tools = [Tool.objects.get(pk=pk) for pk in rule.published.tool_ids]
    sample = make_sample(rule=rule, tools=tools, human=Sample.Human.APPROVED, **fields)
    Decision.objects.create(sample=sample, policy="test", verdict="approve")
    return sample


def finish():
    """Let the worker do what is queued, in order."""
    for job in jobs.Job.objects.filter(state="queued", kind__in=["retraining", "training"]).order_by("pk"):
        jobs.run(job.pk)


def retrained(row):
    assert services.sweep() == 1
    finish()
    finish()
    return Retraining.objects.filter(policy=row).first()


def test_changed_rule_with_an_approved_sample_starts_snapshot_run_and_the_row_that_says_why(rule):
    row = policy()
    sample = approved(rule)
    made = retrained(row)
    assert made.reasons["changed_rules"] == ["hr/PAYSLIP_PERIOD"] and made.reasons["approved_samples"] == 1
    assert made.run.why == "policy" and made.run.cell == "(a, m, r+R)" and made.run.model
    assert list(made.run.snapshot.members.values_list("sample", flat=True)) == [sample.pk]
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"retraining.started", "retraining.queued", "snapshot.frozen", "run.created"} <= actions
    now = standing(row)
    assert (now.facts.approved, now.facts.taught, now.own) == (0, 0, None) and services.sweep() == 0


def test_rule_without_samples_starts_nothing_and_is_named(rule):
    found = standing(policy())
    assert (found.facts.taught, len(found.rules), found.verdict.due) == (0, 1, False)
    assert [(one.code, one.change, one.taught) for one in found.rules] == [("PAYSLIP_PERIOD", "new", False)]


def test_withdrawn_and_republished_rules_count_as_changed_since_the_last_snapshot(rule):
    row = policy()
    approved(rule)
    retrained(row)
    rule.published = None
    rule.save()
    assert [(one.change, one.was, one.taught) for one in standing(row).rules] == [("withdrawn", 1, True)]
    version = rule.versions.create(
        number=2,
        target_id=rule.versions.get().target_id,
        confusable_ids=[],
        text="Other.",
        content_hash="1" * 64,
    )
    rule.published = version
    rule.save()
    assert [(one.change, one.was, one.now) for one in standing(row).rules] == [("changed", 1, 2)]


def test_samples_approved_since_count_and_those_in_the_snapshot_do_not(rule):
    row = policy(changed_rules=0, approved_samples=2)
    approved(rule)
    assert not standing(row).verdict.due
    approved(rule)
    retrained(row)
    assert standing(row).facts.approved == 0
    approved(rule)
    assert standing(row).facts.approved == 1


def test_rules_count_only_for_a_cell_that_learns_them(rule):
    approved(rule)
    row = policy(retrieval="r")
    assert standing(row).rules == [] and standing(row).facts.approved == 1


def test_change_of_rules_holds_it_back_for_the_quiet_minutes(rule):
    row = policy(quiet_minutes=30)
    approved(rule)
    audit_models.record(actor=None, action="rule.published", obj=rule)
    found = standing(row)
    assert not found.starts_itself and found.verdict.earliest and services.sweep() == 0
    assert "quiet for 30 min: starts at" in found.verdict.keeps[0]


def test_two_policies_and_any_other_training_wait_for_each_other(rule):
    approved(rule)
    policy(name="a")
    policy(name="b")
    assert services.sweep() == 1
    assert jobs.Job.objects.filter(kind="retraining").count() == 1
    assert services.sweep() == 0


def test_policy_that_is_off_is_only_started_by_a_person(rule, user_with):
    admin = user_with("admin")
    row = policy(active=False)
    approved(rule)
    assert services.sweep() == 0
    services.start(policy=row, actor=admin)
    with pytest.raises(TraceError, match="retraining line: snapshot and run is queued"):
        services.start(policy=row, actor=admin)
    finish()
    made = Retraining.objects.get()
    assert made.actor == admin and made.run.created_by == admin
    assert Notice.objects.get(recipient=admin).text.startswith("Retraining line started")


def test_retraining_killed_before_its_row_is_written_makes_one_run(rule, monkeypatch):
    from training.retraining import services

    row = policy()
    approved(rule)
    services.sweep()
    job = jobs.Job.objects.get(kind="retraining")
    create = services.run_create

    def killed(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(services, "run_create", killed)
    with pytest.raises(KeyboardInterrupt):
        jobs.run(job.pk)
    assert Snapshot.objects.count() == 1 and not Run.objects.exists()
    monkeypatch.setattr(services, "run_create", create)
    jobs.run(job.pk)
    jobs.Job.objects.filter(pk=job.pk).update(state="queued")  # the reaper believes it dead once more
    jobs.run(job.pk)
    assert (Snapshot.objects.count(), Run.objects.count(), Retraining.objects.count()) == (1, 1, 1)
    assert Retraining.objects.get().policy == row


def test_failed_build_is_shown_told_once_and_not_tried_again_until_something_changes(rule, user_with):
    admin = user_with("admin")
    row = policy()
    approved(rule)
    services.sweep()
    Sample.objects.update(human=Sample.Human.REJECTED)
    finish()
    Sample.objects.update(human=Sample.Human.APPROVED)
    assert jobs.Job.objects.get(kind="retraining").state == "failed"
    for _ in range(3):
        assert services.sweep() == 0
    found = standing(row)
    assert found.failed and "no approved sample fits" in found.verdict.keeps[-1]
    assert Notice.objects.filter(recipient=admin, text__contains="built no snapshot").count() == 1
    approved(rule)
    assert services.sweep() == 1


def test_failed_run_does_not_count_as_trained(rule, monkeypatch):
    row = policy()
    approved(rule)
    monkeypatch.setenv("FAKE_TRAINER", json.dumps({"error_at": 2}))
    assert services.sweep() == 1
    finish()
    finish()
    found = standing(row)
    assert found.last is None and found.facts.approved == 1 and services.sweep() == 0
    assert found.verdict.keeps[0].startswith("The last run made no model")


def test_cell_or_options_that_make_no_sense_are_refused():
    with pytest.raises(TraceError, match="learns neither"):
        policy(retrieval="none")
    with pytest.raises(TraceError, match="stage2.speed"):
        policy(recipe={"stage2": {"speed": 1}})
    policy()
    with pytest.raises(TraceError, match="another policy has this name"):
        policy()


def test_recipe_of_a_policy_is_the_default_with_its_own_fields():
    found = services.policy_recipe(policy(recipe={"stage2": {"epochs": 7}}, seed=3))
    default = stages.default_recipe("pocket")
    assert (found.stage2.epochs, found.stage2.lr, found.seed) == (7, default.stage2.lr, 3)


def test_number_of_queries_of_a_standing_is_constant(rule, django_assert_max_num_queries):
    row = policy()
    approved(rule)
    retrained(row)
    for _ in range(5):
        approved(rule)
    with django_assert_max_num_queries(16):
        standing(row)


def test_busy_machine_keeps_it_until_the_load_is_below_the_limit(rule):
    loop_save(actor=None, most_load=0.75)
    row = policy()
    approved(rule)
    unknown = ["No worker that trains is alive, so nobody knows how busy its machine is."]
    assert services.sweep() == 0 and standing(row).verdict.keeps == unknown
    worker = Worker.objects.create(name="gpu:1", queues=["gpu"], hardware={"cores": 2, "load": 1.5})
    assert services.sweep() == 0
    assert standing(row).verdict.keeps == [
        "The machine is busy: load 0.75 per core over the last minute, starts below 0.75."
    ]
    Worker.objects.filter(pk=worker.pk).update(hardware={"cores": 2, "load": 1.4})
    assert services.sweep() == 1


def test_person_starts_it_on_a_busy_machine_and_with_training_switched_off(rule, user_with):
    loop_save(actor=None, most_load=0.1, train=False)
    Worker.objects.create(name="gpu:1", queues=["gpu"], hardware={"cores": 1, "load": 3.0})
    row = policy()
    approved(rule)
    assert services.sweep() == 0 and len(standing(row).verdict.keeps) == 2
    assert services.start(policy=row, actor=user_with("admin")).state == "queued"


def test_whatever_the_training_worker_does_keeps_it(rule):
    row = policy()
    approved(rule)
    job = jobs.enqueue("evaluation", {"model": None}, title="evaluate model 1", wake=False)
    assert services.sweep() == 0
    assert standing(row).verdict.keeps == [f"job {job.pk} (evaluate model 1) is queued: one at a time."]
    jobs.cancel(job)
    assert services.sweep() == 1


def test_rule_that_is_being_read_is_waited_for_a_day_at_most(rule):
    row = policy()
    first = approved(rule)
    tools = [Tool.objects.get(pk=pk) for pk in rule.published.tool_ids]
    waiting = make_sample(rule=rule, tools=tools)
    assert (
        services.sweep() == 0
        and "1 sample of a rule that is being read waits" in standing(row).verdict.keeps[0]
    )
    Sample.objects.filter(pk=waiting.pk).update(created_at=first.created_at - timedelta(days=2))
    assert services.sweep() == 1


def test_rule_with_as_many_approved_samples_as_a_snapshot_takes_is_not_waited_for(rule):
    policy()
    for _ in range(SNAPSHOT["per_rule"]):
        approved(rule)
    make_sample(rule=rule, tools=[Tool.objects.get(pk=pk) for pk in rule.published.tool_ids])
    assert services.sweep() == 1


def test_policy_that_trained_nothing_yet_is_measured_against_what_a_person_trained(rule):
    row = policy(active=False)
    approved(rule)
    retrained_by_hand = services.start(policy=row, actor=None)
    finish()
    finish()
    assert retrained_by_hand.pk
    other = policy(name="other")
    assert standing(other).last.run == Retraining.objects.get().run
    assert services.sweep() == 0
    approved(rule)
    assert standing(other).facts.approved == 1


def test_dry_run_says_what_keeps_each_policy(rule, capsys):
    policy()
    call_command("retrain", dry_run=True, json=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("line: not due: Too little has changed")
    assert json.loads(lines[-1])["policies"][0]["untaught_rules"] == ["hr/PAYSLIP_PERIOD"]
    with pytest.raises(CommandError, match="there is no policy 'none'. The policies are: line"):
        call_command("retrain", policy="none")


def test_command_trains_one_policy_to_its_model(rule, capsys):
    approved(rule)
    policy(active=False)
    call_command("retrain", policy="line", json=True)
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["model"] == Retraining.objects.get().run.model.pk


@pytest.mark.django_db(transaction=True)
def test_many_sweepers_at_once_start_one_retraining_of_all_policies(rule):
    for name in "abc":
        policy(name=name)
    approved(rule)
    barrier, started = threading.Barrier(4), []

    def sweeper():
        try:
            barrier.wait()
            for _ in range(3):
                started.append(services.sweep())
        finally:
            connection.close()

    threads = [threading.Thread(target=sweeper) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(started) == 1 and jobs.Job.objects.filter(kind="retraining").count() == 1


@pytest.mark.django_db(transaction=True)
def test_sweeper_and_a_person_at_once_start_one_retraining(rule):
    row = policy()
    approved(rule)
    ends = []

    def person():
        try:
            services.start(policy=row, actor=None)
            ends.append("started")
        except TraceError as error:
            ends.append(error.code)
        finally:
            connection.close()

    with transaction.atomic():
        services.retraining_lock()
        thread = threading.Thread(target=person)
        thread.start()
        assert services.start_if_due(row)
    thread.join()
    assert ends == ["bad_state"] and jobs.Job.objects.filter(kind="retraining").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_start_that_is_not_committed_yet_holds_every_other_sweeper_back(rule):
    policy(name="a")
    second = policy(name="b")
    approved(rule)
    started = []

    def sweeper():
        try:
            started.append(services.sweep())
        finally:
            connection.close()

    with transaction.atomic():
        assert services.retraining_lock() and services.start_if_due(second)
        thread = threading.Thread(target=sweeper)
        thread.start()
        thread.join(timeout=20)
    thread.join()
    assert started == [0] and jobs.Job.objects.filter(kind="retraining").count() == 1
