"""The process that tests.llm_load starts: it serves, draws, and keeps the books."""

import asyncio
import importlib
import json
import math
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tests.llm_load import Exchange, Settings


class Books:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.reset()

    def reset(self) -> None:
        self.random = random.Random(self.settings.seed)
        self.exchanges: list[Exchange] = []
        self.told: dict[str, float] = {}  # body: not before
        self.early = self.in_flight = self.peak = 0

    def open(self, uid: str, body: bytes) -> Exchange:
        now, key = time.monotonic(), f"{hash(body):x}"
        settings = self.settings
        drawn, latency = (
            self.random.random(),
            self.random.lognormvariate(math.log(settings.median), settings.sigma),
        )
        fault = ""
        for name, share in settings.faults.items():
            drawn -= share
            if drawn < 0:
                fault = name
                break
        if settings.capacity and self.in_flight >= settings.capacity:
            fault = "429"
        self.early += now < self.told.pop(key, 0.0)
        if fault == "429":
            latency = 0.0
            if settings.retry_after:
                self.told[key] = now + float(settings.retry_after)
        exchange = Exchange(uid, key, fault, latency, now)
        self.exchanges.append(exchange)
        return exchange

    def ideal(self, concurrency: int) -> float:
        """Calls per second of a client that keeps `concurrency` requests in flight and wastes nothing.

        concurrency * (requests that ended a call: plain, truncated, refused) / (sum of the latencies drawn for all
        requests). A 429 costs such a client nothing, a 500 its latency, and a hang only the latency that was drawn
        for it, as if it knew at once; there is no ramp and no tail. So the figure is an upper bound.
        """
        ended = sum(one.fault in ("", "truncated", "refusal") for one in self.exchanges)
        busy = sum(one.latency for one in self.exchanges)
        return concurrency * ended / busy if busy else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "exchanges": [asdict(one) for one in self.exchanges],
            "ideal_of_one": self.ideal(1),
            "early": self.early,
            "peak": self.peak,
            "in_flight": self.in_flight,
        }


class Connection(asyncio.Protocol):
    """HTTP/1.1 as far as clients of this protocol use it: keep-alive, Content-Length, one request at a time."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.read = bytearray()
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self.task:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.read += data
        end = self.read.find(b"\r\n\r\n")
        if end < 0:
            return
        line, *rows = self.read[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
        size = int(headers.get("content-length", 0))
        if len(self.read) < end + 4 + size:
            return
        body = bytes(self.read[end + 4 : end + 4 + size])
        del self.read[: end + 4 + size]
        method, path, _ = line.split(" ")
        if path == "/books":
            self.send(200, json.dumps(self.books.as_dict()).encode())
        elif path == "/control":
            self.control(json.loads(body))
        else:
            self.task = asyncio.get_running_loop().create_task(
                self.exchange(headers.get("x-client-request-id", ""), body)
            )

    def control(self, changes: dict[str, Any]) -> None:
        reset = changes.pop("reset", False)
        for name, value in changes.items():
            setattr(self.books.settings, name, value)
        if reset:
            self.books.reset()
        self.send(200, b"{}")

    async def exchange(self, uid: str, body: bytes) -> None:
        books = self.books
        exchange = books.open(uid, body)
        books.in_flight += 1
        books.peak = max(books.peak, books.in_flight)
        try:
            await asyncio.sleep(86_400 if exchange.fault == "hang" else exchange.latency)
            self.answer(exchange, json.loads(body))
        finally:
            books.in_flight -= 1

    def answer(self, exchange: Exchange, body: dict[str, Any]) -> None:
        if exchange.fault.isdecimal():
            told = self.books.settings.retry_after
            extra = f"Retry-After: {told}\r\n" if exchange.fault == "429" and told else ""
            self.send(int(exchange.fault), b'{"error": {"message": "try later"}}', extra)
        else:
            content = json.dumps(answer_of(self.books.settings.answers)(body))
            exchange.prompt_tokens = sum(len(str(row.get("content"))) for row in body["messages"]) // 4 + 1
            exchange.completion_tokens = len(content) // 4 + 1
            self.send(200, completion(body, content, exchange))
        exchange.ended = time.monotonic()
        exchange.answered = not self.transport.is_closing()

    def send(self, status: int, body: bytes, extra: str = "") -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)


def completion(body: dict[str, Any], content: str, exchange: Exchange) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    finish = "stop"
    if exchange.fault == "truncated":
        message["content"], finish = content[: len(content) // 2], "length"
    elif exchange.fault == "refusal":
        message |= {"content": None, "refusal": "I cannot help with that."}
    total = exchange.prompt_tokens + exchange.completion_tokens
    usage = {"prompt_tokens": exchange.prompt_tokens, "completion_tokens": exchange.completion_tokens}
    return json.dumps(
        {
            "id": f"chatcmpl-{exchange.uid}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
            "usage": {**usage, "total_tokens": total},
        }
    ).encode()


def answer_of(named: str) -> Callable[[dict[str, Any]], Any]:
    if not named:
        return lambda body: instance(
            body.get("response_format", {}).get("json_schema", {}).get("schema", {"type": "object"})
        )
    module, _, name = named.partition(":")
    found: Callable[[dict[str, Any]], Any] = getattr(importlib.import_module(module), name)
    return found


def instance(schema: dict[str, Any]) -> Any:
    """The smallest value that a schema of the kind we send accepts."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        parts = schema.get("properties", {})
        return {name: instance(parts.get(name, {})) for name in schema.get("required", parts)}
    if kind == "array":
        return [instance(schema.get("items", {})) for _ in range(schema.get("minItems", 0))]
    return {"string": "words", "boolean": True}.get(kind, schema.get("minimum", 0))


async def serve(settings: Settings) -> None:
    books = Books(settings)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(books), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    # the owner's death closes the pipe
    threading.Thread(
        target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True
    ).start()
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(serve(Settings(**json.loads(sys.argv[1]))))
