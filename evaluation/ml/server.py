"""The engine behind the site: models over HTTP, loaded on demand, each answering many requests side by side.

In: POST /retrieve {"model": {"key", "digest"}, "fallback": [such], "held", "damaged", "query", "mode", "k",
"permissions", "without", "domain", "exact", "stream", "caller"}. A model is named by where it lies in the artefact
store; the engine fetches it from there itself, so it may run on a machine of its own. Out: the prediction beside
`model`, the one that made it; as a stream, a JSON object a line: {"event": "fast", prediction}, {"event": "text",
"text"}, {"event": "done", prediction}. Callers take turns. POST /batch has `requests` and gives `answers`, in which a
mistake is that request's own. While the wanted model is fetched and loads, the first fallback that is there answers;
without one the answer is 503 with Retry-After, so no request hangs on a disk or a network. `held` names what came after
the models, tools and the clauses that are in force, as POST /held {"held", "tools", "clauses"} told them. A name that
is not known here is answered with 409 `unknown_catalog`; whoever asked tells it and asks again. Without a model what is
held answers by itself: the untrained encoder reads the tools and the clauses.

Who may ask: whoever knows the token, where there is one; and only under a name of this server, so that no page in a
browser can. What is loaded lies in the store, has the digest that was asked for, and holds nothing that runs code.
"""

import hmac
import json
import select
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import urlsplit

from catalog.ml.child import emit
from evaluation.core.asking import LONGEST_CALLER, NO_MODEL, Stored, check, engine_item, read_asked
from evaluation.ml.asked import OnEvent
from trace_site.lib.departure import Departed, Departure
from trace_site.lib.errors import TraceError
from trace_site.lib.loading import loading_modules
from trace_site.lib.store import Store, reaching

MODELS = 3  # kept in memory; the one used longest ago leaves first
LONGEST_BODY = 2_000_000  # bytes; `without` may name a whole catalog
LONGEST_HELD = 32_000_000  # bytes of what is held; without a model that is the whole catalog
MOST_HELD = 4  # such catalogs, and for each model engines that hold one; the oldest leaves first
PATIENCE = 1.0  # seconds a request waits for a model that is loading
RETRY_AFTER = "2"
FAILED_SECONDS = 30.0  # a model that could not be loaded is not tried again for so long
READ_SECONDS = 10.0  # for a whole request, however its bytes come
IDLE_SECONDS = 30  # a connection without a request is kept; also of one write
LOOK_SECONDS = 0.05  # how often connections are looked through for those that are too slow, or closed
MOST_CONNECTIONS = 128
LOOPBACK = ("127.0.0.1", "localhost", "::1")
STATUS = {"no_export": 404, "store_missing": 404, "unknown_catalog": 409}  # of what is refused; 400 else
SWITCH_SECONDS = 0.0005  # Python's own is 0.005, and a forward gives up its turn with every product
Answer = dict[str, Any]
T = TypeVar("T")


class Loading(Exception):
    """The model is on its way."""


