"""What published rules lack is written by itself: once, for these rules alone, and within a budget."""

import threading

import pytest
from django.db import connection

from rules.models import Rule
from synthesis.generate import automatic, regeneration
from synthesis.generate.automatic import loop_save, payable, standing, sweep
from synthesis.generate.planning import AUTOMATIC
from synthesis.generate.services import synthesis_start
from synthesis.models import LoopSettings, ModelCall, Regeneration, Sample, SynthesisRun
from synthesis.review import services as review_services
from tests.factories import make_rule, make_tool, thawed
from tests.synthesis.rows import make_book, publish, run_job
from trace_site import jobs
from trace_site.audit.models import AuditChange, AuditEntry
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db
MONTHS_CALLS = {"calls": 1000}


@pytest.fixture
def on(db):
    return loop_save(actor=None, write=True, per_rule=6)


def only_run() -> SynthesisRun:
    return SynthesisRun.objects.select_related("job").get()


def test_published_rule_gets_one_run_that_writes_what_it_lacks_and_no_second_one(on):
    version = make_book()
    assert sweep() == 1 and sweep() == 0
    run = only_run()
    assert run.params[AUTOMATIC] == [version.pk] and run.params["outdated"] == "keep"
    assert (run.writer, run.created_by) == ("offline", None)
    run_job(run.job)
    assert Sample.objects.filter(rule_version=version, machine="ready").count() == 6
    assert sweep() == 0 and standing().due == {}


def test_new_version_of_a_rule_is_written_for_and_a_rule_that_has_enough_is_left_alone(on):
    make_book()
    run_job(synthesis_start(branch="rule", per_rule=6, wake=False).job)
    assert sweep() == 0
    second = publish(2)
    assert sweep() == 1
    run = SynthesisRun.objects.order_by("-pk").first()
    run_job(run.job)
    assert set(run.samples.values_list("rule_version", flat=True)) == {second.pk}


def test_run_writes_for_its_own_rules_only(on):
    version = make_book()
    sweep()
    other = Rule.objects.create(code="OTHER", domain=version.rule.domain)
    fields = ("target_id", "confusable_ids", "text", "clauses")
    later = other.versions.create(
        number=1, content_hash="other", **{name: getattr(version, name) for name in fields}
    )
    Rule.objects.filter(pk=other.pk).update(published=later)
    run_job(only_run().job)
    assert not Sample.objects.filter(rule_version=later).exists()
    assert list(standing().due) == [later.pk]


def test_withdrawn_or_never_published_version_is_not_due(on):
    version = make_book()
    Rule.objects.update(published=None)
    assert standing().due == {} and sweep() == 0
    Rule.objects.update(published=version)
    assert standing().due == {version.pk: 6}


def test_killed_run_goes_on_and_is_not_started_a_second_time(on, monkeypatch):
    make_book()
    sweep()
    job = only_run().job

    def killed(*_, **__):
        raise AssertionError("a second run")

    monkeypatch.setattr(automatic, "queue_run", killed)
    jobs.claim(job.pk).close()
    Job.objects.filter(pk=job.pk).update(lease_until="2000-01-01T00:00Z")
    assert sweep() == 0
    jobs.reap()
    assert sweep() == 0
    run_job(job)
    assert sweep() == 0 and Sample.objects.filter(machine="ready").count() == 6


def test_failed_run_is_left_to_people(on):
    make_book()
    sweep()
    Job.objects.update(state="failed", error="no disk")
    assert sweep() == 0 and standing().due == {}


@pytest.mark.parametrize("row", [True, False])
def test_switched_off_or_never_set_up_nothing_is_written(row):
    if row:
        loop_save(actor=None, write=False)
    make_book()
    assert sweep() == 0 and standing().keeps == ["Writing by itself is switched off."]
    assert not SynthesisRun.objects.exists()


def test_it_waits_for_every_other_run_and_says_for_which(on):
    make_book()
    other = synthesis_start(branch="rrb", anchors=1, wake=False)
    assert sweep() == 0 and standing().keeps == [f"Synthesis {other.pk} (rrb) is under way: one at a time."]
    jobs.cancel(other.job)
    assert sweep() == 1


