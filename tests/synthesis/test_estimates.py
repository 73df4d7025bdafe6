"""What a run would do, before it starts: counted, measured here, or a default that says so."""

import tracemalloc
from uuid import uuid4

import pytest
from django.core.management import call_command

from catalog.models import Tool
from synthesis.generate import services as generate_services
from synthesis.generate.estimates import ROLES, estimate, estimate_new, estimate_reading
from synthesis.generate.forms import SynthesisForm
from synthesis.generate.services import synthesis_start
from synthesis.llm.writers import endpoints, recorded
from synthesis.models import Attempt, Decision, ModelCall, Sample, SynthesisRun
from tests.factories import make_rule, make_sample, make_tool
from tests.synthesis.rows import make_book, run_job
from tests.synthesis.test_planning import make_many_rules
from tests.synthesis.test_runs import NO_PERMISSIONS
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db


def test_offline_estimate_counts_samples_and_asks_nothing():
    make_book()
    found = estimate(branch="rule", per_rule=6)
    assert (found.samples.value, found.calls.value, found.money.value) == (6, 0, 0)
    assert "counted: 6 new" in found.samples.basis and "default" in found.seconds.basis
    assert Sample.objects.count() == SynthesisRun.objects.count() == Job.objects.count() == 0


def test_what_is_there_already_is_not_counted_again():
    make_book()
    run_job(synthesis_start(branch="rule", per_rule=6, wake=False).job)
    assert estimate(branch="rule", per_rule=6).samples.value == 0
    assert estimate(branch="rule", per_rule=9).samples.value == 3
    assert "6 kept" in estimate(branch="rule", per_rule=9).samples.basis


def test_calls_are_a_default_that_knows_of_batches_until_a_run_measured_them(llm, settings):
    make_book()
    chosen = {"branch": "rule", "per_rule": 12, "writer": "llm", "recipe": NO_PERMISSIONS}
    first = estimate(**chosen)
    assert first.calls.value == round((3 + 12 + 12) * 1.25) and "default" in first.calls.basis
    assert "default" in first.tokens.basis and first.money.value is None
    assert not llm.requests
    run_job(synthesis_start(**chosen, wake=False).job)
    assert "default" in estimate(**chosen | {"per_rule": 30}).calls.basis  # 12 samples are too few
    run_job(synthesis_start(**chosen | {"per_rule": 21, "seed": 5}, wake=False).job)
    settings.LLM_GENERATOR_PRICE_IN = settings.LLM_TEACHER_PRICE_IN = 1.0
    tried = Sample.objects.filter(attempts__number=1).count()
    then = estimate(**chosen | {"per_rule": 60})
    assert then.calls.value == round(then.samples.value * ModelCall.objects.count() / tried)
    assert "measured on 2 earlier runs" in then.calls.basis and "measured" in then.tokens.basis
    assert then.money.value > 0
    settings.LLM_JUDGE_MODEL = "another"
    assert "default" in estimate(**chosen | {"per_rule": 60}).calls.basis


def test_tokens_are_those_of_the_models_that_would_be_asked(llm, settings):
    settings.LLM_CONCURRENCY = 4
    make_book()
    others = [{"role": role, "host": "elsewhere", "model": "small"} for role in ROLES.values()]
    run_of(others, ("trace", 200, 9000, 9000, 60.0))
    run_of(
        None, ("query_rule", 10, 1000, 320, 2.0), ("trace", 20, 1000, 188, 2.0), ("judge", 20, 1200, 204, 2.0)
    )
    found = estimate(branch="rule", per_rule=12, writer="llm", recipe=NO_PERMISSIONS)
    # of 20 samples: 50 calls, 13,200 + 23,760 + 28,080 tokens, 100 seconds
    assert (found.calls.value, found.tokens.value, found.seconds.value) == (30, 39_024, round(60 / 4))
    assert found.calls.basis == "2.50 calls a sample, measured on 1 earlier runs here"
    assert "same models" in found.tokens.basis and "4 at a time" in found.seconds.basis


def run_of(models, *calls, written=20):
    """An ended run of these models (None: the settings') and its (purpose, how many, tokens, seconds of each)."""
    job = Job.objects.create(kind="synthesis", title="before", state="done")
    params = {"endpoints": models or recorded(endpoints())}
    run = SynthesisRun.objects.create(branch="rule", writer="llm:tester", job=job, params=params)
    tools = list(Tool.objects.order_by("pk")[:2])
    for sample in [make_sample(run=run, tools=tools) for _ in range(written)]:
        Attempt.objects.create(sample=sample, number=1, outcome="ready")
    ModelCall.objects.bulk_create(
        ModelCall(
            uid=uuid4(), job=job, purpose=of, prompt_tokens=prompt, completion_tokens=text, seconds=seconds
        )
        for of, many, prompt, text, seconds in calls
        for _ in range(many)
    )


def test_budget_that_does_not_reach_is_told(llm):
    make_book()
    found = estimate(branch="rule", writer="llm", budget={"calls": 5, "money": 100.0})
    assert found.over == [f"calls: about {found.calls.value} of 5"]


