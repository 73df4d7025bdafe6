"""Equal work under way at once is done once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from trace_site.lib.errors import TraceError

T = TypeVar("T")


class Flights(Generic[T]):
    """For one event loop. The first to ask works; who asks for the same key meanwhile waits for its outcome."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[T]] = {}

    async def join(self, key: str, work: Callable[[], Awaitable[T]], shared: Callable[[T], T]) -> T:
        """What `work` gives or raises; `shared` makes of it what those who waited get.

        When the one that works is cancelled or breaks down, one of those who waited works instead.
        """
        while (flight := self._under_way.get(key)) is not None:
            try:
                return shared(await asyncio.shield(flight))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not flight.cancelled() or (task and task.cancelling()):
                    raise
        flight = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            flight.set_result(await work())
        except TraceError as error:
            flight.set_exception(error)
            flight.exception()  # nobody else may be waiting for it
            raise
        finally:
            del self._under_way[key]
            flight.cancel()  # does nothing unless the work ended in another way
        return flight.result()
