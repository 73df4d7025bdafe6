"""The client against a local endpoint that misbehaves in every way endpoints do, each way several times."""

import asyncio
from collections import Counter

import pytest

from tests.lib.simulated import SCHEMA
from tests.llm_server import FLOOD, LlmServer
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import UNKNOWN_USAGE, Endpoint, Ledger
from trace_site.lib.llm.limiter import Budget, limiter_of

TIMES = 8
KEY = "sk-canary-0123456789"
# fault: the code of its error
FINAL = {
    "duplicate": "llm_bad_json",
    "nan": "llm_bad_json",
    "infinity": "llm_bad_json",
    "huge_number": "llm_bad_json",
    "deep": "llm_bad_json",
    "prose": "llm_bad_json",
    "list": "llm_bad_schema",
    "refusal": "llm_refused",
    "content_filter": "llm_content_filter",
    "empty": "llm_empty",
    "blank": "llm_empty",
    "null": "llm_empty",
    "401": "llm_unauthorized",
    "403": "llm_unauthorized",
    "404": "llm_bad_request",
    "413": "llm_too_long",
    "too_long": "llm_too_long",
    "302:http://127.0.0.1:1/v1/chat/completions": "llm_bad_request",
    "307:/v1/elsewhere": "llm_bad_request",
    "flood": "llm_too_large",
    "flood_500": "llm_too_large",
    "quota": "llm_quota",
    "key_repeated": "llm_key_repeated",
}
PASSING = {
    "429": "llm_rate_limited",
    "500": "llm_server_error",
    "502": "llm_server_error",
    "503": "llm_server_error",
    "529": "llm_server_error",
    "408": "llm_server_error",
    "hang": "llm_timeout",
    "slow": "llm_timeout",
    "reset": "llm_broken",
    "reset_midway": "llm_broken",
    "cut": "llm_broken",
    "cut_body": "llm_broken",
    "headers": "llm_broken",
    "garbage": "llm_broken",
    "html": "llm_not_json",
    "nothing": "llm_not_json",
    "sse": "llm_not_json",
    "sse_cut": "llm_not_json",
    "utf16": "llm_not_json",
    "gzip": "llm_not_json",
    "shape": "llm_not_json",
    "no_choice": "llm_not_json",
    "no_message": "llm_not_json",
    "error_200": "llm_server_error",
    "limited_200": "llm_rate_limited",
    "wrong_model": "llm_wrong_model",
}


class Books(Ledger):
    def __init__(self):
        self.sent_ids, self.ends = [], []

    async def sent(self, exchange):
        self.sent_ids.append(str(exchange.uid))

    async def ended(self, exchange, reply):
        self.ends.append((exchange.error_code, reply, exchange.spent))


@pytest.fixture
def server():
    server = LlmServer()
    yield server
    server.close()


def ask_all(server, number, **options):
    """Ask so many different questions at once: replies and errors, the books, and the budget."""
    books, budget = Books(), Budget(calls=10_000, tokens=10_000_000)
    endpoint = Endpoint(
        server.url, "m", KEY, **{"timeout": 20.0, "attempt_timeout": 10.0, "retries": 0, **options}
    )

    async def main():
        client = Client(endpoint, ledger=books, budget=budget)
        try:
            asked = [
                client.ask([{"role": "user", "content": f"q{n}"}], schema=SCHEMA, purpose="test")
                for n in range(number)
            ]
            ends = await asyncio.gather(*asked, return_exceptions=True)
            assert limiter_of(server.url, 1).in_flight == 0
            return ends
        finally:
            await client.close()

    return asyncio.run(main()), books, budget


