"""A local receiver of webhooks, with faults on demand.

`faults` is consumed one per request: ok, 500, 302, slow (a byte a second), slow-head, hang, flood, reset.
"""

import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HookServer:
    def __init__(self) -> None:
        self.faults: list[str] = []
        self.received: list[dict[str, Any]] = []
        self.ended = threading.Event()
        self.on_received = lambda: None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.received.append({"path": self.path, "body": body, **dict(self.headers.items())})
                owner.on_received()
                try:
                    owner.reply(self, owner.faults.pop(0) if owner.faults else "ok")
                except (BrokenPipeError, ConnectionResetError):
                    return

            def log_message(self, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook?a=b"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def listen_with(self, context: ssl.SSLContext) -> None:
        """From now on connections are TLS."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def reply(self, handler: BaseHTTPRequestHandler, fault: str) -> None:
        if fault == "hang":
            self.ended.wait(30)
        elif fault == "reset":
            handler.connection.close()
        elif fault == "slow-head":
            self._drip(handler, b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 100)
        elif fault == "slow":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
            self._drip(handler, b"a" * 100)
        elif fault == "flood":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while not self.ended.is_set():
                handler.wfile.write(b"a" * 65536)
        else:
            status = 200 if fault == "ok" else int(fault)
            handler.send_response(status)
            if status == 302:
                handler.send_header("Location", f"http://127.0.0.1:{self.port}/elsewhere")
            handler.send_header("Content-Length", "8")
            handler.end_headers()
            handler.wfile.write(b"received")

    def _drip(self, handler: BaseHTTPRequestHandler, text: bytes) -> None:
        for byte in text:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(0.05)
