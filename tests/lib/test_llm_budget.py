"""A budget is never exceeded, whatever runs at once, and nobody waits for what cannot come."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lib.simulated import SCHEMA, SimulatedEndpoint, run, slow_down
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import FATAL, Endpoint
from trace_site.lib.llm.limiter import Budget, Spent

COSTS = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted)


@settings(max_examples=60)
@given(st.lists(COSTS, max_size=30), st.integers(0, 200), st.integers(0, 20), st.integers(0, 9))
def test_settled_and_reserved_never_exceed_a_limit(costs, tokens, calls, seed):
    """costs: what a call costs, and at most; they overlap in any order, some are cancelled while they wait."""
    rng = random.Random(seed)
    budget = Budget(calls=calls, tokens=tokens)
    made = []

    async def call(actual, most):
        reserved = await budget.reserve(Spent(1, most, 0.0))
        held = budget.spent + budget.reserved
        assert held.tokens <= tokens and held.calls <= calls
        try:
            await asyncio.sleep(rng.random())
        finally:
            budget.settle(reserved, Spent(1, actual, 0.0))
            made.append(actual)

    async def main():
        tasks = [asyncio.create_task(call(*one)) for one in costs]
        await asyncio.sleep(0.3)
        for task in tasks[::7]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    ends = run(main())  # the simulated clock fails where somebody waits for ever
    assert all(end is None or isinstance(end, TraceError | asyncio.CancelledError) for end in ends)
    assert {end.code for end in ends if isinstance(end, TraceError)} <= {"llm_budget"}
    assert budget.reserved == Spent()
    assert budget.spent.tokens == sum(made) <= tokens
    for (_, most), end in zip(costs, ends, strict=True):  # who was turned away could not have been served
        if isinstance(end, TraceError):
            assert budget.spent.tokens + most > tokens or budget.spent.calls + 1 > calls


def ask_many(budget, number, endpoint, **prices):
    async def main():
        client = Client(Endpoint("http://127.0.0.1:1/v1", "m", **prices), budget=budget)
        client._wire.post = endpoint.post
        asked = [
            client.ask([{"role": "user", "content": f"{n}"}], schema=SCHEMA, purpose="t", max_tokens=100)
            for n in range(number)
        ]
        ends = await asyncio.gather(*asked, return_exceptions=True)
        await client.close()
        return ends

    return run(main())


def test_a_run_stops_at_its_number_of_calls_refused_ones_included():
    endpoint = SimulatedEndpoint(lambda at, flying, rng: slow_down(0.0) if rng.random() < 0.3 else None)
    ends = ask_many(Budget(calls=50), 200, endpoint)
    assert len(endpoint.answered) + len(endpoint.refused) == 50
    codes = {end.code for end in ends if isinstance(end, TraceError)}
    assert codes == {"llm_budget"} <= FATAL
    assert sum(not isinstance(end, TraceError) for end in ends) == len(endpoint.answered)


def test_tokens_are_used_to_the_last_call_that_surely_fits():
    budget = Budget(tokens=3_000)
    ends = ask_many(budget, 300, SimulatedEndpoint())
    answered = sum(not isinstance(end, TraceError) for end in ends)
    assert budget.spent.tokens == 18 * answered <= 3_000
    assert budget.spent.tokens > 3_000 - 700  # less than one upper bound is left


def test_money_is_counted_by_the_prices_of_the_endpoint():
    budget = Budget(money=0.002)
    ends = ask_many(budget, 300, SimulatedEndpoint(), price_in=1.0, price_out=3.0)
    answered = sum(not isinstance(end, TraceError) for end in ends)
    assert budget.spent.money == pytest.approx(answered * (11 * 1.0 + 7 * 3.0) / 1e6)
    assert 0 < budget.spent.money <= 0.002


def test_what_was_spent_before_counts():
    endpoint = SimulatedEndpoint()
    ask_many(Budget(calls=50, spent=Spent(48, 0, 0.0)), 10, endpoint)
    assert len(endpoint.answered) == 2


def test_the_error_names_the_limit_and_what_was_spent():
    ends = ask_many(Budget(calls=0), 1, SimulatedEndpoint())
    assert "budget of 0 calls is used up" in str(ends[0])
    assert ends[0].extra == {"limit": 0, "spent": 0}
