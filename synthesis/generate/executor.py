"""Writing many samples side by side: an event loop in a thread of its own, which the caller feeds and empties.

The caller keeps the database and the job: units are drawn and batches committed in its thread. At most `workers` +
BATCH units are handed over and not committed, so memory is flat and a kill loses few. Closing the generator (a
cancelled job, a lost lease) cancels what is under way. Writers that never wait need no thread: `written_here`.
"""

import asyncio
import queue
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice

from synthesis.generate.pipeline import Outcome, Pipeline, Unit
from trace_site.lib.errors import TraceError

Close = Callable[[], Awaitable[None]]

BATCH = 100
POLL = 0.2  # seconds between two looks at whether the job goes on
# a batch waits for company a few times as long as the last one took to commit, so that commits stay cheap
COMPANY = 4
PAUSE = 0.25  # seconds, at most
# the run ends, but what is under way is paid for and may end well
GENTLE = frozenset({"llm_budget"})


def written_here(pipeline: Pipeline, units: Iterable[Unit]) -> Iterator[list[Outcome]]:
    """Outcomes in batches, one unit after the other, in the caller's thread."""

    async def all_of(batch: list[Unit]) -> list[Outcome]:
        return [await pipeline.make(unit) for unit in batch]

    rest = iter(units)
    with asyncio.Runner() as runner:
        while batch := list(islice(rest, BATCH)):
            yield runner.run(all_of(batch))


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
    rest = iter(units)
    loop = _Loop(pipeline, workers, close)
    under_way, pause = 0, 0.0
    try:
        while True:
            fresh = list(islice(rest, workers + BATCH - under_way))
            loop.feed(fresh)
            under_way += len(fresh)
            if not under_way or not (batch := loop.take(check, pause)):
                break
            began = time.monotonic()
            yield batch
            pause = min(PAUSE, COMPANY * (time.monotonic() - began))
            under_way -= len(batch)
        loop.end()
    finally:
        loop.cancel()


class _Loop:
    """The event loop's thread. Methods without an underscore belong to the caller's thread."""

    def __init__(self, pipeline: Pipeline, workers: int, close: Close | None) -> None:
        self._pipeline, self._workers, self._close = pipeline, workers, close
        self._inbox: asyncio.Queue[Unit | None] = asyncio.Queue()
        self._out: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self._stopped_by: TraceError | None = None
        self._main: asyncio.Task[None] | None = None
        self._over = False
        self._loop = asyncio.new_event_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="writing")
        self._ended = self._thread.submit(self._run)
        self._ended.add_done_callback(lambda _: self._out.put(None))

    def feed(self, units: list[Unit]) -> None:
        def put() -> None:
            for unit in units:
                self._inbox.put_nowait(unit)

        if units:
            self._tell(put)

    def take(self, check: Callable[[], None], pause: float) -> list[Outcome]:
        """What has ended `pause` seconds after the first; nothing when the loop has ended by itself."""
        first = self._first(check)
        batch: list[Outcome] = []
        if first is not None and self._out.qsize() < BATCH:
            time.sleep(pause)
        while first is not None:
            batch.append(first)
            if len(batch) == BATCH or self._out.empty():
                return batch
            first = self._out.get()
        self._out.put(None)
        return batch

    def end(self) -> None:
        """Wait until all is done; raises what went wrong."""
        self._tell(self._dismiss)
        self._ended.result()

    def cancel(self) -> None:
        """Cancel what is under way, wait until its books are closed."""
        self._tell(self._stop)
        self._thread.shutdown()

    def _first(self, check: Callable[[], None]) -> Outcome | None:
        while True:
            check()
            try:
                return self._out.get(timeout=POLL)
            except queue.Empty:
                continue

    def _tell(self, what: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(what)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._all())

    def _dismiss(self) -> None:
        for _ in range(self._workers):
            self._inbox.put_nowait(None)

    def _stop(self) -> None:
        self._over = True
        if self._main is not None:
            self._main.cancel()

    async def _all(self) -> None:
        self._main = asyncio.current_task()
        try:
            if not self._over:
                async with asyncio.TaskGroup() as group:
                    for _ in range(self._workers):
                        group.create_task(self._work())
        except ExceptionGroup as errors:
            told = errors.subgroup(TraceError) or errors
            raise told.exceptions[0] from None
        finally:
            if self._close is not None:
                await self._close()
        if self._stopped_by is not None:
            raise self._stopped_by

    async def _work(self) -> None:
        while (unit := await self._inbox.get()) is not None and not self._over:
            try:
                self._out.put(await self._pipeline.make(unit))
            except TraceError as error:
                if error.code not in GENTLE:
                    raise
                self._stopped_by, self._over = error, True
                self._dismiss()
