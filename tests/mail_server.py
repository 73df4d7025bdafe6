"""A local mail server that speaks SMTP, with faults on demand.

`faults` is consumed one per connection: ok, refuse (421 at the door), hang (says nothing), drip (a byte now and then),
cut (hangs up inside a mail). `unknown` holds addresses it refuses.
"""

import socketserver
import threading
import time
from email import message_from_bytes
from email.message import Message


class MailServer:
    def __init__(self) -> None:
        self.faults: list[str] = []
        self.unknown: set[str] = set()
        self.received: list[Message] = []
        self.connections = 0
        self.ended = threading.Event()
        owner = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                owner.connections += 1
                try:
                    owner.talk(self, owner.faults.pop(0) if owner.faults else "ok")
                except (BrokenPipeError, ConnectionResetError):
                    return

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def talk(self, peer: socketserver.StreamRequestHandler, fault: str) -> None:
        def say(line: str) -> None:
            peer.wfile.write(f"{line}\r\n".encode())

        if fault == "refuse":
            return say("421 busy")
        if fault == "hang":
            self.ended.wait(30)
            return None
        while fault == "drip" and not self.ended.is_set():
            peer.wfile.write(b"2")
            time.sleep(0.1)
        say("220 mail.example.com ESMTP")
        while line := peer.rfile.readline().decode().strip():
            verb = line.partition(" ")[0].upper()
            if verb == "RCPT" and any(address in line for address in self.unknown):
                say("550 no such mailbox")
            elif verb == "DATA":
                if fault == "cut":
                    return None
                say("354 go on")
                self.received.append(message_from_bytes(self._body(peer)))
                say("250 taken")
            else:
                say("221 bye" if verb == "QUIT" else "250 ok")
        return None

    def _body(self, peer: socketserver.StreamRequestHandler) -> bytes:
        lines = []
        while (line := peer.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        return b"".join(lines)

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
