"""The ledger of trace_site.lib.llm over Postgres: replies by content key, a row per exchange; and a job's books in it.

One thread with a connection of its own serves every call under way. What comes in while it commits goes into the next
transaction together (group commit), so the event loop never waits for the database and 64 calls share one commit. A
call waits for its own row, so the queue is never longer than the calls under way. A lost connection is made anew and
the transaction repeated (each write may be repeated); after some time the waiting calls fail with `ledger_down`.
"""

import asyncio
import queue
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.models import Aggregate, Count, F, FloatField, Max, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Now

from synthesis.models import ModelCall, ModelReply
from trace_site.jobs import Job
from trace_site.lib.errors import TraceError, quoted
from trace_site.lib.llm.exchange import Exchange, Ledger, Reply
from trace_site.lib.llm.limiter import Spent
from trace_site.outages import AWAY

T = TypeVar("T")
PATIENCE = 30.0  # seconds that a restart or a failover of the database may take


def patiently(work: Callable[[], T]) -> T:
    """What `work` gives. It is repeated on a new connection while the database is away, so it must bear that.

    Raises the database's error after PATIENCE seconds, and at once inside a transaction.
    """
    given_up = time.monotonic() + PATIENCE
    while True:
        try:
            return work()
        except (*AWAY, AttributeError) as error:
            # a connection that ends while a transaction does is None, of which Django wants the autocommit all the same
            is_away = isinstance(error, AWAY) or connection.connection is None
            if not is_away or connection.in_atomic_block or time.monotonic() > given_up:
                raise
            connection.close()
            time.sleep(0.2)


BATCH = 200
LINGER = 0.002  # seconds that a transaction waits for company
MOST = 2**31 - 1  # that a column holds
CLOSING = ["state", "error_code", "error_text", "unwrapped", "prompt_tokens", "completion_tokens", "cost"]
CLOSING += ["seconds", "ended_at"]


@dataclass(slots=True, eq=False)
class _Entry:
    """One thing to look up (`key`) or to write, and who waits for it."""

    waiter: "asyncio.Future[Any]"
    key: str = ""
    opened: ModelCall | None = None
    closed: ModelCall | None = None
    reply: ModelReply | None = None


class DatabaseLedger(Ledger):
    """For one event loop. `close` it once its calls have ended: what they wrote is committed then."""

    def __init__(self, job: Job | None) -> None:
        self.job = job
        self._inbox: queue.SimpleQueue[_Entry] = queue.SimpleQueue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")

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
        await self._put(closed=self._row(exchange, state), reply=reply and _kept_reply(exchange, reply))

    def close(self) -> None:
        """Write what was handed in, end the thread. Closing twice does nothing."""
        with suppress(RuntimeError):  # it is closed
            self._thread.submit(connection.close)
        self._thread.shutdown()

    def _put(self, **parts: Any) -> "asyncio.Future[Any]":
        entry = _Entry(asyncio.get_running_loop().create_future(), **parts)
        self._inbox.put(entry)
        self._thread.submit(self._write)
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
            error_text=exchange.error_text,
            unwrapped=exchange.unwrapped,
            prompt_tokens=min(exchange.prompt_tokens, MOST),
            completion_tokens=min(exchange.completion_tokens, MOST),
            cost=exchange.cost,
            seconds=exchange.seconds,
            job=self.job,
            ended_at=None if state == ModelCall.State.SENT else Now(),
        )

    def _write(self) -> None:
        """What waits by now, together; who comes to it later finds nothing left."""
        if self._inbox.empty():
            return
        time.sleep(LINGER)
        entries = [self._inbox.get()]
        while len(entries) < BATCH and not self._inbox.empty():
            entries.append(self._inbox.get())
        self._settle(entries)

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
            rows = ModelCall.objects.filter(uid__in=closed).select_for_update()
            for uid, ended_at in rows.values_list("uid", "ended_at"):
                if ended_at:  # by a commit whose answer was lost: the row stays as that wrote it
                    del closed[uid]
            ModelCall.objects.bulk_create(
                closed.values(), update_conflicts=True, unique_fields=["uid"], update_fields=CLOSING
            )
            ModelReply.objects.bulk_create(replies, ignore_conflicts=True)
    keys = {entry.key for entry in entries if entry.key}
    return dict(ModelReply.objects.filter(key__in=keys).values_list("key", "response")) if keys else {}


