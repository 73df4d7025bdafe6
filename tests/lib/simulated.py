"""A simulated clock and endpoint, so that minutes of a storm take milliseconds."""

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from trace_site.lib.errors import TraceError
from trace_site.lib.llm.client import Client
from trace_site.lib.llm.exchange import Endpoint, LlmError

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to whatever is due next. Fails where a real one would wait for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.0

    def time(self) -> float:
        return self._at

    def _run_once(self) -> None:
        if not self._ready:
            assert self._scheduled, "everything waits and nothing is due"
            self._at = max(self._at, self._scheduled[0]._when)
        super()._run_once()


def run(main: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=Clock) as runner:
        return runner.run(main)


class SimulatedEndpoint:
    """Stands in for the HTTP exchange of a client.

    fault(now, in flight, random): None or the error to raise: refusals at once, others after their latency, llm_timeout
    when the client's patience ends. busy: seconds that a client wasting nothing would have been in flight.
    """

    def __init__(
        self,
        fault: Callable[[float, int, random.Random], LlmError | None] = lambda *_: None,
        *,
        seed: int = 1,
        median: float = 0.3,
    ) -> None:
        self.fault = fault
        self.random = random.Random(seed)
        self.median = median
        self.received = 0
        self.in_flight = 0
        self.peak = 0
        self.answered: list[float] = []  # when
        self.refused: list[float] = []
        self.busy = 0.0

    async def post(self, body: bytes, uid: UUID, seconds: float) -> bytes:
        now = asyncio.get_running_loop().time
        self.received += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            error = self.fault(now(), self.in_flight, self.random)
            if error is not None and error.code == "llm_rate_limited":
                self.refused.append(now())
                await asyncio.sleep(0.005)
                raise error
            latency = self.random.lognormvariate(math.log(self.median), 0.5)
            await asyncio.sleep(seconds if error and error.code == "llm_timeout" else latency)
            self.busy += latency
            if error is not None:
                raise error
            self.answered.append(now())
            return completion({"ok": True}, json.loads(body)["model"])
        finally:
            self.in_flight -= 1

    def rate(self, start: float, end: float) -> float:
        return sum(start <= at < end for at in self.answered) / (end - start)


def completion(data: Any, model: str = "m") -> bytes:
    return json.dumps(
        {
            "model": model,
            "choices": [{"message": {"content": json.dumps(data)}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7},
        }
    ).encode()


async def load(
    endpoint: SimulatedEndpoint, seconds: float, *, calls: int = 96, **options: Any
) -> Counter[str]:
    """Keep so many calls going; returns how they ended."""
    client = Client(Endpoint("http://127.0.0.1:1/v1", "m", **{"timeout": 120.0, **options}))
    client._wire.post = endpoint.post  # type: ignore[method-assign]
    now = asyncio.get_running_loop().time
    ends: Counter[str] = Counter()
    numbers = iter(range(10**9))

    async def work() -> None:
        while now() < seconds:
            try:
                await client.ask(
                    [{"role": "user", "content": str(next(numbers))}], schema=SCHEMA, purpose="t"
                )
                ends["ok"] += 1
            except TraceError as error:
                ends[error.code] += 1

    await asyncio.gather(*(work() for _ in range(calls)))
    await client.close()
    return ends


def slow_down(told: float | None = None) -> LlmError:
    return LlmError("asks to slow down", "llm_rate_limited", again=True, refused=True, told=told, free=True)
