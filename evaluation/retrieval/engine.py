"""The engine process over HTTP. Connections stay open from one question to the next.

A connection that was open already may have gone stale: its engine ended, or closed it. A question that gets no answer
there is asked once more on a new one, which is safe, since asking changes nothing.
"""

import json
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from trace_site.lib.departure import Departure
from trace_site.lib.errors import TraceError, declared

CONNECT_SECONDS = 2.0
READ_SECONDS = 60.0  # of silence
MOST_IDLE = 64
RETRY_AFTER = 1  # seconds, where the engine says nothing else
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Engine:
    url: str
    token: str = field(repr=False)


def running_engine() -> Engine:
    """The engine behind ENGINE_URL, else the process `manage.py up` started here. Raises TraceError `unavailable`."""
    if settings.ENGINE_URL:
        return Engine(str(settings.ENGINE_URL).rstrip("/"), settings.ENGINE_TOKEN)
    told = settings.TRACE_HOME / "engine.json"
    try:
        at = told.stat()
        return _told(told, at.st_mtime_ns, at.st_ino)
    except (OSError, ValueError, KeyError) as error:
        hint = "Start it with manage.py up, or set ENGINE_URL."
        raise TraceError("the engine is not running.", code="unavailable", hint=hint) from error


@lru_cache(maxsize=4)
def _told(path: Path, _changed: int, _file: int) -> Engine:
    told = json.loads(path.read_text())
    if told["home"] != str(path.parent):
        raise ValueError("this file came along from another home")
    return Engine(str(told["url"]), str(told["token"]))


def ask(
    engine: Engine, path: str, request: Answer, patience: float = 0.0, departure: Departure | None = None
) -> Answer:
    """The answer of POST `path`. Waits up to `patience` seconds for a model that is loading, and no longer than whoever
    it is for.

    Raises TraceError: `unavailable` while no engine can answer, else what the engine refuses with.
    """
    deadline = time.monotonic() + patience
    while True:
        with _Exchange(engine, path, request, departure) as response:
            refused = response.status != 200
            body = _read(response.read)
        if not refused:
            return body
        refusal = _refusal(response, body)
        if refusal.extra.get("engine_code") != "loading" or time.monotonic() > deadline:
            raise refusal
        time.sleep(0.2)


def ask_in_lines(
    engine: Engine, path: str, request: Answer, departure: Departure | None = None
) -> Iterator[Answer]:
    """The objects of an answer that comes a line at a time. Raises as `ask` does, before the first or in between."""
    with _Exchange(engine, path, request, departure) as response:
        if response.status != 200:
            raise _refusal(response, _read(response.read))
        while line := _read(response.readline):
            yield line


class _Exchange:
    """One question, and its connection for as long as the answer is read. Read to its end, it is kept for the next.
    When whoever asked leaves, the connection ends, by which the engine knows."""

    def __init__(self, engine: Engine, path: str, request: Answer, departure: Departure | None) -> None:
        self.engine, self.path, self.departure = engine, path, departure or Departure()
        self.payload = json.dumps(request, ensure_ascii=False).encode()

    def __enter__(self) -> HTTPResponse:
        try:
            while self.engine.url in _idle and (kept := _taken(self.engine.url)):
                try:
                    return self._answered(kept)
                except (OSError, HTTPException) as error:
                    self.departure.until(None)
                    kept.close()
                    if self.departure.happened or isinstance(error, TimeoutError):
                        raise
                    # gone stale
            return self._answered(_connected(self.engine.url))
        except (OSError, HTTPException, ValueError) as error:
            raise _silent() from error

    def _answered(self, connection: HTTPConnection) -> HTTPResponse:
        headers = {"Content-Type": "application/json"}
        if self.engine.token:
            headers["Authorization"] = f"Bearer {self.engine.token}"
        self.connection, wire = connection, connection.sock
        self.departure.until(lambda: _shut(wire))
        connection.request("POST", urlsplit(self.engine.url).path + self.path, self.payload, headers)
        self.response = connection.getresponse()
        return self.response

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.departure.until(None)
        # closed: read to its end; will_close: the engine closes it
        if kind is None and self.response.isclosed() and not self.response.will_close:
            _idle.setdefault(self.engine.url, deque(maxlen=MOST_IDLE)).append(self.connection)
        else:
            self.response.close()
            self.connection.close()


def _shut(wire: socket.socket) -> None:
    """Ends the read that another thread waits in."""
    with suppress(OSError):  # the engine has hung up first
        wire.shutdown(socket.SHUT_RDWR)


_idle: dict[
    str, deque[HTTPConnection]
] = {}  # {url of an engine: connections that nobody uses, the warmest last}


def _taken(url: str) -> HTTPConnection | None:
    try:
        return _idle[url].pop()
    except IndexError:
        return None


def _connected(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
    except OSError:
        connection.close()
        raise
    connection.sock.settimeout(READ_SECONDS)
    return connection


def _read(read: Callable[[], bytes]) -> Answer:
    """One JSON object; {} at the end of the lines. Raises TraceError `unavailable` where the engine ends within it."""
    try:
        text = read()
        found: Answer = json.loads(text) if text.strip() else {}
    except (OSError, HTTPException, ValueError) as error:
        raise _silent() from error
    return found


def _silent() -> TraceError:
    hint = "It may be starting; try again in a moment. Its log is engine.log in TRACE_HOME/logs."
    extra = {"retry_after": RETRY_AFTER}
    return TraceError("the engine does not answer.", code="unavailable", hint=hint, extra=extra)


def _refusal(response: HTTPResponse, said: Answer) -> TraceError:
    message = str(said.get("message") or f"the engine answered {response.status}.")
    if response.status in (401, 403):
        # the site is not known there; whoever asks the site has done nothing wrong
        hint = (
            "Give the site the engine's ENGINE_TOKEN, and the engine the name in ENGINE_URL as ENGINE_HOSTS."
        )
        return TraceError(message, code="unavailable", where="engine", hint=hint)
    if response.status in (502, 503, 504):
        told = response.getheader("Retry-After") or ""
        extra = {
            "engine_code": said.get("code", ""),
            "retry_after": int(told) if told.isdecimal() else RETRY_AFTER,
        }
        return TraceError(message, code="unavailable", hint="Try again in a moment.", extra=extra)
    return TraceError(message, code=declared(str(said.get("code")), "engine_failed"), where="engine")
