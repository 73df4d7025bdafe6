"""Writing many samples side by side: an event loop in a thread of its own, outcomes handed over in batches.

The caller keeps the database and the job: it commits each batch before it takes the next. Closing the generator (a
cancelled job, a lost lease) cancels what is under way.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future

from synthesis.stages import Outcome, Pipeline, Unit

BATCH = 100


def written(pipeline: Callable[[], Pipeline], units: Iterable[Unit], workers: int) -> Iterator[list[Outcome]]:
    """Outcomes in batches, in the order they end; at most `workers` units are under way.

    `pipeline` is called inside the event loop that will run it. Raises what a unit raises, once what ended before it
    has been handed over.
    """
    out: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
    done: Future[None] = Future()
    stop = threading.Event()
    thread = threading.Thread(
        target=_run, args=(pipeline, iter(units), workers, out, done, stop), daemon=True
    )
    thread.start()
    try:
        while (first := out.get()) is not None:
            batch = [first]
            while len(batch) < BATCH and not out.empty():
                if (outcome := out.get()) is None:
                    out.put(None)
                    break
                batch.append(outcome)
            yield batch
        done.result()
    finally:
        stop.set()
        thread.join()


def _run(
    pipeline: Callable[[], Pipeline],
    units: Iterator[Unit],
    workers: int,
    out: "queue.SimpleQueue[Outcome | None]",
    done: "Future[None]",
    stop: threading.Event,
) -> None:
    try:
        asyncio.run(_all(pipeline(), units, workers, out, stop))
        done.set_result(None)
    except BaseException as error:  # noqa: BLE001  # told to the caller, in its thread
        done.set_exception(error)
    finally:
        out.put(None)


async def _all(
    pipeline: Pipeline,
    units: Iterator[Unit],
    workers: int,
    out: "queue.SimpleQueue[Outcome | None]",
    stop: threading.Event,
) -> None:
    async def work() -> None:
        for unit in units:
            if stop.is_set():
                return
            out.put(await pipeline.make(unit))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    except* Exception as errors:
        raise errors.exceptions[0] from None
