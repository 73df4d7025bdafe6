"""Many samples side by side: bounded, stopped at once, and nothing that ended is lost."""

import asyncio
import threading
import time

import pytest

from synthesis.core.queries import QueryDraft
from synthesis.generate import pipeline
from synthesis.generate.pipeline import Outcome, Unit, written
from trace_site.jobs import JobCancelled, LeaseLost
from trace_site.lib.errors import TraceError


class Pipeline:
    """Makes outcomes of unit numbers; `act` says what else happens to one."""

    def __init__(self, act=None, seconds=0.0):
        self.act, self.seconds = act or (lambda number: None), seconds
        self.begun, self.cancelled, self.most = [], [], 0

    async def make(self, unit):
        number = unit.sample_id
        self.begun.append(number)
        self.most = max(self.most, len(self.begun))
        try:
            await asyncio.sleep(self.seconds)
            self.act(number)
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        return Outcome(number, True, QueryDraft("", (), ""), "", (), [])


def units(count):
    return (Unit(number, None) for number in range(count))


def ids(batches):
    return [outcome.sample_id for batch in batches for outcome in batch]


@pytest.mark.parametrize("workers", [1, 7, 300])
def test_every_unit_is_written_once(workers):
    assert sorted(ids(written(Pipeline(), units(1000), workers))) == list(range(1000))


def test_units_are_drawn_only_as_batches_are_committed():
    drawn = []
    found = written(Pipeline(), (drawn.append(unit) or unit for unit in units(5000)), 8)
    done = 0
    for batch in found:
        done += len(batch)
        assert len(drawn) <= done + 8 + pipeline.BATCH
    assert done == 5000


def test_one_at_a_time_units_go_one_after_the_other():
    assert ids(written(Pipeline(), units(250), 1)) == list(range(250))


@pytest.mark.parametrize("stop", [JobCancelled, LeaseLost])
def test_job_that_must_stop_cancels_what_is_under_way_at_once(stop):
    pipeline, began, closed = Pipeline(seconds=60), time.monotonic(), []

    def check():
        if len(pipeline.begun) == 4:
            raise stop

    async def close():
        closed.append(threading.current_thread().name)

    with pytest.raises(stop):
        list(written(pipeline, units(50), 4, check=check, close=close))
    assert time.monotonic() - began < 30
    assert sorted(pipeline.cancelled) == sorted(pipeline.begun) == [0, 1, 2, 3]
    assert len(closed) == 1 and not any("writing" in one.name for one in threading.enumerate())


def test_error_that_stops_all_comes_after_what_ended_before_it():
    def act(number):
        if number == 30:
            raise TraceError("the key is refused.", code="llm_unauthorized")

    got = []
    with pytest.raises(TraceError, match="key is refused"):
        for batch in written(Pipeline(act), units(1000), 1):
            got += ids([batch])
    assert got == list(range(30))


def test_at_its_budget_what_is_under_way_goes_on_to_its_end():
    def act(number):
        if number == 10:
            raise TraceError("the budget is used up.", code="llm_budget")

    pipeline, got = Pipeline(act, seconds=0.02), []
    with pytest.raises(TraceError, match="used up"):
        for batch in written(pipeline, units(1000), 8):
            got += ids([batch])
    assert sorted([*got, 10]) == sorted(pipeline.begun) and not pipeline.cancelled
    assert len(pipeline.begun) < 30


def test_error_of_the_program_is_told_as_it_is():
    def act(number):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(written(Pipeline(act), units(10), 4))


def test_consumer_that_stops_reading_ends_the_loop():
    found = written(Pipeline(seconds=0.01), units(10_000), 4)
    next(found)
    found.close()
    assert not any("writing" in one.name for one in threading.enumerate())
