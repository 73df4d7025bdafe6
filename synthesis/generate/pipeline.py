"""The pipeline of one sample: query -> filter -> trace -> filter -> judge, again with the critique until it passes.

In: a Unit (what to write). Out: an Outcome with every attempt. No database: many units are under way in one event
loop, and a killed run loses only those. The first try and `retries` more; then the sample is dropped. Below: many
samples side by side, written in a thread of its own.
"""

import asyncio
import queue
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from synthesis.core.filters import Candidate, Failure, FilterContext, query_failures, trace_failures
from synthesis.core.queries import (
    QueryDraft,
    QueryRequest,
    Writers,
    judge_request,
    permission_targets,
    trace_request,
)
from trace_site.lib.errors import TraceError
from trace_site.lib.llm.exchange import FATAL

# going on with the next sample would fail the same way, or ask what no book knows of
STOPS = FATAL | {"ledger_down", "bad_prompt"}
# a verdict on these axes is about the query; the trace alone cannot mend it
QUERY_AXES = frozenset({"naturalness", "compliance", "label"})
REFUSED = "A reviewer rejected this very query."


@dataclass(frozen=True, slots=True)
class Unit:
    """One planned sample. With `given`, query and answer are fixed and only the trace is written.

    `refused`: queries that people rejected in its place. A critique in the request is told at every attempt.
    """

    sample_id: int
    request: QueryRequest
    permission_share: float = 0.0
    given: QueryDraft | None = None
    refused: frozenset[str] = frozenset()


@dataclass(slots=True)
class Tried:
    number: int
    outcome: str = "error"
    query: str = ""
    trace: str = ""
    answer: tuple[str, ...] = ()
    failures: list[Failure] = field(default_factory=list)
    judge: dict[str, Any] = field(default_factory=dict)
    critique: str = ""
    error: str = ""
    error_code: str = ""
    calls: int = 0
    passed: QueryDraft | None = None  # the query, once filter V let it through


@dataclass(slots=True)
class Outcome:
    """`pool`: the tool names that the writers saw."""

    sample_id: int
    ready: bool
    draft: QueryDraft
    trace: str
    permissions: tuple[str, ...]
    attempts: list[Tried]
    pool: tuple[str, ...] = ()


class Pipeline:
    """Writers, filter and judge of one run."""

    def __init__(self, writers: Writers, context: FilterContext, retries: int = 5) -> None:
        self.writers = writers
        self.context = context
        self.retries = retries

    async def make(self, unit: Unit) -> Outcome:
        """All attempts at one sample. Raises TraceError only for what would fail every other sample too."""
        attempts: list[Tried] = []
        draft = unit.given
        critique = unit.request.critique
        permissions: tuple[str, ...] = ()
        pool = tuple(tool.name for tool in unit.request.pool)
        for number in range(1, self.retries + 2):
            tried = Tried(number)
            attempts.append(tried)
            try:
                draft, permissions = await self._attempt(unit, draft, tried, critique)
            except TraceError as error:
                if error.code in STOPS:
                    raise
                tried.error, tried.error_code = str(error), error.code
                draft = tried.passed  # not paid for again because its trace or verdict failed
                # what was refused for the others of its batch is asked again alone
                if error.permanent and not (number == 1 and not tried.query and unit.request.batch_seed):
                    break
                continue
            if tried.outcome == "ready":
                return Outcome(unit.sample_id, True, draft, tried.trace, permissions, attempts, pool)
            critique = f"{unit.request.critique} {tried.critique}".strip()
            query_is_bad = not tried.trace or QUERY_AXES & set(tried.judge.get("failed", ()))
            if unit.given is None and query_is_bad:
                self._give_up(tried)
                draft = None
        if unit.given is None:
            self._give_up(tried)
        last = next((t for t in reversed(attempts) if t.query), attempts[-1])
        kept = QueryDraft(last.query, last.answer, "")
        return Outcome(unit.sample_id, False, kept, last.trace, permissions, attempts, pool)

    def _give_up(self, tried: Tried) -> None:
        """A query that will not be used stands in the way of no better one."""
        if tried.passed is not None:
            self.context.seen.discard(tried.passed.query)
            tried.passed = None

    async def _attempt(
        self, unit: Unit, draft: QueryDraft | None, tried: Tried, critique: str
    ) -> tuple[QueryDraft, tuple[str, ...]]:
        """One pass; fills `tried`. A draft that passed the filter is kept while only its trace fails."""
        request = replace(unit.request, attempt=tried.number, critique=critique)
        fresh = draft is None
        if draft is None:
            draft = await self.writers.query.write(request)
            tried.calls += draft.calls
        tried.query, tried.answer = draft.query, draft.answer
        candidate = candidate_of(request, draft)
        if fresh or unit.given:
            tried.failures = query_failures(candidate, self.context)
            if fresh and (candidate.query in unit.refused or candidate.query in self.context.rejected):
                tried.failures.append(Failure("near_duplicate", REFUSED, candidate.query))
            if tried.failures:
                tried.outcome, tried.critique = "filtered", _told(tried.failures)
                return draft, ()
            if fresh:  # remembered at once, so that no other unit writes its twin
                self.context.seen.add(candidate.query)
        tried.passed = draft
        permissions = permission_targets(draft.answer, request.pool, unit.permission_share, request.seed)
        written = await self.writers.trace.write(trace_request(request, draft, permissions))
        tried.trace = written.trace
        tried.calls += written.calls
        tried.failures = trace_failures(replace(candidate, trace=tried.trace), self.context)
        if tried.failures:
            tried.outcome, tried.critique = "filtered", _told(tried.failures)
            return draft, permissions
        asked = judge_request(request, draft, tried.trace, str(unit.sample_id))
        found = await self.writers.judge.judge(asked)
        verdict = found.of(str(unit.sample_id))
        tried.calls += verdict.calls
        tried.judge = {**verdict.scores, "critique": verdict.critique, "failed": list(verdict.failed_axes)}
        tried.outcome = "ready" if verdict.passed else "judged_out"
        tried.critique = "" if verdict.passed else verdict.critique or "Scored too low."
        return draft, permissions


