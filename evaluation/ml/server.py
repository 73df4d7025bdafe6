"""The engine behind the playground: models over HTTP, loaded on demand.

In: POST /retrieve {"model": folder, "query", "mode", "k", "permissions", "without"}. Out: the prediction beside the
model's folder and digest. While a model loads the answer is 503 with Retry-After, so no request hangs on a disk.

Who may ask: whoever knows the token, where there is one; and only under a name of this server, so that no page in a
browser can. What is loaded lies below one of the folders the server was given, and holds nothing that runs code.
"""

import hmac
import json
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from catalog.ml.child import emit
from evaluation.ml.manifest import digest
from trace_site.lib.errors import TraceError
from trace_site.lib.loading import loading_modules

MODELS = 3  # kept in memory; the one used longest ago leaves first
LONGEST_BODY = 2_000_000  # bytes; `without` may name a whole catalog
LONGEST_QUERY = 4_000  # characters
MOST_TOOLS = 100
PATIENCE = 1.0  # seconds a request waits for a model that is loading
RETRY_AFTER = "2"
FAILED_SECONDS = 30.0  # a model that could not be loaded is not tried again for so long
READ_SECONDS = 10.0  # for a whole request, however its bytes come
MOST_CONNECTIONS = 32
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MODES = ("fast", "trace", "trace-free", "beam", "both")
DEFAULTS = {"model": None, "query": None, "mode": "fast", "k": 10}
Answer = dict[str, Any]


class Loading(Exception):
    """The model is on its way."""


class Slot:
    """One model: loading, loaded, or failed; `turn` lets one request at a time compute."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.ready = threading.Event()
        self.turn = threading.Lock()
        self.engine: Any = None
        self.error: TraceError | None = None
        self.failed_at = 0.0


class Models:
    """At most `MODELS` loaded models, found by folder and digest: a model written anew is loaded anew."""

    def __init__(self, opener: Callable[[Path], Any], roots: Sequence[Path]) -> None:
        self.opener = opener
        self.roots = [root.resolve() for root in roots]
        self.slots: OrderedDict[str, Slot] = OrderedDict()
        self.lock = threading.Lock()
        self.loading = threading.Lock()  # one load at a time: two would fight for memory and cores

    def get(self, folder: Path) -> Slot:
        """A loaded slot; raises Loading, or the reason why the model cannot be loaded."""
        path = folder.resolve()
        if not any(path.is_relative_to(root) for root in self.roots):
            raise TraceError(
                "lies outside the folders this server may read.", code="forbidden_model", where=str(folder)
            )
        slot = self._slot(path, digest(path))
        if not slot.ready.wait(PATIENCE):
            raise Loading
        if slot.error:
            raise slot.error
        return slot

    def _slot(self, path: Path, identity: str) -> Slot:
        with self.lock:
            slot = self.slots.get(str(path))
            again = slot and slot.error and time.monotonic() - slot.failed_at > FAILED_SECONDS
            if slot is None or slot.identity != identity or again:
                slot = Slot(identity)
                threading.Thread(target=self._load, args=(path, slot), daemon=True).start()
                # not before: where no thread can be started, the next request tries
                self.slots[str(path)] = slot
            self.slots.move_to_end(str(path))
            while len(self.slots) > MODELS:
                self.slots.popitem(last=False)
            return slot

    def _load(self, path: Path, slot: Slot) -> None:
        try:
            with self.loading:
                slot.engine = self.opener(path)
        except TraceError as error:
            slot.error = error
        except Exception as error:  # noqa: BLE001 - a damaged model raises anything; whoever asks is told
            slot.error = TraceError(
                f"the model could not be loaded ({said(error)}).", code="bad_export", where=str(path)
            )
        slot.failed_at = time.monotonic()
        slot.ready.set()

    def health(self) -> Answer:
        with self.lock:
            slots = list(self.slots.items())
        rows = []
        for path, slot in slots:
            state = "loading" if not slot.ready.is_set() else "failed" if slot.error else "ready"
            rows.append({"model": path, "digest": slot.identity, "state": state})
        return {"status": "ok", "models": rows}


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]


def read_request(body: bytes) -> Answer:
    """The checked request; every mistake is named."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TraceError("the body is not JSON.", code="bad_request") from error
    if not isinstance(data, dict):
        raise TraceError("the body is not a JSON object.", code="bad_request")
    model, query, mode, k = (data.get(name, default) for name, default in DEFAULTS.items())
    lists = {name: data.get(name) or [] for name in ("permissions", "without")}
    query_fits = isinstance(query, str) and query.strip() and len(query) <= LONGEST_QUERY
    k_fits = isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= MOST_TOOLS
    checks: list[tuple[str, object, str]] = [
        ("model", isinstance(model, str) and model, "must be the folder of an exported model."),
        ("query", query_fits, f"must be a text of 1..{LONGEST_QUERY} characters."),
        ("mode", mode in MODES, f"must be one of {', '.join(MODES)}."),
        ("k", k_fits, f"must be a whole number in 1..{MOST_TOOLS}."),
    ]
    for name, entries in lists.items():
        are_texts = isinstance(entries, list) and all(isinstance(entry, str) for entry in entries)
        checks.append((name, are_texts, "must be a list of texts."))
    for name, holds, message in checks:
        if not holds:
            raise TraceError(message, code="bad_request", where=f"/{name}")
    return {"model": model, "query": query, "mode": mode, "k": k, **lists}