class Slot:
    """One model: loading, loaded, or failed."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.engine: Any = None
        self.error: TraceError | None = None
        self.failed_at = 0.0
        self.holding: OrderedDict[str, Any] = OrderedDict()  # {name of what is held: the engine with it}
        self.reading = threading.Lock()

    def engine_with(self, held: str, models: "Models") -> Any:
        """The engine that answers with what is held too. Its texts are read once, while whoever asks for them waits.
        Raises TraceError `unknown_catalog`."""
        if not held:
            return self.engine
        if (found := self.holding.get(held)) is not None:
            return found
        with self.reading:
            if (found := self.holding.get(held)) is None:
                catalog = models.held.get(held)
                if catalog is None:
                    problem = "what is to be held is not known here."
                    raise TraceError(problem, code="unknown_catalog", where="/held", hint="Send it to /held.")
                self.holding[held] = found = self.engine.holding(catalog["tools"], catalog["clauses"])
                drop_oldest(self.holding, MOST_HELD)
        return found


class Models:
    """At most `MODELS` loaded models, by key and digest: a model written anew is loaded anew. None: the untrained one.
    `opener` fetches and loads one."""

    def __init__(self, opener: Callable[[Stored | None], Any]) -> None:
        self.opener = opener
        self.slots: OrderedDict[Stored | None, Slot] = OrderedDict()
        self.held: OrderedDict[str, Answer] = OrderedDict()  # {"tools", "clauses"} by name
        self.lock = threading.Lock()
        self.loading = threading.Lock()  # one load at a time: two would fight for memory and cores

    def get(
        self, model: Stored | None, fallback: Sequence[Stored] = (), *, is_damaged: bool = False
    ) -> tuple[Stored | None, Slot]:
        """A model that is loaded: the wanted one, else the first of the others that is, while the wanted one loads.
        Where it cannot be loaded, the others in its place. `is_damaged`: its files are, so it is not to be
        loaded any more, and may be answered with while it is. Raises Loading, or the reason why the wanted one cannot
        be loaded."""
        if is_damaged:
            if found := self._loaded(model):
                return model, found
            problem = TraceError("its files are damaged.", code="bad_export")
        else:
            slot = self._slot(model)
            if not slot.ready.is_set():
                for other in fallback:
                    if found := self._loaded(other):
                        return other, found
            if not slot.ready.wait(PATIENCE):
                raise Loading
            if slot.error is None:
                return model, slot
            problem = slot.error
        if fallback:
            with suppress(TraceError):
                return self.get(fallback[0], fallback[1:])
        raise problem.with_traceback(None)  # else it would collect the frames of every request

    def _loaded(self, model: Stored | None) -> Slot | None:
        with self.lock:
            slot = self.slots.get(model)
            if slot is None or not slot.ready.is_set() or slot.error:
                return None
            self.slots.move_to_end(model)
            return slot

    def _slot(self, model: Stored | None) -> Slot:
        with self.lock:
            slot = self.slots.get(model)
            if slot is None or (slot.error and time.monotonic() - slot.failed_at > FAILED_SECONDS):
                slot = Slot()
                threading.Thread(target=self._load, args=(model, slot), daemon=True).start()
                # not before: where no thread can be started, the next request tries
                self.slots[model] = slot
            self.slots.move_to_end(model)
            drop_oldest(self.slots, MODELS)
            return slot

    def _load(self, model: Stored | None, slot: Slot) -> None:
        try:
            with self.loading:
                slot.engine = self.opener(model)
        except TraceError as error:
            slot.error = error
        except Exception as error:  # noqa: BLE001 - a damaged model raises anything; whoever asks is told
            slot.error = TraceError(
                f"the model could not be loaded ({said(error)}).",
                code="bad_export",
                where=model.key if model else "",
            )
        if slot.error:  # its frames hold what had been loaded
            slot.error.__cause__ = slot.error.__context__ = slot.error.__traceback__ = None
        slot.failed_at = time.monotonic()
        slot.ready.set()

    def health(self) -> Answer:
        with self.lock:
            slots = list(self.slots.items())
        rows = []
        for model, slot in slots:
            state = "loading" if not slot.ready.is_set() else "failed" if slot.error else "ready"
            rows.append({"model": model and model._asdict(), "state": state})
        return {"status": "ok", "models": rows}


def drop_oldest(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]


def told(error: Exception) -> Answer:
    """An error as whoever asked reads it: a damaged model raises anything."""
    if isinstance(error, TraceError):
        return error.as_dict()
    return refusal(f"the model failed ({said(error)}).", "engine_failed")


def refusal(message: str, code: str) -> Answer:
    return {"message": message, "code": code, "extra": {}}


def read_json(body: bytes) -> Answer:
    try:
        data = json.loads(body)
        if b"\\u" in body:  # half a character, which no text holds, can be written as an escape
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise TraceError("the body is not JSON.", code="bad_request") from error
    if not isinstance(data, dict):
        raise TraceError("the body is not a JSON object.", code="bad_request")
    return data


def begun(
    engine: Any, request: Answer, departure: Departure, on_event: OnEvent | None = None
) -> Callable[[], Answer]:
    """The engine is asked; what this gives waits for what is sent of its answer."""
    item, mode, k = engine_item("request", request), request["mode"], request["k"]
    wait = engine.ask(item, mode, k, on_event, departure)
    return lambda: {name: value for name, value in wait().items() if name != "id"}


def chosen_engine(models: Models, data: Answer) -> tuple[Any, Answer]:
    """The engine that answers, and what is said of its model beside the answer."""
    check(data)
    held, named = data.get("held", ""), [data.get("model"), *data.get("fallback", ())]
    wanted, *fallback = [one and Stored(one["key"], one["digest"]) for one in named]
    if wanted is None and not held:
        raise TraceError(NO_MODEL, code="bad_request", where="/model")
    is_damaged = wanted is not None and data.get("damaged") is True
    model, slot = models.get(wanted, fallback, is_damaged=is_damaged)
    return slot.engine_with(held, models), {"model": model and model._asdict()}


def chosen_and_read(models: Models, data: Answer) -> tuple[Any, Answer, Answer]:
    """The engine that answers, what is asked, and what is said of both beside the answer."""
    request = read_asked(data)
    engine, about = chosen_engine(models, data)
    return engine, request, about | {"mode": request["mode"], "k": request["k"]}


def retrieve(models: Models, data: Answer, departure: Departure) -> Answer:
    engine, request, about = chosen_and_read(models, data)
    return about | begun(engine, request, departure)()


def stream(models: Models, data: Answer, departure: Departure) -> Iterator[Answer]:
    """Events. Mistakes are raised at once; what fails later is the last event."""
    engine, request, about = chosen_and_read(models, data)
    events: SimpleQueue[Answer | None] = SimpleQueue()

    def on_event(name: str, said: Any) -> None:
        events.put({"event": name, **(about | said if name == "fast" else {"text": said})})

    def work() -> None:
        try:
            events.put({"event": "done", **about, **begun(engine, request, departure, on_event)()})
        except Exception as error:  # noqa: BLE001 - whatever it was, whoever asked is told
            events.put({"event": "error", **told(error)})
        events.put(None)

    threading.Thread(target=work, daemon=True).start()
    return iter(events.get, None)


def retrieve_batch(models: Models, data: Answer, departure: Departure) -> Answer:
    """All requests side by side, and all begun before one is waited for."""
    engine, about = chosen_engine(models, {"requests": [], **data})

    def asked(one: Answer) -> Callable[[], Answer]:
        return begun(engine, read_asked({"without": data.get("without"), **one}), departure)

    def kept(work: Callable[[], T]) -> T | Answer:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - whatever it was, the others have their answers
            return {"error": told(error)}

    waiting = [kept(partial(asked, one)) for one in data["requests"]]
    return about | {"answers": [one if isinstance(one, dict) else kept(one) for one in waiting]}


def keep_held(models: Models, data: Answer, _: Departure) -> Answer:
    """Tools and clauses as the site keeps them, by the name under which they will be asked for."""
    check(data)
    held, tools, clauses = data.get("held"), data.get("tools", []), data.get("clauses", [])
    if not held:
        raise TraceError("must name what is held.", code="bad_request", where="/held")
    models.held[held] = {"tools": tools, "clauses": clauses}
    drop_oldest(models.held, MOST_HELD)
    return {"held": held, "tools": len(tools), "clauses": len(clauses)}


class Server(ThreadingHTTPServer):
    """At most `MOST_CONNECTIONS` at once; one more is closed unanswered, as a full house is."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(
        self, address: tuple[str, int], models: Models, token: str, names: Sequence[str] = ()
    ) -> None:
        self.models, self.token, self.names = models, token, frozenset([*LOOPBACK, *names])
        self.connected: set[socket.socket] = set()
        self.handlers: set[Handler] = set()
        super().__init__(address, Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        if len(self.connected) >= MOST_CONNECTIONS:
            return False
        self.connected.add(request)
        return True

    def shutdown_request(self, request: Any) -> None:
        self.connected.discard(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Between two connections, and at least every `poll_interval`."""
        for handler in list(self.handlers):
            if handler.deadline < time.monotonic():
                handler.deadline = inf
                handler.hang_up()
            if (departure := handler.departure) and handler.is_left():
                departure.happen()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up while an answer is sent is no news."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Requests of one connection, each read whole within `READ_SECONDS`."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True
    server: Server
    departure: Departure | None = None  # of whoever is being answered

    def setup(self) -> None:
        super().setup()
        self.deadline = time.monotonic() + READ_SECONDS  # of the request that is being read
        self.server.handlers.add(self)

    def parse_request(self) -> bool:
        self.deadline = time.monotonic() + READ_SECONDS  # its first line has come
        return super().parse_request()

    def finish(self) -> None:
        self.server.handlers.discard(self)
        super().finish()

    def hang_up(self) -> None:
        """Ends the read that another thread waits in."""
        with suppress(OSError):  # who was waited for has hung up first
            self.request.shutdown(socket.SHUT_RD)

    def is_left(self) -> bool:
        """Is the connection closed at its other end?"""
        try:
            poll = select.poll()
            poll.register(self.request, select.POLLIN)
            return bool(poll.poll(0)) and not self.request.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):  # ValueError: at this end
            return True

    def do_GET(self) -> None:
        self.deadline = inf
        if not self.is_for_us():
            return
        if self.path != "/health":
            return self.fail(404, "unknown address.", "not_found")
        self.answer(200, self.server.models.health() if self.knows_token() else {"status": "ok"})

    def do_POST(self) -> None:
        if not self.is_for_us():
            return
        if not self.knows_token():
            return self.fail(401, "the engine's token is missing or wrong.", "not_authenticated")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            message = "the request must say in Content-Length how long its body is."
            return self.fail(411, message, "bad_request")
        longest = LONGEST_HELD if self.path == "/held" else LONGEST_BODY
        if len(length) > 18 or int(length) > longest:
            return self.fail(413, f"needs a body of at most {longest} bytes.", "too_large")
        body = self.rfile.read(int(length))
        self.deadline = inf
        if len(body) < int(length):
            return self.fail(408, f"the request did not come whole within {READ_SECONDS:.0f} s.", "too_slow")
        answers = {"/retrieve": retrieve, "/batch": retrieve_batch, "/held": keep_held}.get(self.path)
        if answers is None:
            return self.fail(404, "unknown address.", "not_found")
        departure = self.departure = Departure()
        try:
            data = read_json(body)
            departure.caller = str(data.get("caller") or "")[:LONGEST_CALLER]
            if self.path == "/retrieve" and data.get("stream") is True:
                return self.stream(stream(self.server.models, data, departure))
            found = answers(self.server.models, data, departure)
        except Departed:
            self.close_connection = True
        except Loading:
            self.answer(503, refusal("the model is loading.", "loading"), {"Retry-After": RETRY_AFTER})
        except TraceError as error:
            # too many wait, or the server that holds the weights is away: both may pass
            if error.code == "unavailable" or error.code.startswith("llm_"):
                return self.answer(503, error.as_dict(), {"Retry-After": RETRY_AFTER})
            self.answer(STATUS.get(error.code, 400), error.as_dict())
        except Exception as error:  # noqa: BLE001 - whatever it was, whoever asked is told
            self.answer(500, told(error))
        else:
            self.answer(200, found)
        finally:
            self.departure = None
            departure.happen()  # a stream that could not be sent

    def stream(self, events: Iterable[Answer]) -> None:
        self.close_connection = True
        with suppress(OSError):  # whoever asked has gone
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson; charset=utf-8")
            self.send_header("Connection", "close")
            self.end_headers()
            for event in events:
                self.wfile.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")

    def is_for_us(self) -> bool:
        """A name that leads here without being ours is a page's in somebody's browser."""
        try:
            name = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        except ValueError:
            name = None
        if name in self.server.names:
            return True
        self.fail(403, "is not asked under this name.", "forbidden_host")
        return False

    def knows_token(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return not self.server.token or hmac.compare_digest(given.encode(), self.server.token.encode())

    def fail(self, status: int, message: str, code: str) -> None:
        """What was not read of a request would be taken for the next one, so the connection ends."""
        self.close_connection = True
        self.answer(status, refusal(message, code))

    def answer(self, status: int, data: Answer, headers: dict[str, str] | None = None) -> None:
        payload = json.dumps(data, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(payload)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)
        self.deadline = time.monotonic() + IDLE_SECONDS  # of the first line of the next request

    def log_message(self, format: str, *args: Any) -> None:
        """Requests may hold business text: nothing of them is logged."""


def opened(store: Store, threads: int, model: Stored | None) -> Any:
    """The engine of a model, which is fetched first where its store is no folder of this machine."""
    with loading_modules():  # torch loads with the first model, the port opens at once
        from evaluation.ml.engine import open_engine

    folder = None
    if model is not None:
        with reaching(model.key):
            folder = store.get_dir(*model)
    return open_engine(folder, threads)


def serve(
    host: str, port: int, store: Store, threads: int, *, token: str = "", names: Sequence[str] = ()
) -> None:
    """Answer until the process ends. Raises TraceError where others could ask and no token keeps them out."""
    if host not in LOOPBACK and not token:
        raise TraceError(
            "other machines could ask this engine, and no token keeps them out.",
            code="no_token",
            where=f"--host {host}",
            hint="Set ENGINE_TOKEN, here and for the site, or listen on 127.0.0.1.",
            permanent=True,
        )

    sys.setswitchinterval(SWITCH_SECONDS)
    server = Server((host, port), Models(partial(opened, store, threads)), token, names)
    emit("serving", port=server.server_address[1])
    server.serve_forever(poll_interval=LOOK_SECONDS)
