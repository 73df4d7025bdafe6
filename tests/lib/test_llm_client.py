"""The client against a local endpoint that misbehaves in every way endpoints do."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from tests.llm_server import LlmServer
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import Endpoint, Ledger
from trace_site.lib.llm.limiter import retry_after

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


@pytest.fixture
def server():
    server = LlmServer()
    yield server
    server.close()


def ask(server, *, timeout=5.0, retries=0, cache=None, schema=SCHEMA):
    endpoint = Endpoint(server.url, "m", "key", timeout=timeout, retries=retries)

    async def asked():
        client = Client(endpoint, ledger=cache)
        try:
            return await client.ask([{"role": "user", "content": "hi"}], schema=schema, purpose="test")
        finally:
            await client.close()

    return asyncio.run(asked())


def test_an_answer_is_validated_and_counted(server):
    class Counts(Ledger):
        async def ended(self, exchange, reply):
            self.tokens = exchange.prompt_tokens, exchange.completion_tokens

    books = Counts()
    assert ask(server, cache=books).data == {"ok": True} and books.tokens == (11, 7)
    sent = server.requests[0]
    assert sent["path"] == "/v1/chat/completions"
    assert sent["authorization"] == "Bearer key"
    assert sent["temperature"] == 0.0
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("429", "llm_rate_limited"),
        ("500", "llm_server_error"),
        ("503", "llm_server_error"),
        ("html", "llm_not_json"),
        ("shape", "llm_not_json"),
        ("no_message", "llm_not_json"),
        ("duplicate", "llm_bad_json"),
        ("refusal", "llm_refused"),
        ("empty", "llm_empty"),
        ("401", "llm_unauthorized"),
        ("404", "llm_bad_request"),
        ("flood", "llm_too_large"),
        ("reset", "llm_broken"),
    ],
)
def test_every_fault_has_its_own_code(server, fault, code):
    server.faults = [fault]
    with pytest.raises(TraceError) as caught:
        ask(server)
    assert caught.value.code == code
    assert server.url in str(caught.value)


@pytest.mark.parametrize("fault", ["hang", "slow"])
def test_the_deadline_holds_for_silence_and_for_slow_bytes(server, fault):
    server.faults = [fault]
    with pytest.raises(TraceError) as caught:
        ask(server, timeout=0.3)
    assert caught.value.code == "llm_timeout"


def test_an_answer_outside_the_schema_is_refused(server):
    server.answers = lambda body: {"ok": "yes"}
    with pytest.raises(TraceError) as caught:
        ask(server)
    assert caught.value.code == "llm_bad_schema"


def test_an_answer_that_no_database_can_store_is_refused(server):
    server.answers = lambda body: {"ok": "a\0b"}
    with pytest.raises(TraceError, match="no database stores"):
        ask(server, schema={"type": "object", "properties": {"ok": {"type": "string"}}})


def test_a_closed_port_is_named(server):
    server.close()
    with pytest.raises(TraceError) as caught:
        ask(server)
    assert caught.value.code == "llm_unreachable"
    assert "LLM_BASE_URL" in str(caught.value)


def test_a_missing_endpoint_is_one_clear_line():
    with pytest.raises(TraceError, match="LLM_BASE_URL"):
        Client(Endpoint("", "m"))


def test_passing_faults_are_retried(server):
    server.faults = ["429:0", "500", "html", "ok"]
    assert ask(server, retries=4).data == {"ok": True}
    assert len(server.requests) == 4


def test_a_retry_after_beyond_the_deadline_is_not_waited_for(server):
    server.faults = ["429:3600"]
    with pytest.raises(TraceError) as caught:
        ask(server, retries=4)
    assert caught.value.code == "llm_rate_limited"
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", ["truncated", "broken"])
def test_an_answer_that_is_cut_off_gets_more_room(server, fault):
    server.faults = [fault, "ok"]
    assert ask(server).data == {"ok": True}
    assert [request["max_tokens"] for request in server.requests] == [2000, 4000]
    server.faults = [fault] * 4
    with pytest.raises(TraceError, match="max_tokens") as caught:
        ask(server)
    assert caught.value.code == "llm_truncated"
    assert len(server.requests) == 5  # up to 16,000 and 32,000


@pytest.mark.parametrize("fault", ["bad_usage", "negative_usage"])
def test_an_answer_counts_whatever_its_usage_says(server, fault):
    server.faults = [fault]
    assert ask(server).data == {"ok": True}


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("", None), ("2", 2.0), ("0.5", 0.5), ("-3", None), ("soon", None)],
)
def test_retry_after_in_seconds(header, seconds):
    assert retry_after(header) == seconds


def test_retry_after_as_a_date():
    at = datetime.now(UTC) + timedelta(seconds=60)
    assert 55 < (retry_after(format_datetime(at, usegmt=True)) or 0) <= 60


class Memory(Ledger):
    def __init__(self):
        self.replies = {}

    async def kept(self, key):
        return self.replies.get(key)

    async def ended(self, exchange, reply):
        if reply is not None:
            self.replies[exchange.key] = reply.data


def test_the_same_question_is_paid_once(server):
    memory = Memory()
    assert ask(server, cache=memory).cached is False
    assert ask(server, cache=memory).cached is True
    assert len(server.requests) == 1


def test_a_failed_answer_is_not_kept(server):
    memory = Memory()
    server.faults = ["refusal"]
    with pytest.raises(TraceError):
        ask(server, cache=memory)
    assert memory.replies == {}


def test_the_probe_passes_over_a_model_that_answers_oddly_but_not_over_a_bad_key(server):
    endpoint = Endpoint(server.url, "m", "key", retries=0)
    server.faults = ["empty"]
    asyncio.run(Client(endpoint).probe())
    server.faults = ["401"]
    with pytest.raises(TraceError, match="LLM_API_KEY"):
        asyncio.run(Client(endpoint).probe())
