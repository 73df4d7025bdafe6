"""A run killed again and again loses nothing, pays nothing twice, and its ledger is the server's."""

import random

import pytest

from tests.llm_load import LoadServer
from tests.synthesis.killing import CALLS, kill_and_resume
from tests.synthesis.rows import make_book

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server(settings):
    with LoadServer(seed=1, median=0.15, faults={}, answers="tests.synthesis.model:answers") as server:
        settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, "key"
        settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
        settings.LLM_CONCURRENCY = 16
        yield server


@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.long)])
def test_a_run_that_is_killed_resends_only_what_was_in_flight_and_doubles_nothing(server, kills):
    make_book()
    draw = random.Random(4)
    moments = sorted(draw.sample(range(5, CALLS - 10), kills))
    found = kill_and_resume(server, moments)
    assert found.kills == kills and found.in_flight > 0
    assert not found.problems, found
