"""The engine behind the playground: models over HTTP, loaded on demand.

In: POST /retrieve {"model": folder, "query", "mode", "k", "permissions", "without"}. Out: the prediction beside the
model's folder and digest. While a model loads the answer is 503 with Retry-After, so no request hangs on a disk.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from catalog.ml.child import emit
from evaluation.ml.manifest import digest
from trace_site.lib.errors import TraceError

MODELS = 3  # kept in memory; the one used longest ago leaves first
LONGEST_BODY = 2_000_000  # bytes; `without` may name a whole catalog
LONGEST_QUERY = 4_000  # characters
MOST_TOOLS = 100
PATIENCE = 1.0  # seconds a request waits for a model that is loading
RETRY_AFTER = "2"
MODES = ("fast", "trace", "trace-free", "beam", "both")
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


class Models:
    """At most `MODELS` loaded models, found by folder and digest: a model written anew is loaded anew."""

    def __init__(self, opener: Callable[[Path], Any], root: Path | None = None) -> None:
        self.opener = opener
        self.root = root.resolve() if root else None
        self.slots: OrderedDict[str, Slot] = OrderedDict()
        self.lock = threading.Lock()
        self.loading = threading.Lock()  # one load at a time: two would fight for memory and cores

    def get(self, folder: Path) -> Slot:
        """A loaded slot; raises Loading, or the reason why the model cannot be loaded."""
        path = folder.resolve()
        if self.root and not path.is_relative_to(self.root):
            raise TraceError(
                "lies outside the folder this server may read.", code="forbidden_model", where=str(folder)
            )
        slot = self._slot(path, digest(path))
        if not slot.ready.wait(PATIENCE):
            raise Loading
        if slot.error:
            with self.lock:
                self.slots.pop(str(path), None)  # the next request tries again
            raise slot.error
        return slot

    def _slot(self, path: Path, identity: str) -> Slot:
        with self.lock:
            slot = self.slots.get(str(path))
            if slot is None or slot.identity != identity:
                slot = self.slots[str(path)] = Slot(identity)
                threading.Thread(target=self._load, args=(path, slot), daemon=True).start()
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
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            slot.error = TraceError(
                f"the model could not be loaded ({type(error).__name__}: {error}).",
                code="bad_export",
                where=str(path),
            )
        slot.ready.set()

    def health(self) -> Answer:
        with self.lock:
            rows = [
                {
                    "model": path,
                    "digest": slot.identity,
                    "state": "ready" if slot.ready.is_set() else "loading",
                }
                for path, slot in self.slots.items()
            ]
        return {"status": "ok", "models": rows}


def read_request(body: bytes) -> Answer:
    """The checked request; every mistake is named."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TraceError("the body is not JSON.", code="bad_request") from error
    if not isinstance(data, dict):
        raise TraceError("the body is not a JSON object.", code="bad_request")
    query, mode, k = data.get("query"), data.get("mode", "fast"), data.get("k", 10)
    lists = {name: data.get(name) or [] for name in ("permissions", "without")}
    if not isinstance(data.get("model"), str) or not data["model"]:
        raise _bad("model", "must be the folder of an exported model.")
    if not isinstance(query, str) or not query.strip() or len(query) > LONGEST_QUERY:
        raise _bad("query", f"must be a text of 1..{LONGEST_QUERY} characters.")
    if mode not in MODES:
        raise _bad("mode", f"must be one of {', '.join(MODES)}.")
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_TOOLS:
        raise _bad("k", f"must be a whole number in 1..{MOST_TOOLS}.")
    for name, entries in lists.items():
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise _bad(name, "must be a list of texts.")
    return {"model": data["model"], "query": query, "mode": mode, "k": k, **lists}


def _bad(name: str, message: str) -> TraceError:
    return TraceError(message, code="bad_request", where=f"/{name}")


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


def handler(models: Models) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_GET(self) -> None:
            if self.path == "/health":
                self.answer(HTTPStatus.OK, models.health())
            else:
                self.fail(HTTPStatus.NOT_FOUND, "unknown address.", "not_found")

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > LONGEST_BODY:
                self.close_connection = True
                return self.fail(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"needs a body of at most {LONGEST_BODY} bytes.",
                    "too_large",
                )
            body = self.rfile.read(int(length))
            if self.path != "/retrieve":
                return self.fail(HTTPStatus.NOT_FOUND, "unknown address.", "not_found")
            return self.respond(body)

        def respond(self, body: bytes) -> None:
            try:
                self.answer(HTTPStatus.OK, retrieve(models, read_request(body)))
            except Loading:
                message = "the model is loading."
                self.fail(HTTPStatus.SERVICE_UNAVAILABLE, message, "loading", {"Retry-After": RETRY_AFTER})
            except TraceError as error:
                status = HTTPStatus.NOT_FOUND if error.code == "no_export" else HTTPStatus.BAD_REQUEST
                self.answer(status, error.as_dict())
            except (RuntimeError, MemoryError, LookupError, TypeError, ValueError) as error:
                self.fail(HTTPStatus.INTERNAL_SERVER_ERROR, f"the model failed ({error}).", "engine_failed")

        def fail(
            self, status: HTTPStatus, message: str, code: str, headers: dict[str, str] | None = None
        ) -> None:
            self.answer(status, {"message": message, "code": code, "extra": {}}, headers)

        def answer(self, status: HTTPStatus, data: Answer, headers: dict[str, str] | None = None) -> None:
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

    return Handler


def serve(host: str, port: int, root: Path | None, threads: int) -> None:
    def opener(folder: Path) -> Any:
        # torch loads with the first model, the port opens at once
        from evaluation.ml.engine import open_engine

        return open_engine(folder, threads)

    models = Models(opener, root)
    server = ThreadingHTTPServer((host, port), handler(models))
    server.daemon_threads = True
    emit("serving", port=server.server_address[1])
    server.serve_forever()