def test_estimate_refuses_what_a_start_refuses():
    make_book()
    with pytest.raises(TraceError, match="'later' is not known") as refused:
        estimate(branch="rule", outdated="later")
    assert refused.value.where == "--outdated"


def test_command_prints_the_estimate_and_starts_nothing(capsys):
    make_book()
    call_command("synthesis_run", "--branch", "rule", "--per-rule", "6", "--estimate", "--max-calls", "3")
    said = capsys.readouterr().out
    assert "counted: 6 new" in said and "nothing was started" in said
    assert Job.objects.count() == 0


def test_command_takes_recipe_and_budget(tmp_path, capsys):
    make_book()
    (tmp_path / "mine.yaml").write_text("retries: 2\ntrace: {permission_share: 0.5}\n")
    asked = (
        "--branch",
        "rule",
        "--recipe",
        str(tmp_path / "mine.yaml"),
        "--max-cost",
        "2.5",
        "--keep-outdated",
    )
    call_command("synthesis_run", *asked, "--per-rule", "3")
    params = SynthesisRun.objects.get().params
    assert params["recipe"]["retries"] == 2 and params["recipe"]["trace"]["permission_share"] == 0.5
    assert params["budget"] == {"money": 2.5} and params["outdated"] == "keep"
    assert "asked             0 calls" in capsys.readouterr().out


def test_100_000_samples_are_counted_without_being_planned():
    make_many_rules(100)
    estimate(branch="rule", per_rule=1)  # what is loaded once is no part of it
    tracemalloc.start()
    found = estimate(branch="rule", per_rule=generate_services.PER_RULE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.samples.value == 100 * generate_services.PER_RULE
    assert peak < 5_000_000


def test_what_is_counted_is_what_a_run_plans():
    make_many_rules(3)
    for branch, chosen in (("rule", {"per_rule": 7}), ("rule", {"per_rule": 11}), ("rrb", {"anchors": 25})):
        counted = estimate(branch=branch, seed=3, **chosen).samples.value
        run = synthesis_start(branch=branch, seed=3, wake=False, **chosen)
        result = run_job(run.job)
        assert result["planned"] == counted > 0
        Sample.objects.filter(pk__in=Sample.objects.filter(machine="ready")[:4]).update(human="rejected")


def test_rules_times_samples_are_counted_before_anything_is_planned(monkeypatch):
    make_book()
    monkeypatch.setattr(generate_services, "MOST_PLANNED", 5)
    for begin in (estimate, synthesis_start):
        with pytest.raises(TraceError, match="1 rules of 6 samples are more than 5") as refused:
            begin(branch="rule", per_rule=6)
        assert (refused.value.code, refused.value.where) == ("too_large", "--per-rule")
    assert not Job.objects.exists()


def test_limits_are_those_of_the_form():
    make_book()
    for asked in ({"branch": "rule", "per_rule": 1_001}, {"branch": "rrb", "anchors": 100_001}):
        with pytest.raises(TraceError, match="out of range"):
            estimate(**asked)
    assert not SynthesisForm({"branch": "rule", "writer": "offline", "per_rule": 1_001}).is_valid()


# What is left to people.


def samples_of_a_rule(many, **state):
    rule, run = (
        make_rule(make_tool(), make_tool()),
        SynthesisRun.objects.create(
            branch="rule",
            writer="offline",
            job=Job.objects.create(kind="synthesis", title="it", state="done"),
        ),
    )
    return [make_sample(rule=rule, run=run, **state) for _ in range(many)]


def test_what_is_read_and_approved_is_measured_on_what_was(user_with):
    assert estimate_reading(24).ready.value is None and "not measured" in estimate_reading(24).seconds.basis
    samples = samples_of_a_rule(16)
    samples_of_a_rule(4, machine="dropped")
    reader = user_with("reviewer")
    for place, sample in enumerate(samples[:10]):
        Decision.objects.create(
            sample=sample, reviewer=reader, verdict="reject" if place < 2 else "approve", seconds=20 + place
        )
    Decision.objects.create(sample=samples[10], policy="all", verdict="reject", seconds=1)
    Decision.objects.create(sample=samples[11], reviewer=reader, verdict="approve", seconds=4000)  # went away
    found = estimate_reading(100)
    assert found.ready.value == pytest.approx(80) and found.ready.basis.startswith("16 of 20 samples")
    assert found.approved.value == pytest.approx(80 * 9 / 11) and "9 of 11" in found.approved.basis
    assert found.seconds.value == pytest.approx(80 * 24.5) and "10 readings" in found.seconds.basis


def test_time_of_local_writers_is_that_of_earlier_runs():
    from datetime import timedelta

    from django.utils import timezone

    now = timezone.now()
    for seconds in (1, 4):
        job = Job.objects.create(
            kind="synthesis", title="it", state="done", total=40, started_at=now - timedelta(seconds=seconds)
        )
        Job.objects.filter(pk=job.pk).update(finished_at=now)
        SynthesisRun.objects.create(branch="rule", writer="offline", job=job)
    found = estimate_new([12, 28]).seconds
    assert (found.value, found.basis) == (2.5, "16 samples/s, measured on earlier offline runs here")
