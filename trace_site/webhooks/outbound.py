"""A POST to an address that somebody typed: only where it may go, never longer than its deadline.

The name is looked up once, every address it has must be public, and the connection is made to one of them: an answer
of the name server that changes afterwards changes nothing. Redirects are not followed. All waiting, from the look-up
to the last byte of the answer, happens before one deadline; the answer is read up to a cap.
"""

import hashlib
import hmac
import queue
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import httpcore2 as httpcore

from trace_site.lib.addresses import is_public, literal, may_connect
from trace_site.lib.errors import TraceError

LONGEST_URL = 500  # characters
CAP = 20_000  # bytes of an answer that are read
EXCERPT = 1_000  # characters of it that are kept
KEPT = "/%:@!$&'()*+,;=~-._?"  # letters of an address that are sent as they are


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    excerpt: str
    seconds: float


def signature(secret: str, at: int, body: bytes) -> str:
    """The value of X-Trace-Signature: HMAC-SHA256 over "<unix time>.<body>"."""
    digest = hmac.new(secret.encode(), b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def check_url(url: str, *, allow_private: bool) -> SplitResult:
    """The parts of an address one may post to. Raises TraceError `bad_input`."""
    schemes = ("https", "http") if allow_private else ("https",)
    if len(url) > LONGEST_URL:
        raise _refused(url, f"it is longer than {LONGEST_URL} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna" if not (parts.hostname or "").isascii() else "ascii")
    except ValueError as error:
        raise _refused(url, "it is no web address") from error
    if parts.scheme not in schemes:
        raise _refused(url, f"it must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    if not host or port == 0 or not url.isprintable() or " " in url:
        raise _refused(url, "it is no web address")
    if parts.username is not None or parts.password is not None:
        raise _refused(url, "it holds a password; the signature says who sends")
    if literal(host.decode()) is not None and not _allowed(host.decode(), allow_private):
        raise _refused(url, "it is an address of a private network")
    return parts


def post(url: str, body: bytes, headers: dict[str, str], *, allow_private: bool, seconds: float) -> Answer:
    """Send `body`; any HTTP answer is an Answer. Raises TraceError `webhook_unreachable` for none in time."""
    started = time.monotonic()
    deadline = started + seconds
    where, name = _target(check_url(url, allow_private=allow_private))
    host = where.host.decode()
    addresses = _resolve(host, where.port or 443, deadline)
    if not all(_allowed(address, allow_private) for address in addresses):
        raise TraceError(f"{host} is an address of a private network.", code="webhook_unreachable")
    sent = [
        ("Host", name),
        ("Content-Length", str(len(body))),
        ("Accept-Encoding", "identity"),
        *headers.items(),
    ]
    try:
        with (
            httpcore.ConnectionPool(network_backend=_Pinned(addresses, deadline)) as pool,
            pool.stream("POST", where, headers=sent, content=body) as response,
        ):
            read = bytearray()
            for piece in response.iter_stream():
                read += piece
                if len(read) >= CAP:
                    break
            excerpt = bytes(read[:CAP]).decode("utf-8", "replace").replace("\0", "")[:EXCERPT]
            return Answer(response.status, excerpt, round(time.monotonic() - started, 3))
    except httpcore.TimeoutException as error:
        raise TraceError(f"{host} did not answer in {seconds:g} s.", code="webhook_unreachable") from error
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise TraceError(f"{host} cannot be reached: {reason}.", code="webhook_unreachable") from error


def _target(parts: SplitResult) -> tuple[httpcore.URL, str]:
    """The address in ASCII, as it goes over the wire, and the Host header."""
    host = (parts.hostname or "").encode("idna" if not (parts.hostname or "").isascii() else "ascii").decode()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = quote(parts.path or "/", safe=KEPT) + (f"?{quote(parts.query, safe=KEPT)}" if parts.query else "")
    shown = f"[{host}]" if ":" in host else host
    name = f"{shown}:{parts.port}" if parts.port else shown
    return httpcore.URL(scheme=parts.scheme, host=host, port=port, target=path.encode()), name


def _allowed(address: str, allow_private: bool) -> bool:
    """Private addresses are an operator's choice, a cloud's own are nobody's."""
    found = literal(address)
    return found is not None and (may_connect(found) if allow_private else is_public(address))


def _refused(url: str, why: str) -> TraceError:
    return TraceError(
        f"{url[:100]!r} cannot be used: {why}.",
        code="bad_input",
        where="url",
        hint="Use an address such as https://ci.example.com/trace.",
    )


def _resolve(host: str, port: int, deadline: float) -> list[str]:
    """Every address of a name. The system's look-up has no time limit, so it waits in a thread of its own."""
    found: queue.Queue[list[str] | OSError | UnicodeError] = queue.Queue()

    def look_up() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.put(list(dict.fromkeys(str(row[4][0]) for row in rows)))
        except (OSError, UnicodeError) as error:
            found.put(error)

    threading.Thread(target=look_up, daemon=True, name="look-up").start()
    try:
        answer = found.get(timeout=max(0.01, deadline - time.monotonic()))
    except queue.Empty:
        answer = OSError("the name server did not answer in time")
    if isinstance(answer, list):
        return answer
    raise TraceError(f"{host} was not found: {answer}.", code="webhook_unreachable") from answer


class _Pinned(httpcore.NetworkBackend):
    """Connects to the checked addresses only, whatever name is asked for; nothing waits past the deadline."""

    def __init__(self, addresses: list[str], deadline: float) -> None:
        self._addresses = addresses
        self._deadline = deadline
        self._system = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        last: Exception = httpcore.ConnectError("no address")
        for address in self._addresses:
            try:
                stream = self._system.connect_tcp(address, port, _left(self._deadline))
                return _Stream(stream, self._deadline)
            except httpcore.ConnectError as error:
                last = error
        raise last


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline))

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        inner = self._stream.start_tls(ssl_context, server_hostname, _left(self._deadline))
        return _Stream(inner, self._deadline)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the deadline has passed")
    return left
