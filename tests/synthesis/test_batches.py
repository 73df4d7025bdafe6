"""Batches of rule queries through whole runs: an exchange a batch, each sample its own query, calls booked once."""

import random

import pytest
from django.db.models import Sum

from synthesis.generate.services import synthesis_start
from synthesis.models import Attempt, ModelCall, Sample
from tests.llm_server import LlmServer
from tests.synthesis.model import answers
from tests.synthesis.rows import make_book, run_job
from tests.synthesis.test_runs import NO_PERMISSIONS

pytestmark = pytest.mark.django_db(transaction=True)


def varied(body):
    """As `answers`, with queries that no filter takes for each other's twins."""
    answer = answers(body)
    style = body["messages"][0]["content"].partition('in the category "')[2][:6]
    for one in answer.get("queries", ()):
        draw = random.Random(f"{style} {one['number']}")
        reason = " ".join("".join(draw.choices("bdfklmnprst", k=6)) for _ in range(8))
        when = "November 2022" if style == "except" else "March 2024"
        one["query"] = f"pay document of {when} for {reason}"
    return answer


@pytest.fixture
def llm(settings):
    server = LlmServer(varied)
    settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, "key"
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
    settings.LLM_CONCURRENCY = 32
    make_book()
    yield server
    server.close()


def run(**options):
    options = {
        "branch": "rule",
        "writer": "llm",
        "per_rule": 12,
        "recipe": NO_PERMISSIONS,
        "wake": False,
        **options,
    }
    return run_job(synthesis_start(**options).job)


def asked(purpose: str) -> int:
    return ModelCall.objects.filter(purpose=purpose).count()


def test_side_by_side_samples_of_a_batch_share_one_exchange_that_is_counted_once(llm):
    counts = run()
    assert counts["written"] == 12
    first = Attempt.objects.filter(number=1, outcome="ready")
    assert first.count() == 12, list(Attempt.objects.values("outcome", "error", "filter_failures", "judge"))
    assert asked("query_rule") == 3, "a call for each style"
    assert Attempt.objects.aggregate(n=Sum("calls"))["n"] == 3 + 12 + 12 == counts["calls"]
    assert len(set(Sample.objects.values_list("query", flat=True))) == 12


def test_a_missing_number_costs_its_sample_one_attempt_and_one_call_of_its_own(llm):
    def forgetful(body):
        answer = varied(body)
        if body["response_format"]["json_schema"]["name"] == "query_rule" and len(answer["queries"]) == 4:
            del answer["queries"][2]
        return answer

    llm.answers = forgetful
    run()
    failed = Attempt.objects.filter(error_code="llm_bad_answer")
    assert sorted(failed.values_list("sample__made_from__index", "number")) == [(2, 1)] * 3
    assert asked("query_rule") == 3 + 3
    assert Sample.objects.filter(machine="ready").count() == 12


def test_topping_up_asks_for_the_next_batch_once_and_then_finds_it_kept(llm):
    run()
    run(per_rule=15)
    assert asked("query_rule") == 3 + 3
    run(per_rule=18)
    assert asked("query_rule") == 3 + 3, "the second batch holds four of each style"
    assert Sample.objects.filter(machine="ready").count() == 18
