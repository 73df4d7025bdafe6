"""Stands in for the engine process over its own protocol: a model that "thinks" for a set time, loads, and is swapped.

    python -m tests.engine_stub --store file:///store [--port 0] [--think 0.01] [--load 0.5]

No weights: the tools come in the order of the export's trace.json, and the trace names the first of them. Many requests
are answered at once, as a batching engine answers them. Prints {"event": "serving", "port": N} once it listens.
"""

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.core.asking import Stored
from trace_site.lib.errors import TraceError
from trace_site.lib.store import Store

Answer = dict[str, Any]
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.body = status, {"message": message, "code": code, "extra": {}}


class StubEngine:
    """`ready`: {model: since when it answers}. `asked`: every request's body, in order."""

    def __init__(
        self, store: Store, think: float = 0.0, load: float = 0.0, token: str = "", word: float = 0.0
    ) -> None:
        self.store = store
        self.think, self.load, self.token, self.word = think, load, token, word
        self.ready: dict[Stored, float] = {}
        self.asked: list[Answer] = []
        self.connections = self.open = 0
        self.port = 0
        self.close_after = 0  # answers on one connection before it is closed without a word; 0: never
        self.ignores_permissions = False
        self.cuts_streams = False  # after the first words
        self.read: dict[Stored, list[Answer]] = {}

    def tools(self, model: Stored) -> list[Answer]:
        if model not in self.read:
            try:
                self.read[model] = json.loads(self.store.read(*model, "trace.json"))["tools"]
            except TraceError as error:
                raise Refused(404, error.code, str(error)) from error
        return self.read[model]

    def answering(self, wanted: Stored, fallback: Sequence[Stored]) -> Stored:
        """The wanted model; while it loads, the first fallback that is loaded. Raises Refused 503."""
        self.tools(wanted)
        now = time.monotonic()
        self.ready.setdefault(wanted, now + self.load)
        for model in (wanted, *fallback):
            if self.ready.get(model, now + 1) <= now:
                return model
        raise Refused(503, "loading", "the model is loading.")

    def prediction(self, model: Stored, request: Answer, mode: str) -> Answer:
        k, granted = int(request.get("k", 10)), request.get("permissions")
        holds, left_out = set(granted or ()), set(request.get("without") or ())
        names: list[str] = []
        barred: list[str] = []
        first = ""
        for tool in self.tools(model):
            name, need = tool["name"], tool.get("permissions")
            if len(names) == k:
                break
            if name in left_out:
                continue
            first = first or name
            barring = granted is not None and not self.ignores_permissions
            if barring and need and holds.isdisjoint(need):
                if len(names) + len(barred) < k:  # it would have been in the list
                    barred.append(name)
            else:
                names.append(name)
        found = names if mode == "fast" else names[:1]
        text = ""
        if mode != "fast":
            text = f"Somebody asks for {request['query']}. PAYSLIP_PERIOD decides. So it is {first}."
        return {
            "tools": found,
            "scores": [-0.5 * (place + 1) for place in range(len(found))],
            "trace": text,
            "exact": bool(request.get("exact", True)) if mode == "fast" else None,
            "withheld": barred,
            "follows_trace": bool(found) and mode != "fast",
            "trace_tools": found if mode != "fast" else [],
            "features": {"first": -0.5, "lead": 0.5, "nearest": 0.6},
            "unread": [],
            "cut_request": False,
            "tokens": len(text.split()),
            "seconds": self.think,
        }

    def answer(self, model: Stored, request: Answer) -> Answer:
        mode = request.get("mode", "fast")
        about = {"model": model._asdict(), "mode": mode}
        if mode == "both":
            return about | {part: self.prediction(model, request, part) for part in ("fast", "trace")}
        return about | self.prediction(model, request, mode)

    async def serve(self, port: int = 0) -> asyncio.Server:
        server = await asyncio.start_server(self.connected, "127.0.0.1", port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        answered = 0
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split()
                headers = {}
                while row := (await reader.readline()).decode().strip():
                    name, _, value = row.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self.respond(method, path, headers, body, writer)
                answered += 1
                if self.close_after and answered >= self.close_after:
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def respond(
        self, method: str, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        try:
            if self.token and headers.get("authorization") != f"Bearer {self.token}":
                raise Refused(401, "not_authenticated", "the engine's token is missing or wrong.")
            if (method, path) == ("GET", "/health"):
                models = [{"model": one._asdict()} for one in self.ready]
                return await send(writer, 200, {"status": "ok", "models": models})
            request = json.loads(body)
            self.asked.append(request)
            fallback = [Stored(**one) for one in request.get("fallback") or ()]
            model = self.answering(Stored(**request["model"]), fallback)
            if path == "/batch":
                shared = {"without": request.get("without")}
                await asyncio.sleep(self.think)
                answers = [
                    {"error": {"message": "the model failed.", "code": "engine_failed"}}
                    if "fail" in one["query"]
                    else self.answer(model, shared | one)
                    for one in request["requests"]
                ]
                return await send(writer, 200, {"model": model._asdict(), "answers": answers})
            if path != "/retrieve":
                raise Refused(404, "not_found", "unknown address.")
            if request.get("stream"):
                return await self.stream(model, request, writer)
            await asyncio.sleep(self.think)
            await send(writer, 200, self.answer(model, request))
        except Refused as refused:
            extra = "Retry-After: 2\r\n" if refused.status == 503 else ""
            await send(writer, refused.status, refused.body, extra)

    async def stream(self, model: Stored, request: Answer, writer: asyncio.StreamWriter) -> None:
        """One JSON object a line, in chunks; the trace a word at a time, cut where no word ends."""
        await asyncio.sleep(self.think)
        answer = self.answer(model, request)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        trace = answer
        if request["mode"] == "both":
            await line(writer, {"event": "fast", **answer["fast"], "model": answer["model"]})
            trace = answer["trace"]
        text = trace["trace"]
        for start in range(0, len(text), 7):
            await asyncio.sleep(self.word)
            await line(writer, {"event": "text", "text": text[start : start + 7]})
            if self.cuts_streams:
                writer.transport.abort()
                return
        await line(writer, {"event": "done", **answer})
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def send(writer: asyncio.StreamWriter, status: int, data: Answer, extra: str = "") -> None:
    payload = json.dumps(data, ensure_ascii=False).encode()
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\n{extra}"
    writer.write(f"{head}Content-Length: {len(payload)}\r\n\r\n".encode() + payload)
    await writer.drain()


async def line(writer: asyncio.StreamWriter, data: Answer) -> None:
    row = json.dumps(data, ensure_ascii=False).encode() + b"\n"
    writer.write(b"%x\r\n%s\r\n" % (len(row), row))
    await writer.drain()


class ThreadedStub:
    """The stub in this process, for tests: `with ThreadedStub(...) as stub`."""

    def __init__(self, store: Store, **how: Any) -> None:
        self.engine = StubEngine(store, **how)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> StubEngine:
        self.thread.start()
        self.server = asyncio.run_coroutine_threadsafe(self.engine.serve(), self.loop).result(5)
        return self.engine

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(5)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    async def end(self) -> None:
        self.server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="")
    parser.add_argument("--store", required=True)
    for name, value in (("--think", 0.01), ("--load", 0.0), ("--word", 0.0)):
        parser.add_argument(name, type=float, default=value)
    options = parser.parse_args()
    store = Store(options.store, Path("unused"))
    engine = StubEngine(store, options.think, options.load, options.token, options.word)

    async def run() -> None:
        server = await engine.serve(options.port)
        print(json.dumps({"event": "serving", "port": engine.port}), flush=True)
        await server.serve_forever()

    asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
