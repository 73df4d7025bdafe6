"""Budgets of runs: kept over all attempts of a job, told with figures, raised on resume."""

import pytest

from synthesis.generate.selectors import run_counts
from synthesis.generate.services import synthesis_resume, synthesis_start
from synthesis.llm.ledger import read_budget, spent
from synthesis.models import ModelCall, ModelReply, PromptVersion, Sample
from tests.llm_server import LlmServer
from tests.synthesis.model import answers
from tests.synthesis.rows import make_book, run_job
from tests.synthesis.test_runs import NO_PERMISSIONS
from trace_site import jobs
from trace_site.audit.models import AuditEntry
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def llm(settings):
    server = LlmServer(answers)
    settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, "key"
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
    settings.LLM_CONCURRENCY = 4
    settings.LLM_TIMEOUT_SECONDS = 5
    make_book()
    yield server
    server.close()


def start(**options):
    return synthesis_start(
        **{"branch": "rule", "per_rule": 12, "writer": "llm", "recipe": NO_PERMISSIONS, "wake": False}
        | options
    )


def stopped(run):
    job = jobs.run(run.job.pk)
    assert (job.state, job.error_code) == ("failed", "llm_budget")
    return job


def test_run_stops_at_its_calls_and_goes_on_with_more_paying_nothing_twice(llm):
    run = start(budget={"calls": 10})
    job = stopped(run)
    left = Sample.objects.filter(machine="pending").count()
    assert (job.done, job.total) == (12 - left, 12)
    assert f"stopped at its budget: 10 of 10 calls; {left} samples are not written." in job.error
    assert "Raise the budget and resume" in job.error
    assert ModelCall.objects.count() == 10 == len(llm.requests) - 1  # one probe
    assert not ModelCall.objects.filter(state="sent").exists()
    synthesis_resume(run, budget={"calls": 100})
    assert run_job(run.job)["ready"] == 12
    assert ModelCall.objects.count() == ModelReply.objects.count() == 27 == len(llm.requests) - 1
    assert AuditEntry.objects.filter(action="synthesis.budget_changed").count() == 1


@pytest.mark.parametrize("calls", [18, 24, 26])
def test_progress_of_a_run_that_stopped_at_its_budget_counts_what_is_written(llm, calls):
    job = stopped(start(budget={"calls": calls}))
    written = Sample.objects.exclude(machine="pending").count()
    assert (job.done, job.total) == (written, 12)


@pytest.mark.parametrize("limits", [{"tokens": 20_000}, {"money": 0.05}, {"calls": 7, "tokens": 10**9}])
def test_no_limit_is_ever_exceeded(llm, settings, limits, monkeypatch):
    completion = LlmServer.completion
    monkeypatch.setattr(
        LlmServer,
        "completion",
        lambda *asked: completion(*asked).replace(b'"prompt_tokens": 11', b'"prompt_tokens": 2000'),
    )
    for role in ("GENERATOR", "TEACHER", "JUDGE"):
        setattr(settings, f"LLM_{role}_PRICE_IN", 2.0)
        setattr(settings, f"LLM_{role}_PRICE_OUT", 8.0)
    run = start(budget=limits)
    stopped(run)
    used = spent(run.job)
    assert all(getattr(used, name) <= most for name, most in limits.items())
    assert used.calls == len(llm.requests) - 1 > 0


def test_calls_that_a_killed_process_left_open_count_and_are_closed_as_lost(llm):
    run = start(budget={"calls": 5})
    for number in range(3):
        ModelCall.objects.create(
            uid=f"00000000-0000-0000-0000-00000000000{number}",
            key="k",
            purpose="trace",
            job=run.job,
            prompt_tokens=9,
        )
    stopped(run)
    assert len(llm.requests) - 1 == 2
    assert (
        ModelCall.objects.filter(state="failed", error_code="llm_lost", ended_at__isnull=False).count() == 3
    )
    assert spent(run.job).calls == 5


def test_only_a_stopped_run_with_something_left_to_spend_resumes(llm):
    run = start(budget={"calls": 4})
    with pytest.raises(TraceError, match="it is queued; only a stopped run can go on"):
        synthesis_resume(run)
    stopped(run)
    with pytest.raises(TraceError, match="4 are spent already") as refused:
        synthesis_resume(run, budget={"calls": 3})
    assert refused.value.where == "budget.calls"
    assert Job.objects.get(pk=run.job.pk).state == "failed"
    assert run_counts(run)["ready"] < 12


@pytest.mark.parametrize(
    "bad", [{"calls": 0}, {"calls": 1.5}, {"tokens": "many"}, {"money": float("nan")}, {"time": 3}]
)
def test_limit_that_is_no_number_is_named(bad):
    with pytest.raises(TraceError) as refused:
        read_budget(bad)
    assert refused.value.where == f"budget.{next(iter(bad))}"


def test_run_keeps_its_models_and_prompts_when_the_settings_change(llm, settings):
    run = start(budget={"calls": 6})
    stopped(run)
    assert {row["model"] for row in run.params["endpoints"]} == {"tester"}
    assert {row["role"] for row in run.params["endpoints"]} == {"generator", "teacher", "judge"}
    assert set(PromptVersion.objects.values_list("name", flat=True)) == {"query_rule", "trace", "judge"}
    settings.LLM_TEACHER_MODEL = "another"
    synthesis_resume(run, budget={"calls": 100})
    run_job(run.job)
    assert set(ModelCall.objects.values_list("model", flat=True)) == {"tester"}
    assert set(Sample.objects.values_list("writer", flat=True)) == {"llm:tester"}
