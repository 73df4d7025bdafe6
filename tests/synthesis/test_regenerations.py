"""A rejection with a critique becomes one new sample in the same slot: who is told what, how often, and when."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models.functions import Now

from rules.models import Rule
from synthesis.core.filters import query_failures
from synthesis.core.keys import seed_again
from synthesis.core.queries import AXES, Verdict, carries_permissions
from synthesis.core.recipe import default_recipe
from synthesis.generate import pipeline, regeneration
from synthesis.generate.planning import plan_counts
from synthesis.generate.services import synthesis_start
from synthesis.models import Regeneration, ReviewItem, Sample, SecondShare, SynthesisRun
from synthesis.offline.judge import OfflineJudge
from synthesis.offline.writer import TemplateQueryWriter, TemplateTraceWriter
from synthesis.review import services as review_services
from synthesis.samples.staleness import stale_map
from tests.synthesis.rows import run_job
from tests.synthesis.test_incremental_runs import counted, edit_rule, make_catalog, plan_only, run
from trace_site import jobs
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("every_draft_passes")]


@pytest.fixture
def told(monkeypatch) -> list[tuple[str, str, int]]:
    """(stage, critique, attempt) of everything the writers are asked."""
    heard: list[tuple[str, str, int]] = []
    for stage, writer in (("query", TemplateQueryWriter), ("trace", TemplateTraceWriter)):
        real = writer.write

        async def write(self, request, stage=stage, real=real):
            heard.append((stage, request.critique, request.attempt))
            return await real(self, request)

        monkeypatch.setattr(writer, "write", write)
    return heard


def person(name: str = "rita") -> User:
    return User.objects.get_or_create(username=name)[0]


def reject(sample: Sample, reason: str = "unclear", note: str = "both years fit", **options: Any) -> Sample:
    asked = {"reviewer": person(), "follow_up": "regenerate", **options}
    return review_services.reject(sample=sample.pk, reason=reason, note=note, **asked)


def one_rule() -> Sample:
    """A rule with six samples; one of them."""
    make_catalog(1)
    run()
    return Sample.objects.filter(style="explicit").earliest("pk")


def write_again() -> list[SynthesisRun]:
    runs = regeneration.start(wake=False)
    for one in runs:
        run_job(one.job)
    return runs


def last() -> Sample:
    return Sample.objects.latest("pk")


def test_a_rejected_sample_is_written_again_in_its_slot_told_why(told):
    old = one_rule()
    told.clear()
    reject(old)
    asked = Regeneration.objects.get()
    assert (asked.state, asked.sample_id, asked.critique) == (
        "waiting",
        old.pk,
        "Several tools fit: both years fit.",
    )
    (made,) = write_again()
    new = last()
    assert (new.slot, new.rule_version_id, new.style) == (old.slot, old.rule_version_id, old.style)
    assert new.key != old.key and new.query != old.query and new.machine == "ready"
    assert new.made_from["again"] == {"of": old.pk, "critique": asked.critique, "refused": [old.query]}
    assert told == [("query", asked.critique, 1), ("trace", asked.critique, 1)]
    asked.refresh_from_db()
    assert (asked.state, asked.replacement, asked.run) == ("written", new, made)
    assert ReviewItem.objects.get(sample=new).state == "open"


def test_the_run_has_branch_writer_and_recipe_of_the_rejected_ones_and_many_samples():
    old = one_rule()
    for sample in Sample.objects.filter(style="explicit"):
        reject(sample)
    (made,) = write_again()
    assert (made.branch, made.writer, made.seed) == (old.run.branch, old.run.writer, old.run.seed)
    assert made.params["recipe"] == old.run.params["recipe"]
    assert made.samples.count() == 2 == Regeneration.objects.filter(state="written").count()
    assert regeneration.start(wake=False) == []


def test_runs_of_other_options_are_runs_of_their_own():
    old = one_rule()
    other = SynthesisRun.objects.create(
        branch="rule", writer="offline", params={**old.run.params, "budget": {"calls": 5}}
    )
    second = Sample.objects.filter(style="implicit").earliest("pk")
    Sample.objects.filter(pk=second.pk).update(run=other)
    reject(old)
    reject(second)
    assert {one.params["budget"].get("calls") for one in write_again()} == {None, 5}


def test_planning_neither_fills_the_slot_twice_nor_loses_it():
    old = one_rule()
    reject(old)
    nothing = {"new": 0, "content_stale": 0, "outdated": 0, "kept": 6}
    assert counted() == nothing  # it waits: the slot is spoken for
    before = last().pk
    assert run()["written"] == 0
    write_again()
    assert counted() == nothing
    for seed in (1, 2):
        assert run(seed=seed)["written"] == 0
    assert last().slot == old.slot and last().pk > before


def test_another_recipe_does_not_write_over_what_waits_with_its_critique():
    old = one_rule()
    reject(old)
    recipe = default_recipe()
    strict = replace(recipe, judge=replace(recipe.judge, thresholds={**recipe.judge.thresholds, "label": 5}))
    assert counted(recipe=strict) == {"new": 0, "content_stale": 0, "outdated": 5, "kept": 1}
    edit_rule("RULE_0")
    assert counted(recipe=strict)["content_stale"] == 6


def test_a_dropped_rejection_leaves_the_next_index_to_the_next_run():
    old = one_rule()
    reject(old, follow_up="drop")
    assert not Regeneration.objects.exists()
    run()
    assert last().slot == "rule:hr:RULE_0:explicit:2"


def test_the_new_sample_goes_stale_as_others_do():
    old = one_rule()
    reject(old)
    write_again()
    new = last()
    assert stale_map(Sample.objects.filter(pk=new.pk))[new.pk].level == "current"
    edit_rule("RULE_0")
    assert stale_map(Sample.objects.filter(pk=new.pk))[new.pk].level == "content"
    assert counted() == {"new": 0, "content_stale": 6, "outdated": 0, "kept": 0}
    run()
    assert Sample.objects.filter(slot=old.slot, machine="ready").exclude(human="rejected").count() == 2


def test_a_run_of_rejected_ones_sets_no_new_measure_for_what_is_current():
    old = one_rule()
    reject(old)
    (made,) = write_again()
    made.params["recipe"]["judge"]["thresholds"]["label"] = 5
    made.save()
    assert {one.level for one in stale_map(Sample.objects.exclude(pk=old.pk)).values()} == {"current"}


def test_a_bad_trace_is_written_again_for_the_query_that_was_right(told):
    old = one_rule()
    told.clear()
    reject(old, "bad_trace", "jumps to the end")
    write_again()
    new = last()
    assert (new.query, new.answer, new.explanation) == (old.query, old.answer, old.explanation)
    assert new.key != old.key and new.made_from["again"]["refused"] == []
    assert told == [("trace", "Reasoning does not lead to the answer: jumps to the end.", 1)]


def test_a_kept_query_is_no_duplicate_of_itself(monkeypatch):
    old = one_rule()
    reject(old, "bad_trace")
    monkeypatch.setattr(
        pipeline,
        "query_failures",
        lambda *given: [one for one in query_failures(*given) if one.check == "near_duplicate"],
    )
    write_again()
    assert last().machine == "ready"


def test_the_very_query_that_was_rejected_is_refused(monkeypatch):
    old = one_rule()
    reject(old)
    drafts = iter([old.query, "another query about a payslip"])
    real = TemplateQueryWriter.write

    async def write(self, request):
        return replace(await real(self, request), query=next(drafts))

    monkeypatch.setattr(TemplateQueryWriter, "write", write)
    write_again()
    first, second = last().attempts.order_by("number")
    assert first.outcome == "filtered" and first.filter_failures[0]["message"] == pipeline.REFUSED
    assert second.outcome == "ready"


@pytest.mark.parametrize(
    ("reason", "outcomes"), [("unnatural", ["filtered", "ready"]), ("bad_trace", ["ready"])]
)
def test_what_a_person_rejected_is_not_offered_again_elsewhere_word_for_word(monkeypatch, reason, outcomes):
    """A query whose trace alone was rejected may be."""
    old = one_rule()
    reject(old, reason, follow_up="drop")
    drafts = iter([old.query, "another query about a payslip"])
    real = TemplateQueryWriter.write

    async def write(self, request):
        return replace(await real(self, request), query=next(drafts))

    monkeypatch.setattr(TemplateQueryWriter, "write", write)
    run()
    assert last() != old
    assert list(last().attempts.order_by("number").values_list("outcome", flat=True)) == outcomes


def test_the_critique_of_the_reviewer_is_told_at_every_attempt(told, monkeypatch):
    old = one_rule()
    told.clear()
    reject(old)
    verdicts = iter([1, 5])

    async def judge(self, request):
        return Verdict(request.id, dict.fromkeys(AXES, next(verdicts)), "Say the year.")

    monkeypatch.setattr(OfflineJudge, "judge", judge)
    write_again()
    queries = [(critique, attempt) for stage, critique, attempt in told if stage == "query"]
    assert queries == [
        ("Several tools fit: both years fit.", 1),
        ("Several tools fit: both years fit. Say the year.", 2),
    ]


def test_a_slot_is_written_again_three_times_then_dropped_with_the_reason():
    current = one_rule()
    keys = {current.key}
    for _ in range(regeneration.MOST):
        reject(current)
        write_again()
        current = last()
        keys.add(current.key)
    assert len(keys) == regeneration.MOST + 1
    reject(current)
    asked = Regeneration.objects.latest("pk")
    assert asked.state == "ended" and "3 times" in asked.why and asked.ended_at
    assert regeneration.start(wake=False) == []
    run()
    assert last().slot == "rule:hr:RULE_0:explicit:2"


def test_an_overtaken_rule_version_or_a_vanished_tool_ends_it_with_why():
    old = one_rule()
    reject(old)
    edit_rule("RULE_0")
    before = Sample.objects.count()
    write_again()
    asked = Regeneration.objects.get()
    assert (asked.state, asked.why) == ("ended", "RULE_0 v1 is not the published version any more.")
    assert Sample.objects.count() == before


def test_a_vanished_tool_ends_it_with_why():
    old = one_rule()
    reject(old)
    target = Rule.objects.get().published.target
    target.status = "retired"
    target.save()
    write_again()
    asked = Regeneration.objects.get()
    assert asked.state == "ended" and asked.why


def test_a_newer_sample_in_the_slot_ends_it():
    old = one_rule()
    reject(old)
    edit_rule("RULE_0")
    run()
    Rule.objects.update(published=old.rule_version)
    write_again()
    assert Regeneration.objects.get().why == "A newer sample stands in its place."


def test_what_an_ended_run_planned_in_the_slot_does_not_end_it():
    old = one_rule()
    reject(old)
    edit_rule("RULE_0")
    plan_only(synthesis_start(branch="rule", per_rule=6, seed=1, wake=False))
    Rule.objects.update(published=old.rule_version)
    write_again()
    assert Regeneration.objects.get().state == "written"


def test_a_run_killed_after_its_plan_writes_each_once(monkeypatch):
    for sample in [one_rule(), *Sample.objects.filter(style="implicit")]:
        reject(sample)
    (made,) = regeneration.start(wake=False)
    with monkeypatch.context() as patch:

        def dies(*given, **more):
            raise TraceError("gone", code="llm_unreachable")

        patch.setattr("synthesis.generate.runs._write", dies)
        jobs.run(made.job.pk)
    assert made.samples.count() == 3
    job = Job.objects.get(pk=made.job.pk)
    assert job.state == "failed"
    # neither a fill-up run nor the sweeper takes what the stopped run holds
    assert run()["written"] == 0
    assert regeneration.sweep() == 0
    jobs.retry(job)
    run_job(made.job)
    assert made.samples.filter(machine="ready").count() == 3
    assert Regeneration.objects.filter(state="written").count() == 3


def test_the_button_takes_what_a_stopped_run_holds(monkeypatch):
    old = one_rule()
    reject(old)
    (made,) = regeneration.start(wake=False)
    Job.objects.filter(pk=made.job.pk).update(state=Job.State.CANCELLED)
    (again,) = write_again()
    assert again.pk != made.pk and last().run == again
    jobs.retry(Job.objects.get(pk=made.job.pk))
    assert run_job(made.job)["written"] == 0
    assert Sample.objects.filter(slot=old.slot).count() == 2


def test_what_no_attempt_mends_is_ended_with_its_attempts_kept(monkeypatch):
    old = one_rule()
    reject(old)

    async def judge(self, request):
        return Verdict(request.id, dict.fromkeys(AXES, 1), "no")

    monkeypatch.setattr(OfflineJudge, "judge", judge)
    write_again()
    asked = Regeneration.objects.get()
    assert (asked.state, asked.replacement) == ("ended", last())
    assert last().machine == "dropped" and last().attempts.count() == 6
    assert counted()["new"] == 1


def test_undo_takes_the_request_back_until_a_run_has_it():
    old = one_rule()
    reject(old)
    review_services.undo(reviewer=person())
    assert not Regeneration.objects.exists()
    reject(old)
    regeneration.start(wake=False)
    with pytest.raises(TraceError) as caught:
        review_services.undo(reviewer=person())
    assert caught.value.code == "conflict" and "the rejection stands" in str(caught.value)
    assert Sample.objects.get(pk=old.pk).human == "rejected"


def test_it_starts_by_itself_when_enough_wait_or_one_long_enough(settings):
    old = one_rule()
    reject(old)
    assert regeneration.sweep() == 0
    Regeneration.objects.update(at=Now() - timedelta(minutes=11))
    settings.REVIEW_REGENERATE_COUNT = settings.REVIEW_REGENERATE_MINUTES = 0
    assert regeneration.sweep() == 0
    settings.REVIEW_REGENERATE_MINUTES = 10
    assert regeneration.sweep() == 1
    assert regeneration.sweep() == 0
    reject(Sample.objects.filter(style="implicit").earliest("pk"))
    settings.REVIEW_REGENERATE_COUNT = 1
    assert regeneration.sweep() == 0  # never two at once
    run_job(SynthesisRun.objects.latest("pk").job)
    assert regeneration.sweep() == 1


def test_nobody_starting_an_equal_run_is_answered_with_it():
    old = one_rule()
    reject(old)
    (made,) = regeneration.start(wake=False)
    assert synthesis_start(branch="rule", per_rule=6, anchors=30, seed=1, wake=False) != made


def test_both_refusals_of_two_readers_are_told():
    old = one_rule()
    SecondShare.objects.create(share=1.0)
    reject(old, "unclear", "both years fit", reviewer=person("ann"))
    assert not Regeneration.objects.exists()
    reject(old, "unnatural", "", reviewer=person("bob"))
    told = Regeneration.objects.get().critique
    assert told == "Several tools fit: both years fit. Nobody would type this."


def test_the_new_seed_is_on_the_same_side_of_the_permission_share():
    for seed in range(200):
        new = seed_again(seed, "why", 0.3)
        assert new != seed and carries_permissions(0.3, new) == carries_permissions(0.3, seed)
    assert seed_again(1, "why", 0.3) == seed_again(1, "why", 0.3) != seed_again(1, "how", 0.3)


def test_anchored_queries_are_written_again_too():
    make_catalog(2)
    run("rrb", anchors=4)
    old = Sample.objects.filter(branch="rrb").earliest("pk")
    reject(old)
    before = plan_counts_rrb()
    write_again()
    assert last().slot == old.slot and last().machine == "ready"
    assert plan_counts_rrb() == before == {"new": 0, "kept": 4}


def plan_counts_rrb() -> dict[str, int]:
    params = {"per_rule": 6, "anchors": 4, "domain": ""}
    found = plan_counts(branch="rrb", writer="offline", recipe=default_recipe(), seed=1, params=params)
    return {name: found[name] for name in ("new", "kept")}


def test_the_command_writes_what_waits_and_tells_what_that_takes(capsys):
    reject(one_rule())
    call_command("synthesis_regenerate", estimate=True, json=True)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"waiting": 1, "calls": 0}
    call_command("synthesis_regenerate", json=True)
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told == {"runs": 1, "asked": 1, "written": 1}
