"""Many calls at once: on the simulated clock as fast as can be, and on a real server by its books."""

import asyncio
import gc
import tracemalloc
from collections import Counter

from tests.lib.simulated import SCHEMA, SimulatedEndpoint, load, run, slow_down
from tests.llm_load import LoadServer
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import Endpoint, LlmError

PATIENCE = 3.0


def mixed(at, flying, random):
    """2 % 429, 1 % 500, 0.5 % hang, 2 % truncated, 1 % refused."""
    drawn = random.random()
    if drawn < 0.02:
        return slow_down(1.0)
    if drawn < 0.03:
        return LlmError("failed (500)", "llm_server_error", again=True, free=True)
    if drawn < 0.035:
        return LlmError("did not answer in time", "llm_timeout", again=True, refused=True)
    if drawn < 0.055:
        return LlmError("stopped at its length limit", "llm_truncated")
    return LlmError("refused", "llm_refused") if drawn < 0.065 else None


def test_under_the_mix_of_faults_nearly_all_of_the_ideal_is_reached():
    endpoint = SimulatedEndpoint(mixed)
    ends = run(load(endpoint, 40, attempt_timeout=PATIENCE))
    assert set(ends) == {"ok", "llm_truncated", "llm_refused"}
    ended = sum(ends.values())
    last = max(endpoint.answered)
    assert ended / last > 0.85 * 64 * ended / endpoint.busy
    assert endpoint.peak == 64


def test_memory_is_flat_and_nothing_piles_up():
    endpoint = SimulatedEndpoint(mixed, median=0.05)
    sizes = []

    async def main():
        tracemalloc.start()
        for _ in range(4):
            await load(endpoint, asyncio.get_running_loop().time() + 0.2, attempt_timeout=1.0)
            endpoint.answered.clear()
            endpoint.refused.clear()
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()

    run(main())
    assert sizes[-1] - sizes[1] < 100_000, sizes


def test_the_books_of_a_real_server_agree_with_the_calls():
    calls = 600
    ends: Counter[str] = Counter()
    tokens = [0]

    class Ledger:
        async def kept(self, key): ...

        async def sent(self, exchange):
            ends["sent"] += 1

        async def ended(self, exchange, reply):
            ends[exchange.error_code or "answered"] += 1
            if exchange.error_code in ("", "llm_truncated", "llm_refused"):
                tokens[0] += exchange.prompt_tokens + exchange.completion_tokens

    async def main(url):
        endpoint = Endpoint(url, "m", "key", timeout=60.0, attempt_timeout=PATIENCE)
        client = Client(endpoint, ledger=Ledger())

        async def one(number):
            try:
                await client.ask([{"role": "user", "content": f"{number}"}], schema=SCHEMA, purpose="t")
                return "ok"
            except TraceError as error:
                return error.code

        made = await asyncio.gather(*(one(number) for number in range(calls)))
        await client.close()
        return Counter(made)

    with LoadServer(seed=2, median=0.05, retry_after="0.5") as server:
        made = asyncio.run(main(server.url))
        books, exchanges = server.books(), server.exchanges()
    faults = Counter(one.fault for one in exchanges)
    assert set(made) <= {"ok", "llm_refused", "llm_timeout"}
    assert sum(made.values()) == calls
    assert ends["sent"] == len(exchanges) < calls * 1.15
    assert len({one.uid for one in exchanges}) == len(exchanges)
    assert (books["early"], books["in_flight"]) == (0, 0)
    assert 8 < books["peak"] <= 64  # how far it grows from 8 is a matter of the machine's speed
    assert ends["llm_rate_limited"] == faults["429"]
    assert ends["llm_server_error"] == faults["500"]
    assert ends["llm_truncated"] == faults["truncated"]
    if ends["llm_timeout"] == faults["hang"]:  # on a busy machine an answer may come too late
        assert tokens[0] == sum(one.prompt_tokens + one.completion_tokens for one in exchanges)