@pytest.mark.parametrize(("fault", "code"), [*FINAL.items(), *PASSING.items()])
def test_every_fault_is_a_typed_error_and_leaves_nothing_behind(server, fault, code):
    server.faults = [fault] * TIMES
    short = 1.0 if fault in ("hang", "slow") else 10.0
    ends, books, budget = ask_all(server, TIMES + 1, attempt_timeout=short)
    errors = [end for end in ends if isinstance(end, Exception)]
    assert all(isinstance(error, TraceError) for error in errors), errors
    expected = {code} | ({"llm_unavailable"} if code == "llm_rate_limited" else set())
    assert len(errors) == TIMES
    assert {error.code for error in errors} <= expected
    assert {error.where for error in errors} == {server.url}
    assert sum(end.data == {"ok": True} for end in ends if end not in errors) == 1
    assert sorted(books.sent_ids) == sorted(request["id"] for request in server.requests)
    assert len(books.ends) == len(server.requests) == TIMES + 1
    assert sum(reply is not None for _, reply, _ in books.ends) == 1
    assert budget.reserved.calls == budget.reserved.tokens == 0
    assert budget.spent.calls == TIMES + 1


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_tried_again_within_the_deadline(server, fault):
    server.faults = [fault] * 3
    short = 1.0 if fault in ("hang", "slow") else 10.0
    ends, books, _ = ask_all(server, 3, attempt_timeout=short, retries=4)
    assert [end.data for end in ends] == [{"ok": True}] * 3
    assert len(server.requests) == 6
    assert len(set(books.sent_ids)) == 6  # each exchange has an id of its own


@pytest.mark.parametrize("fault", FINAL)
def test_what_would_end_the_same_way_is_not_sent_again(server, fault):
    server.faults = [fault]
    ends, _, _ = ask_all(server, 1, retries=4)
    assert isinstance(ends[0], TraceError)
    assert len(server.requests) == 1


def test_a_flood_is_cut_early(server):
    server.faults = ["flood"] * 4
    ask_all(server, 4)
    assert server.flooded < 4 * FLOOD / 5


def test_the_deadline_of_a_call_holds_over_all_its_attempts(server):
    server.faults = ["hang"] * 50

    async def main():
        client = Client(Endpoint(server.url, "m", KEY, timeout=1.0, attempt_timeout=0.3, retries=100))
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(TraceError, match="in time"):
            await client.ask([{"role": "user", "content": "q"}], schema=SCHEMA, purpose="test")
        await client.close()
        return loop.time() - started

    assert asyncio.run(main()) < 2.0
    assert 1 < len(server.requests) < 5


def test_what_may_have_been_paid_counts_in_full_and_what_was_refused_does_not(server):
    for fault, spent in [
        ("ok", 18),
        ("refusal", 18),
        ("500", 0),
        ("429", 0),
        ("no_usage", None),
        ("cut", None),
    ]:
        server.faults = [fault]
        _, books, budget = ask_all(server, 1)
        code, _, counted = books.ends[-1]
        assert counted == budget.spent
        if spent is None:
            assert counted.tokens > 2000  # the upper bound: max_tokens and every byte that was sent
            assert not code or code in UNKNOWN_USAGE
        else:
            assert counted.tokens == spent


def test_a_model_may_tell_its_version_and_names_the_settings_know(server):
    server.faults = ["dated_model", "wrong_model", "wrong_model"]
    assert not isinstance(ask_all(server, 1)[0][0], Exception)
    ends = ask_all(server, 1)[0]
    assert ends[0].code == "llm_wrong_model"
    assert "another-model" in str(ends[0])
    assert not isinstance(ask_all(server, 1, answers_as=("another-model",))[0][0], Exception)


def test_no_connection_is_lost_to_a_timeout(server):
    server.faults = ["hang", "ok", "ok"] * 4
    ends, _, _ = ask_all(server, 60, concurrency=4, attempt_timeout=1.0)
    counted = Counter(getattr(end, "code", "ok") for end in ends)
    # a busy machine may keep others waiting as long; were the four connections gone, nobody more would be answered
    assert counted.keys() == {"llm_timeout", "ok"} and counted["llm_timeout"] >= 4 and counted["ok"] > 30


@pytest.mark.parametrize("fault", ["unauthorized", "key_repeated", "hang", "reset", "500", "flood", "html"])
def test_the_key_is_in_no_error_and_no_log(server, fault, caplog):
    caplog.set_level("DEBUG")
    server.faults = [fault]
    ends, _, _ = ask_all(server, 1, attempt_timeout=0.3)
    seen = ends[0]
    while seen is not None:
        assert KEY not in f"{seen} {seen!r} {seen.__dict__}"
        assert seen.__cause__ is None
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    assert KEY not in repr(Endpoint(server.url, "m", KEY))
    assert KEY not in caplog.text
    assert server.requests[0]["authorization"] == f"Bearer {KEY}"
