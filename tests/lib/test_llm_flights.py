"""Equal questions under way at once are one exchange."""

import asyncio

import pytest

from tests.lib.simulated import SCHEMA, SimulatedEndpoint, run
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import Endpoint, LlmError


def client_of(endpoint):
    client = Client(Endpoint("http://127.0.0.1:1/v1", "m", retries=0))
    client._wire.post = endpoint.post
    return client


def question(client, text="q", **options):
    return client.ask([{"role": "user", "content": text}], schema=SCHEMA, purpose="t", **options)


def test_twenty_equal_questions_are_paid_once():
    endpoint = SimulatedEndpoint()

    async def main():
        client = client_of(endpoint)
        return await asyncio.gather(*(question(client) for _ in range(20)), question(client, "another"))

    replies = run(main())
    assert len(endpoint.answered) == 2
    assert sum(not reply.shared for reply in replies) == 2
    assert all(reply.data for reply in replies)


def test_questions_that_differ_in_anything_are_their_own():
    endpoint = SimulatedEndpoint()

    async def main():
        client = client_of(endpoint)
        return await asyncio.gather(
            question(client), question(client, seed=1), question(client, temperature=0.5)
        )

    run(main())
    assert len(endpoint.answered) == 3


def test_an_error_is_shared_too_and_not_kept():
    endpoint = SimulatedEndpoint(lambda *_: LlmError("refused", "llm_refused"))

    async def main():
        client = client_of(endpoint)
        first = await asyncio.gather(*(question(client) for _ in range(5)), return_exceptions=True)
        endpoint.fault = lambda *_: None
        return first, await question(client)

    first, later = run(main())
    assert all(isinstance(one, TraceError) for one in first)
    assert endpoint.received == 2
    assert later.data == {"ok": True}


def test_when_the_first_to_ask_is_cancelled_another_asks_instead():
    endpoint = SimulatedEndpoint()

    async def main():
        client = client_of(endpoint)
        tasks = [asyncio.create_task(question(client)) for _ in range(3)]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        tasks[2].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert client._flights._under_way == {}
        return ends

    ends = run(main())
    assert [type(end).__name__ for end in ends] == ["CancelledError", "Reply", "CancelledError"]
    assert len(endpoint.answered) == 1


def test_what_breaks_down_under_one_does_not_break_the_others():
    endpoint = SimulatedEndpoint()
    broken = [True]

    class Ledger:
        async def kept(self, key):
            await asyncio.sleep(0.1)
            if broken.pop():
                raise RuntimeError("the database is gone")

        async def sent(self, exchange): ...

        async def ended(self, exchange, reply): ...

    async def main():
        client = client_of(endpoint)
        client.ledger = Ledger()
        tasks = [asyncio.create_task(question(client)) for _ in range(2)]
        await asyncio.sleep(0.05)
        broken.insert(0, False)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return ends

    ends = run(main())
    assert isinstance(ends[0], RuntimeError)
    assert ends[1].data == {"ok": True}


def test_a_cancelled_call_leaves_slot_budget_and_books_in_order():
    ended = []

    class Ledger:
        async def kept(self, key): ...

        async def sent(self, exchange): ...

        async def ended(self, exchange, reply):
            await asyncio.sleep(0.01)
            ended.append((exchange.error_code, reply))

    async def main():
        client = client_of(SimulatedEndpoint())
        client.ledger = Ledger()
        task = asyncio.create_task(question(client))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.budget.reserved.calls == 0
        assert client.budget.spent.calls == 1

    run(main())
    assert ended == [("llm_cancelled", None)]
