"""The ledger: group commit, books that close whatever happens, a database that goes away."""

import asyncio
import uuid

import pytest
from django.db import OperationalError, connection

from synthesis.llm import ledger as llm_ledger
from synthesis.llm.ledger import DatabaseLedger
from synthesis.models import ModelCall, ModelReply
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.exchange import Exchange, Reply

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ledger():
    made = DatabaseLedger(None)
    yield made
    made.close()


def exchange(key="key", **changes):
    return Exchange(key, "trace", "http://here/v1", "tester", "hash", **changes)


def reply(**data):
    return Reply(data or {"ok": True})


async def whole_call(ledger, one, answer):
    await ledger.sent(one)
    one.prompt_tokens, one.completion_tokens, one.seconds = 11, 7, 0.5
    await ledger.ended(one, answer)


def test_calls_at_once_share_transactions(ledger, monkeypatch):
    commits = []
    commit = llm_ledger._committed
    monkeypatch.setattr(
        llm_ledger, "_committed", lambda entries: commits.append(len(entries)) or commit(entries)
    )

    async def all_of_them():
        await asyncio.gather(*(whole_call(ledger, exchange(f"k{n}"), reply(n=n)) for n in range(64)))

    asyncio.run(all_of_them())
    assert ModelCall.objects.filter(state="answered", prompt_tokens=11, completion_tokens=7).count() == 64
    assert ModelReply.objects.count() == 64 and sum(commits) == 128
    assert len(commits) <= 16


def test_row_is_committed_before_the_call_leaves_and_the_reply_before_it_is_used(ledger):
    async def story():
        one = exchange()
        assert await ledger.kept("key") is None
        await ledger.sent(one)
        assert await asyncio.to_thread(states) == ["sent"]
        await ledger.ended(one, reply(a=1))
        assert await asyncio.to_thread(states) == ["answered"]
        assert await ledger.kept("key") == {"a": 1}

    asyncio.run(story())


def states():
    try:
        return list(ModelCall.objects.values_list("state", flat=True))
    finally:
        connection.close()


def test_cancelled_exchange_ends_as_failed(ledger):
    async def story():
        one = exchange()
        await ledger.sent(one)
        await ledger.ended(one, None)
        waiting = asyncio.ensure_future(ledger.sent(exchange()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(story())
    ledger.close()
    assert list(ModelCall.objects.values_list("state", "error_code")) == [("failed", "llm_cancelled")] * 2


def test_one_row_the_database_refuses_fails_alone(ledger):
    async def story():
        good, bad = exchange("good"), exchange("bad", uid="no uid")
        return await asyncio.gather(ledger.sent(good), ledger.sent(bad), return_exceptions=True)

    first, second = asyncio.run(story())
    assert first is None and isinstance(second, TraceError) and second.code == "ledger_down"
    assert list(ModelCall.objects.values_list("key", flat=True)) == ["good"]


def test_token_counts_beyond_any_column_are_capped(ledger):
    async def story():
        one = exchange()
        await ledger.sent(one)
        one.prompt_tokens = 10**12
        await ledger.ended(one, Reply({"ok": True}))

    asyncio.run(story())
    assert ModelCall.objects.get().prompt_tokens == ModelReply.objects.get().prompt_tokens == 2**31 - 1


def test_lost_connections_are_made_anew_and_no_row_is_lost_or_doubled(ledger):
    async def story():
        for number in range(12):
            await asyncio.gather(*(whole_call(ledger, exchange(f"{number}-{n}"), reply()) for n in range(8)))
            if number % 3 == 0:
                await asyncio.to_thread(terminate_the_ledger)

    asyncio.run(story())
    assert ModelCall.objects.filter(state="answered").count() == ModelCall.objects.count() == 96
    assert ModelReply.objects.count() == 96


def test_commit_whose_answer_is_lost_is_repeated_and_changes_nothing(ledger, monkeypatch):
    commit, seen = llm_ledger._committed, []

    def unheard(entries):
        done = commit(entries)
        seen.append(list(ModelCall.objects.values_list("state", "ended_at")))
        if len(seen) % 2:
            raise OperationalError("server closed the connection unexpectedly")
        return done

    monkeypatch.setattr(llm_ledger, "_committed", unheard)
    asyncio.run(whole_call(ledger, exchange(), reply(a=1)))
    opened, again, ended, ended_again = seen
    assert opened == again == [("sent", None)]
    assert ended == ended_again and ended[0][0] == "answered"
    assert list(ModelReply.objects.values_list("response", flat=True)) == [{"a": 1}]


def terminate_the_ledger():
    """End every other connection to this database."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND query LIKE '%%synthesis_model%%'",
                (),
            )
    finally:
        connection.close()


def test_database_that_stays_away_fails_the_waiting_calls_with_a_type(ledger, monkeypatch):
    def away(entries):
        raise OperationalError("server closed the connection")

    monkeypatch.setattr(llm_ledger, "PATIENCE", 0.5)
    monkeypatch.setattr(llm_ledger, "_committed", away)
    with pytest.raises(TraceError, match="cannot be written .server closed the connection.") as told:
        asyncio.run(ledger.sent(exchange()))
    assert told.value.code == "ledger_down"


def test_close_writes_what_nobody_waits_for(ledger):
    async def story():
        for _ in range(50):
            ledger._put(opened=ledger._row(exchange(uid=uuid.uuid4()), "sent"))

    asyncio.run(story())
    ledger.close()
    assert ModelCall.objects.count() == 50
