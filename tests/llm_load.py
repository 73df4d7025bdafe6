"""A chat-completions server in a process of its own, for load: seeded latency and faults, and books of its own.

    with LoadServer(seed=1) as server:            # shares of faults as below; LoadServer(faults={}) for none
        ... Endpoint(server.url, "tester") ...
        server.exchanges()                        # what it received: see Exchange
        server.ideal(64)                          # calls/s that no client can beat, see llm_load_process.Books.ideal
        server.control(faults={"429": 1.0})       # a storm; control(faults={}) ends it; reset=True clears the books

`answers="tests.somewhere:function"` names a function of the request's body that gives the content of the answer; by
default the content is the smallest instance of the schema that was sent. By hand:
`python -m tests.llm_load_process '{}'` prints its port and serves until its standard input ends; GET /books tells
what `exchanges` does.

Exchanges draw latency and fault in the order of their arrival, so the nth is the same in every run of one seed. A 429
is sent at once. A hang is silence until the client gives up. `early` counts requests that came again (same body)
before the Retry-After they were told had passed.
"""

import json
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
FAULTS = {"429": 0.02, "500": 0.01, "hang": 0.005, "truncated": 0.02, "refusal": 0.01}


@dataclass
class Settings:
    """What the server does; `control` changes any of it while it runs."""

    seed: int = 1
    median: float = 0.3  # seconds
    sigma: float = 0.5  # of the logarithm
    faults: dict[str, float] = field(default_factory=lambda: dict(FAULTS))  # {fault: share of requests}
    retry_after: str = "1"
    capacity: int = 0  # more than this in flight is answered 429; 0: any number
    answers: str = ""


@dataclass
class Exchange:
    """One request as the server saw it. tokens are what it would bill: 0 where no answer was made."""

    uid: str
    body: str  # hash of the body: equal requests have equal ones
    fault: str  # "" for a plain answer
    latency: float  # seconds drawn; 0 for a 429
    at: float
    ended: float = 0.0  # when the answer was written
    answered: bool = False  # and the connection was still open
    prompt_tokens: int = 0
    completion_tokens: int = 0


class LoadServer:
    """The server as its owner sees it; keywords are those of Settings."""

    def __init__(self, **settings: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.llm_load_process", json.dumps(settings)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout
        self.pid = self._process.pid
        self.root = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.url = f"{self.root}/v1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.communicate(b"")

    def books(self) -> dict[str, Any]:
        """exchanges, early, peak and in_flight, ideal_of_one: see Books."""
        with urllib.request.urlopen(f"{self.root}/books", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def exchanges(self) -> list[Exchange]:
        names = {one.name for one in fields(Exchange)}
        return [
            Exchange(**{name: row[name] for name in names if name in row})
            for row in self.books()["exchanges"]
        ]

    def ideal(self, concurrency: int) -> float:
        return concurrency * float(self.books()["ideal_of_one"])

    def control(self, **changes: Any) -> None:
        request = urllib.request.Request(f"{self.root}/control", json.dumps(changes).encode())
        urllib.request.urlopen(request, timeout=30).close()
