"""The limiter on a simulated clock: it finds what an endpoint takes, and storms of refusals pass."""

import asyncio

import pytest

from tests.lib.simulated import SimulatedEndpoint, load, run, slow_down
from trace_site.lib.llm.limiter import Limiter, limiter_of


def after(endpoint, start, end):
    """The share of the ideal rate at concurrency 64 that was answered."""
    return endpoint.rate(start, end) / (64 * len(endpoint.answered) / endpoint.busy)


def test_it_starts_small_and_soon_keeps_the_most_in_flight():
    endpoint = SimulatedEndpoint()
    run(load(endpoint, 20))
    assert sum(at < 0.2 for at in endpoint.answered) <= 16
    assert endpoint.peak == 64
    assert after(endpoint, 3, 20) > 0.97


@pytest.mark.parametrize("told", [None, 1.0])
def test_refusals_by_chance_cost_nothing_but_themselves(told):
    endpoint = SimulatedEndpoint(
        lambda at, flying, random: slow_down(told) if random.random() < 0.02 else None
    )
    ends = run(load(endpoint, 30))
    assert set(ends) == {"ok"}
    assert len(endpoint.refused) > 50
    assert after(endpoint, 5, 30) > 0.97


@pytest.mark.parametrize(("told", "median"), [(None, 1.0), (0.0, 2.0), (1.0, 1.0), (30.0, 2.0)])
def test_thirty_seconds_after_a_storm_it_is_back(told, median):
    endpoint = SimulatedEndpoint(
        lambda at, flying, random: slow_down(told) if 20 < at < 50 else None, median=median
    )
    ends = run(load(endpoint, 100))
    assert after(endpoint, 80, 100) > 0.9
    assert set(ends) == {"ok"}
    # while everything was refused hardly anybody asked
    assert len([at for at in endpoint.refused if 25 < at < 50]) < 60


def test_half_refused_for_a_while_is_survived_too():
    endpoint = SimulatedEndpoint(
        lambda at, flying, random: slow_down() if 20 < at < 50 and random.random() < 0.5 else None,
        median=1.0,
    )
    run(load(endpoint, 100))
    assert after(endpoint, 80, 100) > 0.9


@pytest.mark.parametrize("capacity", [5, 20, 50])
def test_an_endpoint_that_takes_fewer_gets_about_so_many(capacity):
    endpoint = SimulatedEndpoint(lambda at, flying, random: slow_down(1.0) if flying > capacity else None)
    ends = run(load(endpoint, 25))
    assert set(ends) == {"ok"}
    assert endpoint.rate(10, 25) > 0.85 * capacity * len(endpoint.answered) / endpoint.busy
    assert len(endpoint.refused) < 0.3 * len(endpoint.answered)


def test_never_more_in_flight_than_the_most_and_clients_of_one_address_share_it():
    endpoint = SimulatedEndpoint()

    async def both():
        await asyncio.gather(
            load(endpoint, 10, concurrency=20, calls=40), load(endpoint, 10, concurrency=20, calls=40)
        )

    run(both())
    assert endpoint.peak == 20


def test_an_endless_wait_is_an_error_at_once_and_soon_stops_the_run():
    endpoint = SimulatedEndpoint(lambda *_: slow_down(3600.0))
    ends = run(load(endpoint, 30, calls=96))
    assert set(ends) == {"llm_rate_limited", "llm_unavailable"}
    assert ends["llm_rate_limited"] < 10
    assert len(endpoint.refused) < 50  # the gate is shut: most did not even ask


def test_a_cancelled_wait_gives_its_slot_on():
    async def main():
        limiter = Limiter(1)
        await limiter.acquire()
        waiting = [asyncio.create_task(limiter.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        limiter.release(refused=False)
        waiting[1].cancel()  # in the same moment as its slot comes
        await waiting[2]
        assert limiter.in_flight == 1
        limiter.release(refused=False)
        assert limiter.in_flight == 0

    run(main())


def test_who_is_sent_again_goes_first():
    async def main():
        limiter = Limiter(1)
        order = []

        async def take(name, urgent):
            await limiter.acquire(urgent=urgent)
            order.append(name)
            limiter.release(refused=False)

        await limiter.acquire()
        tasks = [asyncio.create_task(take(*one)) for one in [("a", False), ("b", False), ("again", True)]]
        await asyncio.sleep(0)
        limiter.release(refused=False)
        await asyncio.gather(*tasks)
        assert order == ["again", "a", "b"]

    run(main())


def test_the_limiter_of_an_address_is_one_and_takes_the_largest_most():
    async def main():
        one = limiter_of("http://a/v1", 8)
        assert limiter_of("http://a/v1/", 20) is one
        assert one.most == 20
        assert limiter_of("http://b/v1", 8) is not one
        return one

    assert run(main()) is not run(main())
