"""Silence: one prompt that always hangs fails alone, an endpoint that answers nobody stops the run."""

import asyncio
import threading

import pytest

from tests.lib.simulated import SCHEMA
from tests.llm_server import LlmServer
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import Endpoint


@pytest.fixture
def silent():
    """A server that never answers a question with `poison` in it; `silent.all` makes it answer none."""
    over = threading.Event()

    def answers(body):
        if server.all or "poison" in body["messages"][0]["content"]:
            over.wait(30)
        return {"ok": True}

    server = LlmServer(answers)
    server.all = False
    yield server
    over.set()
    server.close()


def ends_of(server, questions):
    endpoint = Endpoint(server.url, "m", "k", timeout=2.5, attempt_timeout=0.3, retries=20)

    async def main():
        client = Client(endpoint)
        try:
            asked = [
                client.ask([{"role": "user", "content": text}], schema=SCHEMA, purpose="t")
                for text in questions
            ]
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            await client.close()

    return [getattr(end, "code", "ok") for end in asyncio.run(main())]


def test_prompts_that_hang_fail_alone(silent):
    ends = ends_of(silent, [*(f"poison {n}" for n in range(6)), "a", "b"])
    assert ends == ["llm_timeout"] * 6 + ["ok"] * 2


def test_an_endpoint_that_answers_nobody_stops_the_run(silent):
    silent.all = True
    ends = set(ends_of(silent, [f"question {n}" for n in range(8)]))
    assert "llm_unavailable" in ends and ends <= {"llm_unavailable", "llm_timeout"}