def candidate_of(request: QueryRequest, draft: QueryDraft) -> Candidate:
    made = (request.branch, draft.query, draft.answer, request.pool, request.rule)
    return Candidate.of(*made, style=request.style, tier=request.tier)


def _told(failures: list[Failure]) -> str:
    return " ".join(f"{failure.message} ({failure.evidence})" for failure in failures)


# Many samples. The caller keeps the database and the job: units are drawn and batches committed in its thread. At most
# `workers` + BATCH units are handed over and not committed, so memory is flat and a kill loses few. Closing the
# generator (a cancelled job, a lost lease) cancels what is under way.

Close = Callable[[], Awaitable[None]]
BATCH = 100
POLL = 0.2  # seconds between two looks at whether the job goes on
# a batch waits for company a few times as long as the last one took to commit, so that commits stay cheap
COMPANY = 4
PAUSE = 0.25  # seconds, at most
# the run ends, but what is under way is paid for and may end well
GENTLE = frozenset({"llm_budget"})


def written(
    pipeline: Pipeline,
    units: Iterable[Unit],
    workers: int,
    *,
    check: Callable[[], None] = lambda: None,
    close: Close | None = None,
) -> Iterator[list[Outcome]]:
    """Outcomes in batches, in the order they end; at most `workers` units are under way.

    `check` is called all the time and may raise; `close` is awaited at the end in the loop. Raises what a unit raises,
    once what ended before it has been handed over.
    """
    rest, loop = iter(units), _Loop(pipeline, workers, close)
    under_way, pause = 0, 0.0
    try:
        while True:
            fresh = [] if loop.stopped_by else list(islice(rest, workers + BATCH - under_way))
            loop.begin(fresh)
            under_way += len(fresh)
            if not under_way:
                break
            ended = loop.take(check, pause)
            began = time.monotonic()
            if batch := [outcome for outcome in ended if outcome is not None]:
                yield batch
            pause = min(PAUSE, COMPANY * (time.monotonic() - began))
            under_way -= len(ended)
        if loop.stopped_by is not None:
            raise loop.stopped_by
    finally:
        loop.cancel()


class _Loop:
    """The event loop's thread. Methods without an underscore belong to the caller's thread."""

    def __init__(self, pipeline: Pipeline, workers: int, close: Close | None) -> None:
        self.stopped_by: BaseException | None = None
        self._is_over = False  # nothing is begun any more
        self._pipeline, self._close = pipeline, close
        self._slots, self._over = asyncio.Semaphore(workers), asyncio.Event()
        self._under_way: set[Future[Outcome | None]] = set()
        self._ended: queue.SimpleQueue[Future[Outcome | None]] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writing")
        self._thread.submit(self._run)

    def begin(self, units: Iterable[Unit]) -> None:
        for unit in units:
            future = asyncio.run_coroutine_threadsafe(self._made(unit), self._loop)
            self._under_way.add(future)
            future.add_done_callback(self._note)

    def take(self, check: Callable[[], None], pause: float) -> list[Outcome | None]:
        """What has ended `pause` seconds after the first; None for what came to nothing."""
        future = None
        while future is None:
            check()
            with suppress(queue.Empty):
                future = self._ended.get(timeout=POLL)
        if self._ended.qsize() < BATCH:
            time.sleep(pause)
        ended = [future]
        while len(ended) < BATCH and not self._ended.empty():
            ended.append(self._ended.get())
        self._under_way.difference_update(ended)
        return [None if one.cancelled() or one.exception() else one.result() for one in ended]

    def cancel(self) -> None:
        """Cancel what is under way, wait until its books are closed."""
        self._cancel_all()
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.shutdown()

    async def _made(self, unit: Unit) -> Outcome | None:
        async with self._slots:
            return None if self._is_over else await self._pipeline.make(unit)

    def _note(self, future: Future[Outcome | None]) -> None:
        """A unit has ended, in whatever way."""
        if not future.cancelled() and (error := future.exception()) is not None:
            self.stopped_by, self._is_over = error, True
            if getattr(error, "code", "") not in GENTLE:
                self._cancel_all()
        self._ended.put(future)

    def _cancel_all(self) -> None:
        self._is_over = True  # a slot that comes free meanwhile begins nothing
        for future in list(self._under_way):
            future.cancel()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_over())

    async def _until_over(self) -> None:
        await self._over.wait()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
        if self._close is not None:
            await self._close()
