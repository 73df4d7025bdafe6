"""The ledger of trace_site.lib.llm over Postgres: replies by content key, one row per exchange.

One thread with a connection of its own serves every call under way. What comes in while it commits goes into the next
transaction together (group commit), so the event loop never waits for the database and 64 calls share one commit. A
call waits for its own row, so the queue is never longer than the calls under way. A lost connection is made anew and
the transaction repeated (each write may be repeated); after some time the waiting calls fail with `ledger_down`.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models.functions import Now

from synthesis.models import ModelCall, ModelReply
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError
from trace_site.lib.llm import Exchange, Reply

# Waiting for a database that is away for a moment: restarts, failovers, ended connections.


T = TypeVar("T")
PATIENCE = 30.0  # seconds
AWAY = (OperationalError, InterfaceError)


def patiently(work: Callable[[], T]) -> T:
    """What `work` gives. It is repeated on a new connection while the database is away, so it must bear that.

    Raises the database's error after PATIENCE seconds, and at once inside a transaction.
    """
    given_up = time.monotonic() + PATIENCE
    while True:
        try:
            return work()
        except AWAY:
            if connection.in_atomic_block or time.monotonic() > given_up:
                raise
            connection.close()
            time.sleep(0.2)


BATCH = 200
LINGER = 0.002  # seconds that a transaction waits for company
MOST = 2**31 - 1
CLOSING = ["state", "error_code", "prompt_tokens", "completion_tokens", "cost", "seconds", "ended_at"]


@dataclass(slots=True, eq=False)
class _Entry:
    """One thing to look up (`key`) or to write, and who waits for it."""

    waiter: "asyncio.Future[Any]"
    key: str = ""
    opened: ModelCall | None = None
    closed: ModelCall | None = None
    reply: ModelReply | None = None


class DatabaseLedger:
    """For one event loop. `close` it once its calls have ended: what they wrote is committed then."""

    def __init__(self, job: Job | None) -> None:
        self.job = job
        self._inbox: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def kept(self, key: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self._put(key=key)
        return found

    async def sent(self, exchange: Exchange) -> None:
        try:
            await self._put(opened=self._row(exchange, ModelCall.State.SENT))
        except asyncio.CancelledError:  # the row may be there, and the request will not leave
            exchange.error_code = "llm_cancelled"
            exchange.prompt_tokens = exchange.completion_tokens = 0
            exchange.cost = 0.0
            self._put(closed=self._row(exchange, ModelCall.State.FAILED))
            raise

    async def ended(self, exchange: Exchange, reply: Reply | None) -> None:
        if reply is None:
            exchange.error_code = exchange.error_code or "llm_cancelled"
        state = ModelCall.State.FAILED if reply is None else ModelCall.State.ANSWERED
        await self._put(closed=self._row(exchange, state), reply=_kept_reply(exchange, reply))

    def close(self) -> None:
        """Write what was handed in, end the thread. Closing twice does nothing."""
        if self._thread is not None:
            self._inbox.put(None)
            self._thread.join()
            self._thread = None

    def _put(self, **parts: Any) -> "asyncio.Future[Any]":
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True, name="ledger")
            self._thread.start()
        entry = _Entry(asyncio.get_running_loop().create_future(), **parts)
        self._inbox.put(entry)
        return entry.waiter

    def _row(self, exchange: Exchange, state: str) -> ModelCall:
        return ModelCall(
            uid=exchange.uid,
            key=exchange.key,
            purpose=exchange.purpose[:20],
            endpoint=exchange.endpoint[:200],
            model=exchange.model[:200],
            prompt_hash=exchange.prompt_hash,
            state=state,
            error_code=exchange.error_code[:60],
            prompt_tokens=min(exchange.prompt_tokens, MOST),
            completion_tokens=min(exchange.completion_tokens, MOST),
            cost=exchange.cost,
            seconds=exchange.seconds,
            job=self.job,
            ended_at=None if state == ModelCall.State.SENT else Now(),
        )

    def _serve(self) -> None:
        try:
            while entries := self._next():
                self._settle(entries)
        finally:
            connection.close()

    def _next(self) -> list[_Entry]:
        """What waits by now; nothing at the end."""
        if (first := self._inbox.get()) is None:
            return []
        time.sleep(LINGER)
        entries = [first]
        while len(entries) < BATCH and not self._inbox.empty():
            if (entry := self._inbox.get()) is None:
                self._inbox.put(None)
                break
            entries.append(entry)
        return entries

    def _settle(self, entries: list[_Entry]) -> None:
        try:
            return _tell(entries, patiently(lambda: _committed(entries)))
        except AWAY as error:
            return _tell(entries, _failure("the ledger of calls cannot be written", error))
        except Exception as error:  # noqa: BLE001 - whoever waits is told; the thread lives on
            if len(entries) == 1:
                return _tell(entries, _failure("a call cannot be written to the ledger", error))
        for entry in entries:
            self._settle([entry])


def _committed(entries: list[_Entry]) -> dict[str, Any]:
    """Write the rows in one transaction; returns the kept replies that were asked for, by key."""
    opened = [entry.opened for entry in entries if entry.opened]
    closed = {entry.closed.uid: entry.closed for entry in entries if entry.closed}
    replies = [entry.reply for entry in entries if entry.reply]
    if opened or closed:
        with transaction.atomic():
            ModelCall.objects.bulk_create(opened, ignore_conflicts=True)
            ModelCall.objects.bulk_create(
                closed.values(), update_conflicts=True, unique_fields=["uid"], update_fields=CLOSING
            )
            ModelReply.objects.bulk_create(replies, ignore_conflicts=True)
    keys = {entry.key for entry in entries if entry.key}
    return dict(ModelReply.objects.filter(key__in=keys).values_list("key", "response")) if keys else {}


def _kept_reply(exchange: Exchange, reply: Reply | None) -> ModelReply | None:
    if reply is None:
        return None
    return ModelReply(
        key=exchange.key,
        purpose=exchange.purpose[:20],
        model=exchange.model[:200],
        prompt_hash=exchange.prompt_hash,
        response=reply.data,
        prompt_tokens=min(reply.prompt_tokens, MOST),
        completion_tokens=min(reply.completion_tokens, MOST),
    )


def _failure(what: str, error: Exception) -> TraceError:
    first_line = str(error).strip().partition("\n")[0][:120]
    return TraceError(
        f"{what} ({first_line}).",
        code="ledger_down",
        where="the database",
        hint="Nothing is asked that is not in the books. Check the database, then resume.",
    )


def _tell(entries: list[_Entry], result: dict[str, Any] | TraceError) -> None:
    def settle() -> None:
        for entry in entries:
            if entry.waiter.done():  # cancelled meanwhile
                continue
            if isinstance(result, TraceError):
                entry.waiter.set_exception(result)
            else:
                entry.waiter.set_result(result.get(entry.key))

    try:
        entries[0].waiter.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:  # the loop has ended: nobody waits
        return
