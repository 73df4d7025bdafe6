"""A local server that speaks the chat-completions protocol, with faults on demand.

`answers` maps a request body to the content of the answer; `faults` is a list consumed one per request:
ok, 429:<Retry-After>, 500, html, truncated, broken, duplicate, refusal, empty, hang, slow, reset, flood, 401, 404.
"""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LlmServer:
    def __init__(self, answers: Callable[[dict[str, Any]], Any] = lambda body: {"ok": True}) -> None:
        self.answers = answers
        self.faults: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.ended = threading.Event()
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with owner._lock:
                    owner.requests.append(
                        {**body, "path": self.path, "authorization": self.headers["Authorization"]}
                    )
                    fault = owner.faults.pop(0) if owner.faults else "ok"
                try:
                    owner.reply(self, body, fault)
                except (BrokenPipeError, ConnectionResetError):
                    return

            def log_message(self, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def reply(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], fault: str) -> None:
        name, _, detail = fault.partition(":")
        if name == "hang":
            self.ended.wait(30)
        elif name == "reset":
            handler.connection.close()
        elif name == "html":
            _send(handler, 200, b"<html><body>Bad gateway</body></html>", {"Content-Type": "text/html"})
        elif name.isdecimal():
            headers = {"Retry-After": detail} if detail else {}
            _send(handler, int(name), json.dumps({"error": {"message": name}}).encode(), headers)
        elif name == "slow":
            self._slowly(handler, self._completion(body, name))
        elif name == "flood":
            _send(handler, 200, b" " * 5_000_000, {})
        else:
            _send(handler, 200, self._completion(body, name), {})

    def _completion(self, body: dict[str, Any], fault: str) -> bytes:
        content = json.dumps(self.answers(body))
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        finish = "stop"
        if fault == "truncated":
            message["content"], finish = content[: len(content) // 2], "length"
        elif fault == "broken":
            message["content"] = content[:-1]
        elif fault == "duplicate":
            message["content"] = '{"ok": true, "ok": false}'
        elif fault == "refusal":
            message["content"], message["refusal"] = None, "I cannot help with that."
        elif fault == "empty":
            message["content"] = ""
        completion = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }
        if fault == "shape":
            completion["choices"] = ["text"]
        elif fault == "no_message":
            completion["choices"][0]["message"] = None
        elif fault == "bad_usage":
            completion["usage"] = [11, 7]
        return json.dumps(completion).encode()

    def _slowly(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        for byte in data:
            if self.ended.is_set():
                return
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(0.02)


def _send(handler: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)
