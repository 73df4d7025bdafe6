"""Fixtures of the tests of synthesis: two readers, a filter and a judge that let everything through, an endpoint."""

import pytest

from synthesis.core.queries import AXES, Verdict
from synthesis.generate import pipeline
from synthesis.offline.judge import OfflineJudge
from tests.llm_server import LlmServer
from tests.synthesis.model import answers


@pytest.fixture
def ada(user_with):
    return user_with("reviewer", username="ada")


@pytest.fixture
def bob(user_with):
    return user_with("reviewer", username="bob")


@pytest.fixture
def every_draft_passes(monkeypatch):
    """What is written is tested elsewhere; here it is which slots are written."""

    async def passed(self, request):
        return Verdict(request.id, dict.fromkeys(AXES, 5))

    monkeypatch.setattr(OfflineJudge, "judge", passed)
    for name in ("query_failures", "trace_failures"):
        monkeypatch.setattr(pipeline, name, lambda *given: [])


@pytest.fixture
def llm(transactional_db, settings):
    """A model server that answers well."""
    server = LlmServer(answers)
    settings.LLM_BASE_URL, settings.LLM_API_KEY = server.url, "key"
    settings.LLM_GENERATOR_MODEL = settings.LLM_TEACHER_MODEL = settings.LLM_JUDGE_MODEL = "tester"
    settings.LLM_CONCURRENCY = 1
    settings.LLM_TIMEOUT_SECONDS = 5
    yield server
    server.close()