def retrieve(models: Models, request: Answer) -> Answer:
    slot = models.get(Path(request["model"]))
    item = {"id": "request"} | {name: request[name] for name in ("query", "permissions", "without")}
    modes = ("fast", "trace") if request["mode"] == "both" else (request["mode"],)
    with slot.turn:
        answers = {mode: next(iter(slot.engine.predict([item], mode, request["k"])))[0] for mode in modes}
    for answer in answers.values():
        answer.pop("id")
    about = {"model": request["model"], "digest": slot.identity, "mode": request["mode"], "k": request["k"]}
    return about | (answers if request["mode"] == "both" else answers[request["mode"]])


class Server(ThreadingHTTPServer):
    """At most `MOST_CONNECTIONS` at once; one more is closed unanswered, as a full house is."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], models: Models, token: str, names: Sequence[str] = ()
    ) -> None:
        self.models, self.token, self.names = models, token, frozenset([*LOOPBACK, *names])
        self.places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.places.acquire(blocking=False):
            return self.shutdown_request(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self.places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()


class Handler(BaseHTTPRequestHandler):
    """One request a connection, read whole within `READ_SECONDS`."""

    timeout = 30  # of one write

    def setup(self) -> None:
        super().setup()
        self.patience = threading.Timer(READ_SECONDS, self.hang_up)
        self.patience.daemon = True
        self.patience.start()

    def finish(self) -> None:
        self.patience.cancel()
        super().finish()

    def hang_up(self) -> None:
        """Ends the read that another thread waits in."""
        with suppress(OSError):  # who was waited for has hung up first
            self.request.shutdown(socket.SHUT_RD)

    @property
    def house(self) -> Server:
        return cast(Server, self.server)

    def do_GET(self) -> None:
        self.patience.cancel()
        if not self.is_for_us():
            return
        if self.path != "/health":
            return self.fail(404, "unknown address.", "not_found")
        self.answer(200, self.house.models.health() if self.knows_token() else {"status": "ok"})

    def do_POST(self) -> None:
        if not self.is_for_us():
            return
        if not self.knows_token():
            return self.fail(401, "the engine's token is missing or wrong.", "not_authenticated")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            message = "the request must say in Content-Length how long its body is."
            return self.fail(411, message, "bad_request")
        if len(length) > 18 or int(length) > LONGEST_BODY:
            return self.fail(413, f"needs a body of at most {LONGEST_BODY} bytes.", "too_large")
        body = self.rfile.read(int(length))
        self.patience.cancel()
        if len(body) < int(length):
            return self.fail(408, f"the request did not come whole within {READ_SECONDS:.0f} s.", "too_slow")
        if self.path != "/retrieve":
            return self.fail(404, "unknown address.", "not_found")
        try:
            data = retrieve(self.house.models, read_request(body))
        except Loading:
            self.fail(503, "the model is loading.", "loading", {"Retry-After": RETRY_AFTER})
        except TraceError as error:
            self.answer(404 if error.code == "no_export" else 400, error.as_dict())
        except Exception as error:  # noqa: BLE001 - a damaged model raises anything; whoever asks is told
            self.fail(500, f"the model failed ({said(error)}).", "engine_failed")
        else:
            self.answer(200, data)

    def is_for_us(self) -> bool:
        """A name that leads here without being ours is a page's in somebody's browser."""
        try:
            name = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        except ValueError:
            name = None
        if name in self.house.names:
            return True
        self.fail(403, "is not asked under this name.", "forbidden_host")
        return False

    def knows_token(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return not self.house.token or hmac.compare_digest(given.encode(), self.house.token.encode())

    def fail(self, status: int, message: str, code: str, headers: dict[str, str] | None = None) -> None:
        self.answer(status, {"message": message, "code": code, "extra": {}}, headers)

    def answer(self, status: int, data: Answer, headers: dict[str, str] | None = None) -> None:
        payload = json.dumps(data, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(payload)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests may hold business text: nothing of them is logged."""


def serve(
    host: str, port: int, roots: Sequence[Path], threads: int, *, token: str = "", names: Sequence[str] = ()
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

    def opener(folder: Path) -> Any:
        with loading_modules():  # torch loads with the first model, the port opens at once
            from evaluation.ml.engine import open_engine

        return open_engine(folder, threads)

    server = Server((host, port), Models(opener, roots), token, names)
    emit("serving", port=server.server_address[1])
    server.serve_forever()
