"""Retry-After in every form, and what a call does with it."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lib.simulated import SCHEMA, SimulatedEndpoint, run, slow_down
from tests.llm_load import LoadServer
from tests.llm_server import LlmServer
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import Endpoint, Ledger
from trace_site.lib.llm.limiter import LONGEST, backed_off, retry_after, told_to_wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("2", 2.0),
        (" 2 ", 2.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("3600", 3600.0),
        ("86400000", 86400000.0),
        ("9" * 300, LONGEST),
        ("-3", None),
        ("1e9", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("1, 2", None),
        ("٣", None),
        ("Wed, 32 Foo 2026 25:61:61 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
    ],
)
def test_retry_after_in_every_form(header, seconds):
    assert retry_after(header) == seconds


@given(st.text(max_size=40))
def test_no_header_breaks_the_reader(header):
    found = retry_after(header, header)
    assert found is None or 0 <= found < 1e12


def test_a_date_counts_from_the_later_of_both_clocks():
    now = datetime.now(UTC)
    at = format_datetime(now + timedelta(seconds=60), usegmt=True)
    assert 55 < (retry_after(at) or 0) <= 60
    slow = format_datetime(now - timedelta(seconds=120), usegmt=True)
    assert 175 < (retry_after(at, slow) or 0) <= 181
    fast = format_datetime(now + timedelta(seconds=50), usegmt=True)
    assert 55 < (retry_after(at, fast) or 0) <= 60


def test_milliseconds_are_understood_and_the_longer_of_both_counts():
    assert told_to_wait({"retry-after-ms": "1500"}) == 1.5
    assert told_to_wait({"retry-after-ms": "1500", "retry-after": "1"}) == 1.5
    assert told_to_wait({"retry-after-ms": "soon", "retry-after": "1"}) == 1.0
    assert told_to_wait({}) is None


def test_pauses_grow_and_differ():
    assert all(0.25 <= backed_off(1) <= 0.5 for _ in range(50))
    assert all(4.0 <= backed_off(failures) <= 8.0 for failures in (5, 20, 10**6))
    assert len({backed_off(3) for _ in range(50)}) > 40


@pytest.mark.parametrize("told", [0.0, 0.7, 1.0, 5.0, 90.0])
def test_a_refused_call_is_never_sent_again_earlier_than_told(told):
    """Others take its slot meanwhile."""
    sent: dict[bytes, list[float]] = {}
    endpoint = SimulatedEndpoint()

    async def post(request, uid, seconds):
        times = sent.setdefault(request, [])
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1 and b'"0"' in request:
            raise slow_down(told)
        return await endpoint.post(request, uid, seconds)

    async def main():
        client = Client(Endpoint("http://127.0.0.1:1/v1", "m", timeout=120.0, concurrency=2))
        client._wire.post = post
        asked = [
            client.ask([{"role": "user", "content": f"{n}"}], schema=SCHEMA, purpose="t") for n in range(20)
        ]
        await asyncio.gather(*asked)
        await client.close()

    run(main())
    first, second = next(times for times in sent.values() if len(times) == 2)
    assert second - first >= told
    others = [times[0] for times in sent.values() if len(times) == 1]
    assert len(others) == 19
    if told >= 5.0:
        assert max(others) < second


def test_a_wait_beyond_the_deadline_is_an_error_at_once():
    endpoint = SimulatedEndpoint(lambda *_: slow_down(121.0))

    async def main():
        client = Client(Endpoint("http://127.0.0.1:1/v1", "m", timeout=120.0))
        client._wire.post = endpoint.post
        with pytest.raises(TraceError) as caught:
            await client.ask([{"role": "user", "content": "q"}], schema=SCHEMA, purpose="t")
        await client.close()
        assert asyncio.get_running_loop().time() < 1.0
        return caught.value

    error = run(main())
    assert (error.code, error.extra) == ("llm_rate_limited", {"retry_after": 121.0})


class Tokens(Ledger):
    """Of the answers that were taken."""

    def __init__(self):
        self.written = 0

    async def ended(self, exchange, reply):
        self.written += exchange.completion_tokens if reply else 0


def test_under_load_nothing_is_sent_early_and_the_books_agree():
    told = Tokens()
    with LoadServer(seed=3, median=0.02, faults={"429": 0.1, "500": 0.05}, retry_after="0.3") as server:

        async def main():
            client = Client(Endpoint(server.url, "m", "key", concurrency=32), ledger=told)
            asked = [
                client.ask([{"role": "user", "content": f"{n}"}], schema=SCHEMA, purpose="t")
                for n in range(300)
            ]
            await asyncio.gather(*asked)
            await client.close()

        asyncio.run(main())
        books = server.books()
        exchanges = server.exchanges()
    assert books["early"] == 0
    assert books["peak"] <= 32
    assert books["in_flight"] == 0
    assert len({one.uid for one in exchanges}) == len(exchanges) > 300
    assert sum(one.completion_tokens for one in exchanges) == told.written


def in_seconds(seconds):
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("header", "least"),
    [
        ("1", 1.0),
        ("0.6", 0.6),
        (" 1 ", 1.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("", 0.0),
        ("soon", 0.0),
        (-60, 0.0),
        (2, 0.9),  # dates have whole seconds
        ("90", None),
        ("9999999999999999999999", None),
        (3600, None),
    ],
)
def test_every_form_is_honoured_on_the_wire(header, least):
    """header: a number stands for a date so many seconds from now.

    least: seconds until the call is sent again; None: it fails at once, carrying how long it was told to wait.
    """
    server = LlmServer()
    server.faults = [f"429:{in_seconds(header) if isinstance(header, int) else header}"]

    async def main():
        client = Client(Endpoint(server.url, "m", "key", timeout=20.0))
        try:
            return await client.ask([{"role": "user", "content": "q"}], schema=SCHEMA, purpose="t")
        except TraceError as error:
            return error
        finally:
            await client.close()

    try:
        end = asyncio.run(main())
    finally:
        server.close()
    if least is None:
        assert (end.code, len(server.requests)) == ("llm_rate_limited", 1)
        assert end.extra["retry_after"] >= 90.0
    else:
        assert end.data == {"ok": True}
        assert server.times[1] - server.times[0] >= least