def test_two_sweepers_at_once_start_one_run(transactional_db):
    loop_save(actor=None, write=True, per_rule=6)
    make_book()
    barrier, started = threading.Barrier(3), []

    def sweeper():
        try:
            barrier.wait()
            started.append(sweep())
        finally:
            connection.close()

    threads = [threading.Thread(target=sweeper) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(started) == [0, 0, 1] and SynthesisRun.objects.count() == 1


def test_no_language_model_is_asked_before_an_admin_set_a_budget(llm):
    loop_save(actor=None, write=True, per_rule=6)
    make_book()
    assert sweep() == 0 and "no admin has said what automatic runs may spend" in standing().keeps[0]
    loop_save(actor=None, budget=MONTHS_CALLS)
    assert sweep() == 1
    run = only_run()
    assert run.writer == "llm:tester" and run.params["budget"] == MONTHS_CALLS
    run_job(run.job)
    assert Sample.objects.filter(machine="ready", writer="llm:tester").count() == 6
    spent = ModelCall.objects.count()
    assert standing().left == {"calls": 1000 - spent} and llm.requests


def test_spent_budget_and_one_that_is_too_small_keep_it_and_say_so(llm):
    loop_save(actor=None, write=True, per_rule=6, budget={"calls": 5})
    make_book()
    assert sweep() == 0 and "More is needed than what" in standing().keeps[0]
    loop_save(actor=None, budget=MONTHS_CALLS)
    sweep()
    run_job(only_run().job)
    publish(2)
    loop_save(actor=None, budget={"calls": ModelCall.objects.count()})
    assert sweep() == 0 and "is spent: " in standing().keeps[0]
    with thawed():
        ModelCall.objects.update(sent_at="2020-01-31T00:00Z")  # another month's
    loop_save(actor=None, budget=MONTHS_CALLS)
    assert standing().left == MONTHS_CALLS and sweep() == 1


def test_what_one_run_writes_for_is_all_that_the_budget_must_cover(llm, monkeypatch):
    monkeypatch.setattr(automatic, "AT_ONCE", 1)
    make_book()
    for _ in range(5):
        make_rule(make_tool(), make_tool())
    loop_save(actor=None, write=True, per_rule=6, budget={"calls": 20})
    assert len(standing().due) == 6 and standing().keeps == [] and sweep() == 1


def test_money_pays_for_nothing_where_no_price_is_set(llm, settings):
    loop_save(actor=None, write=True, per_rule=6, budget={"money": 5.0})
    make_book()
    assert sweep() == 0 and payable() is None
    assert standing().keeps[0].endswith("so a budget of money alone limits nothing.")
    settings.LLM_GENERATOR_PRICE_IN = 1.0
    assert sweep() == 1 and only_run().params["budget"] == {"money": 5.0}


def test_what_a_run_under_way_may_still_spend_is_given_to_no_other(llm):
    loop_save(actor=None, write=True, per_rule=6, budget=MONTHS_CALLS)
    make_book()
    assert payable() == MONTHS_CALLS
    sweep()
    assert payable() is None
    run_job(only_run().job)
    assert payable() == {"calls": 1000 - ModelCall.objects.count()}


def test_person_starts_runs_without_that_budget_and_they_do_not_count_against_it(llm):
    loop_save(actor=None, write=True, per_rule=6, budget=MONTHS_CALLS)
    make_book()
    run_job(synthesis_start(branch="rule", per_rule=6, writer="llm", wake=False).job)
    assert ModelCall.objects.exists() and standing().left == MONTHS_CALLS


def test_rejected_sample_of_an_automatic_run_is_written_again_on_the_same_budget(llm, user_with):
    loop_save(actor=None, write=True, per_rule=6, budget=MONTHS_CALLS)
    make_book()
    sweep()
    run_job(only_run().job)
    sample = Sample.objects.filter(machine="ready").first()
    reject = {"reason": "wrong_tool", "note": "no", "follow_up": "regenerate"}
    review_services.reject(sample=sample, reviewer=user_with("reviewer"), **reject)
    spent = ModelCall.objects.count()
    loop_save(actor=None, budget={"calls": spent})
    assert regeneration.start(wake=False) == [] and Regeneration.objects.get().state == "waiting"
    loop_save(actor=None, budget={"calls": spent + 50})
    (again,) = regeneration.start(wake=False)
    assert again.params["budget"] == {"calls": 50} and AUTOMATIC in again.params
    run_job(again.job)
    assert standing().left == {"calls": spent + 50 - ModelCall.objects.count()}


def test_settings_are_checked_audited_and_kept_only_when_they_change(user_with):
    admin = user_with("admin")
    row = loop_save(actor=admin, write=True, budget={"calls": 10})
    assert (row.changed_by, row.budget) == (admin, {"calls": 10})
    loop_save(actor=None, write=True)
    entry = AuditEntry.objects.get(action="loop.changed")
    assert entry.detail["was"]["write"] is False and entry.detail["now"]["write"] is True
    assert AuditChange.objects.filter(table_name="synthesis_loopsettings", operation="UPDATE").count() == 1
    for wrong in ({"per_rule": 0}, {"budget": {"calls": -1}}, {"most_load": 99.0}):
        with pytest.raises(TraceError):
            loop_save(actor=admin, **wrong)
    assert LoopSettings.now().budget == {"calls": 10}


def test_standing_takes_as_many_queries_for_many_rules(on, django_assert_num_queries):
    version = make_book()
    with django_assert_num_queries(5):
        standing()
    for number in range(5):
        rule = Rule.objects.create(code=f"R{number}", domain=version.rule.domain)
        made = rule.versions.create(
            number=1, target=version.target, confusable_ids=version.confusable_ids, text="x", content_hash="x"
        )
        Rule.objects.filter(pk=rule.pk).update(published=made)
    with django_assert_num_queries(5):
        assert len(standing().due) == 6
