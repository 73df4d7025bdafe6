"""A local server that speaks the chat-completions protocol, with faults on demand.

`answers` maps a request body to the content of the answer; `faults` is a list consumed one per request: "ok", a
status ("500", "404"), "429:<Retry-After>", "302:<Location>", or a name of FAULTS, of MESSAGES or of COMPLETIONS.
tests.llm_load serves load, from a process of its own.
"""

import gzip
import json
import struct
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

FLOOD = 50_000_000
BOMB = gzip.compress(bytes(FLOOD), 1)
# what stands in the message in place of the content
MESSAGES: dict[str, dict[str, Any]] = {
    "duplicate": {"content": '{"ok": true, "ok": false}'},
    "nan": {"content": '{"ok": NaN}'},
    "infinity": {"content": '{"ok": -Infinity}'},
    "huge_number": {"content": '{"ok": 1e999}'},
    "deep": {"content": '{"ok": ' + "[" * 50_000},
    "prose": {"content": "Sure! Here is the JSON you asked for."},
    "list": {"content": "[true]"},
    "refusal": {"content": None, "refusal": "I cannot help with that."},
    "empty": {"content": ""},
    "blank": {"content": " \n "},
    "null": {"content": None},
    "parts": {"content": [{"type": "text", "text": '{"ok": true}'}]},
}
# what is changed in the completion around it
COMPLETIONS: dict[str, dict[str, Any]] = {
    "shape": {"choices": ["text"]},
    "no_choice": {"choices": []},
    "no_message": {"choices": [{"message": None}]},
    "bad_usage": {"usage": [11, 7]},
    "negative_usage": {"usage": {"prompt_tokens": -1, "completion_tokens": 7}},
    "no_usage": {"usage": None},
    "wrong_model": {"model": "another-model"},
    "dated_model": {"model": "m-2026-01"},
    "error_200": {"choices": None, "error": {"message": "upstream is down"}},
    "limited_200": {"choices": None, "error": {"code": 429, "message": "slow down"}},
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # a full queue costs its clients a second


class LlmServer:
    def __init__(self, answers: Callable[[dict[str, Any]], Any] = lambda body: {"ok": True}) -> None:
        self.answers = answers
        self.faults: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []  # of the requests
        self.flooded = 0  # bytes that a flood got rid of
        self.ended = threading.Event()
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                sent = {
                    "path": self.path,
                    "authorization": self.headers["Authorization"],
                    "id": self.headers["X-Client-Request-Id"],
                }
                with owner._lock:
                    owner.requests.append({**body, **sent})
                    owner.times.append(time.monotonic())
                    fault = owner.faults.pop(0) if owner.faults else "ok"
                try:
                    owner.reply(self, body, fault)
                except (BrokenPipeError, ConnectionResetError):
                    return

            def log_message(self, *args: Any) -> None:
                return

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def reply(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], fault: str) -> None:
        name, _, detail = fault.partition(":")
        if name.isdecimal():
            header = {"3": "Location", "4": "Retry-After", "5": "Retry-After"}[name[0]]
            headers = {header: detail} if detail else {}
            _send(handler, int(name), json.dumps({"error": {"message": name}}).encode(), headers)
        elif name in FAULTS:
            FAULTS[name](self, handler, self.completion(body, name))
        else:
            _send(handler, 200, self.completion(body, name))

    def completion(self, body: dict[str, Any], fault: str) -> bytes:
        content = json.dumps(self.answers(body))
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        message |= MESSAGES.get(fault, {})
        finish = {"truncated": "length", "content_filter": "content_filter"}.get(fault, "stop")
        if fault == "truncated":
            message["content"] = content[: len(content) // 2]
        elif fault == "broken":
            message["content"] = content[:-1]
        completion = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }
        return json.dumps(completion | COMPLETIONS.get(fault, {})).encode()

    def hang(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        self.ended.wait(30)

    def slow(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        """One byte at a time."""
        _head(handler, {"Content-Length": str(len(data))})
        for byte in data:
            if self.ended.wait(0.02):
                return
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()

    def flood(self, handler: BaseHTTPRequestHandler, data: bytes, status: int = 200) -> None:
        _head(handler, {}, status)
        for _ in range(FLOOD // 100_000):
            handler.wfile.write(b" " * 100_000)
            self.flooded += 100_000

    def key_repeated(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        told = {"refusal": f"Your key {handler.headers['Authorization']} is no good.", "content": None}
        _send(handler, 200, json.dumps({"choices": [{"message": told}]}).encode())

    def unauthorized(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        said = f"Incorrect API key provided: {handler.headers['Authorization']}"
        _send(handler, 401, json.dumps({"error": {"message": said}}).encode())


def _head(handler: BaseHTTPRequestHandler, headers: dict[str, str], status: int = 200) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()


def _send(
    handler: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str] | None = None
) -> None:
    _head(handler, {**(headers or {}), "Content-Length": str(len(data))}, status)
    handler.wfile.write(data)


def _reset(server: LlmServer, handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def _reset_midway(server: LlmServer, handler: BaseHTTPRequestHandler, data: bytes) -> None:
    _head(handler, {"Content-Length": str(len(data))})
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    time.sleep(0.02)
    _reset(server, handler, data)


def _cut(server: LlmServer, handler: BaseHTTPRequestHandler, data: bytes) -> None:
    """Half of what Content-Length says, then a proper end."""
    _head(handler, {"Content-Length": str(len(data))})
    handler.wfile.write(data[: len(data) // 2])


def _events(data: bytes) -> bytes:
    return b"data: " + data + b"\n\ndata: [DONE]\n\n"


FAULTS: dict[str, Callable[[LlmServer, BaseHTTPRequestHandler, bytes], None]] = {
    "hang": LlmServer.hang,
    "slow": LlmServer.slow,
    "flood": LlmServer.flood,
    "flood_500": lambda server, handler, data: server.flood(handler, data, 500),
    "headers": lambda server, handler, data: _head(handler, {f"X-{n}": "x" * 1000 for n in range(200)}),
    "garbage": lambda server, handler, data: handler.wfile.write(b"\x00\xffno HTTP at all\r\n\r\n") and None,
    "key_repeated": LlmServer.key_repeated,
    "unauthorized": LlmServer.unauthorized,
    "reset": _reset,
    "reset_midway": _reset_midway,
    "cut": _cut,
    "cut_body": lambda server, handler, data: _send(handler, 200, data[: len(data) // 2]),
    "nothing": lambda server, handler, data: _send(handler, 200, b""),
    "html": lambda server, handler, data: _send(
        handler, 200, b"<html><body>Bad gateway</body></html>", {"Content-Type": "text/html"}
    ),
    "sse": lambda server, handler, data: _send(
        handler, 200, _events(data), {"Content-Type": "text/event-stream"}
    ),
    "sse_cut": lambda server, handler, data: _send(
        handler, 200, _events(data)[:40], {"Content-Type": "text/event-stream"}
    ),
    "utf16": lambda server, handler, data: _send(handler, 200, data.decode().encode("utf-16")),
    "gzip": lambda server, handler, data: _send(handler, 200, BOMB, {"Content-Encoding": "gzip"}),
    "too_long": lambda server, handler, data: _send(
        handler, 400, b'{"error": {"code": "context_length_exceeded"}}'
    ),
    "quota": lambda server, handler, data: _send(handler, 429, b'{"error": {"code": "insufficient_quota"}}'),
}