def _kept_reply(exchange: Exchange, reply: Reply) -> ModelReply:
    return ModelReply(
        key=exchange.key,
        purpose=exchange.purpose[:20],
        model=exchange.model[:200],
        prompt_hash=exchange.prompt_hash,
        response=reply.data,
        prompt_tokens=min(exchange.prompt_tokens, MOST),
        completion_tokens=min(exchange.completion_tokens, MOST),
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


# The books of a job: calls, tokens, money and seconds, by purpose and model, and errors by code.

LOST = "llm_lost"  # sent by a process that died: perhaps paid, never read


class Percentile(Aggregate):
    """Percentile(share, column): interpolated, as Postgres counts it."""

    function = "percentile_cont"
    template = "%(function)s(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()

    def __init__(self, share: float, column: str, **extra: Any) -> None:
        super().__init__(F(column), share=share, **extra)


ANSWERED = Q(state=ModelCall.State.ANSWERED)
SUMS = {
    "calls": Count("pk"),
    "answered": Count("pk", filter=ANSWERED),
    "failed": Count("pk", filter=Q(state=ModelCall.State.FAILED)),
    "under_way": Count("pk", filter=Q(state=ModelCall.State.SENT)),
    "lost": Count("pk", filter=Q(error_code=LOST)),
    "unwrapped": Count("pk", filter=Q(unwrapped=True)),
    # before the two columns it adds: an aggregate hides the column of its name from those behind it
    "tokens": Coalesce(Sum(F("prompt_tokens") + F("completion_tokens")), 0),
    "prompt_tokens": Coalesce(Sum("prompt_tokens"), 0),
    "completion_tokens": Coalesce(Sum("completion_tokens"), 0),
    "cost": Coalesce(Sum("cost"), 0.0),
    "p50": Coalesce(Percentile(0.5, "seconds", filter=ANSWERED), 0.0),
    "p95": Coalesce(Percentile(0.95, "seconds", filter=ANSWERED), 0.0),
}


def job_books(job: Job | None) -> dict[str, Any]:
    """{"total": SUMS of all calls, "lines": those per purpose and model, "errors": {code: calls}, most frequent first,
    "error_texts": {code: what the server said of one of them}}.

    Three queries whatever the job's size; zeros for a job that asked no model.
    """
    rows = ModelCall.objects.filter(job=job) if job else ModelCall.objects.none()
    failed = rows.exclude(error_code="").values_list("error_code")
    counted = failed.annotate(calls=Count("pk"), text=Max("error_text"))
    errors = list(counted.order_by("-calls", "error_code"))
    return {
        "total": {"purpose": "", "model": "", **rows.aggregate(**SUMS)},
        "lines": list(rows.values("purpose", "model").order_by("purpose", "model").annotate(**SUMS)),
        "errors": {code: calls for code, calls, _ in errors},
        "error_texts": {code: text for code, _, text in errors if text},
    }


# What a run may spend: calls, tokens and money, counted from the ledger over all attempts of its job.
#
# A call that was lost with its process, cancelled or timed out counts in full: its ledger row holds the most it can
# have cost. What the endpoint refused counts as a call without tokens.


LIMITS = ("calls", "tokens", "money")
MOST_SPENT = 10**12


def read_budget(given: Mapping[str, Any] | None) -> dict[str, float]:
    """{limit: most}, without what is not limited. Raises TraceError naming the limit that is no positive number."""
    found = {name: value for name, value in (given or {}).items() if value is not None}
    for name, value in found.items():
        number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        whole = name == "money" or isinstance(value, int)
        if name not in LIMITS or not number or not whole or not 0 < value <= MOST_SPENT:
            raise TraceError(
                f"{quoted(value)} is no budget.",
                code="bad_option",
                where=f"budget.{name}",
                hint="Use whole numbers above 0 for calls and tokens, a number above 0 for money; at most "
                f"{MOST_SPENT:,}.",
            )
    return found


def spent(job: Job) -> Spent:
    """What every attempt of the job has spent so far."""
    return spent_on(ModelCall.objects.filter(job=job))


def spent_on(calls: QuerySet[ModelCall]) -> Spent:
    tokens = Sum(F("prompt_tokens") + F("completion_tokens"))
    sums = calls.aggregate(calls=Count("pk"), tokens=tokens, money=Sum("cost"))
    return Spent(calls=sums["calls"], tokens=sums["tokens"] or 0, money=sums["money"] or 0.0)
