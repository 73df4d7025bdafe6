"""Clients who ask on and on while the engine is killed and the champion changes; what each of them was told."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Told = tuple[int, str | None, int | None, Sequence[str]]  # status, Retry-After, model, tools
PATIENCE = 0.05  # of a client that was told to come again; what Retry-After says is looked at, not waited for


@dataclass
class Storm:
    """`ask` answers with Told; `tool_of`: {model: the tool that it alone ranks first}."""

    ask: Callable[[], Told]
    tool_of: dict[int, str]
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[object] = field(default_factory=list)
    models: set[int] = field(default_factory=set)
    answered_at: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)

    def client(self) -> None:
        while not self.ended.is_set():
            try:
                told = self.ask()
            except Exception as error:  # noqa: BLE001 - a client that is told nothing is what must not be
                self.wrong.append(repr(error))
                continue
            status, retry_after, model, tools = told
            self.statuses[status] += 1
            if status == 200 and model in self.tool_of and tools[0] == self.tool_of[model]:
                self.models.add(model)
                self.answered_at = time.monotonic()
            elif status == 503 and retry_after and int(retry_after) >= 1:
                time.sleep(PATIENCE)
            else:
                self.wrong.append(told)

    def run(self, clients: int, *works: Callable[[], None]) -> None:
        """The works one beside the other, under so many clients."""
        threads = [threading.Thread(target=self.client) for _ in range(clients)]
        workers = [threading.Thread(target=work) for work in works]
        for thread in [*threads, *workers]:
            thread.start()
        for worker in workers:
            worker.join()
        time.sleep(0.2)
        self.ended.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a client waits on"

    def recovery(self, kill: Callable[[], None], most: float) -> float:
        """Seconds from a kill to the next answer to anybody."""
        kill()
        killed = time.monotonic()
        while self.answered_at <= killed + 0.01 and time.monotonic() < killed + most:
            time.sleep(0.005)
        return self.answered_at - killed


def pauses(seed: int, count: int, least: float, most: float) -> list[float]:
    chance = random.Random(seed)
    return [chance.uniform(least, most) for _ in range(count)]
