"""The engine process over HTTP. Connections stay open from one question to the next.

A connection that was open already may have gone stale: its engine ended, or closed it. A question that gets no answer
there is asked once more on a new one, which is safe, since asking changes nothing.
"""

import json
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
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
    folder = settings.TRACE_HOME
    try:
        told = json.loads((folder / "engine.json").read_text())
        if told["home"] != str(folder):
            raise ValueError("this file came along from another home")
        return Engine(str(told["url"]), str(told["token"]))
    except (OSError, ValueError, KeyError) as error:
        hint = "Start it with manage.py up, or set ENGINE_URL."
        raise TraceError("the engine is not running.", code="unavailable", hint=hint) from error


@dataclass(frozen=True, slots=True)
class Question:
    """What POST `path` is asked, for up to `patience` seconds while a model is loading, and no longer than whoever it
    is for waits. `to_hold`: what the engine is told where it does not know what it is to hold, as after each change of
    the catalog or the rules.

    Asking raises TraceError: `unavailable` while no engine can answer, else what the engine refuses with.
    """

    engine: Engine
    path: str
    request: Answer
    patience: float = 0.0
    departure: Departure | None = None
    to_hold: Callable[[], Answer] | None = None

    def answer(self) -> Answer:
        with self._answering() as response:
            return _read(response.read)

    def lines(self) -> Iterator[Answer]:
        """The objects of an answer that comes a line at a time. Raises before the first or in between."""
        with self._answering() as response:
            while line := _read(response.readline):
                yield line

    @contextmanager
    def _answering(self) -> Iterator[HTTPResponse]:
        deadline, to_hold = time.monotonic() + self.patience, self.to_hold
        while True:
            with _asked(self.engine, self.path, self.request, self.departure) as response:
                if response.status == 200:
                    yield response
                    return
                refusal = _refusal(response, _read(response.read))
            if refusal.code == "unknown_catalog" and to_hold is not None:
                Question(self.engine, "/held", to_hold()).answer()
                to_hold = None
            elif refusal.extra.get("engine_code") == "loading" and time.monotonic() <= deadline:
                time.sleep(0.2)
            else:
                raise refusal


@lru_cache(maxsize=4)
def _idle(url: str) -> deque[HTTPConnection]:
    """The connections to an engine that nobody uses, the warmest last."""
    return deque(maxlen=MOST_IDLE)


@contextmanager
def _asked(engine: Engine, path: str, request: Answer, departure: Departure | None) -> Iterator[HTTPResponse]:
    """One question, and its connection for as long as the answer is read. Read to its end, it is kept for the next.
    When whoever asked leaves, the connection ends, by which the engine knows."""
    departure, is_kept = departure or Departure(), False
    request = {**request, "caller": departure.caller}
    try:
        connection, response = _answered(engine, path, request, departure)
    except (OSError, HTTPException, ValueError) as error:
        raise _silent() from error
    try:
        yield response
        # closed: read to its end; will_close: the engine closes it
        is_kept = response.isclosed() and not response.will_close
    finally:
        departure.until(None)
        if is_kept:
            _idle(engine.url).append(connection)
        else:
            response.close()
            connection.close()


def _answered(
    engine: Engine, path: str, request: Answer, departure: Departure
) -> tuple[HTTPConnection, HTTPResponse]:
    headers = {"Content-Type": "application/json"}
    if engine.token:
        headers["Authorization"] = f"Bearer {engine.token}"
    payload = json.dumps(request, ensure_ascii=False).encode()
    while True:
        try:
            connection, was_kept = _idle(engine.url).pop(), True
        except IndexError:
            connection, was_kept = _connected(engine.url), False
        departure.until(partial(_shut, connection.sock))
        try:
            connection.request("POST", urlsplit(engine.url).path + path, payload, headers)
            return connection, connection.getresponse()
        except (OSError, HTTPException) as error:
            departure.until(None)
            connection.close()
            if not was_kept or departure.happened or isinstance(error, TimeoutError):
                raise
            # gone stale


def _connected(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=CONNECT_SECONDS)
    connection.connect()
    connection.sock.settimeout(READ_SECONDS)
    return connection


def _shut(wire: socket.socket) -> None:
    """Ends the read that another thread waits in."""
    with suppress(OSError):  # the engine has hung up first
        wire.shutdown(socket.SHUT_RDWR)


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
