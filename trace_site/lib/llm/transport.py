"""The way to an endpoint: only to hosts that are allowed, never to a cloud's metadata, never past the body cap.

A name is looked up when a connection is made, every address it has is checked, and the connection goes to one of
those: a name server that answers differently later changes nothing. Proxies of the environment are not used.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator, Collection, Iterable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpcore2 as httpcore
import httpx2 as httpx

from trace_site.lib.addresses import literal, may_connect
from trace_site.lib.llm.exchange import LlmError

MOST_BYTES = 1_000_000  # of an answer
CONNECT_SECONDS = 10.0  # to one of several addresses


def check_url(url: str, allowed: Collection[str] = ()) -> None:
    """Raise LlmError `llm_host_refused` unless `url` is http(s) to an allowed host ("name" or "name:port").

    allowed: () for whatever host the address names.
    """
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise _refused("is no web address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _refused("must begin with https:// or http:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise _refused("holds more than a host and a path; keys belong into LLM_API_KEY")
    if allowed and not {host, f"{host}:{port}"} & {one.strip().lower() for one in allowed}:
        raise _refused(f"is at {host[:100]}, which is not in LLM_ALLOWED_HOSTS")
    if (address := literal(host)) is not None and not may_connect(address):
        raise _refused("is an address that no model is served from")


class Transport(httpx.AsyncHTTPTransport):
    """Connections of one client: checked addresses, answers up to MOST_BYTES, nothing compressed."""

    def __init__(self, connections: int) -> None:
        super().__init__(verify=_certificates())
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_certificates(),
            max_connections=connections,
            max_keepalive_connections=connections,
            keepalive_expiry=30.0,
            network_backend=_Checked(),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Capped(response.stream)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            await response.stream.aclose()
            raise LlmError("compressed its answer, which was not asked for", "llm_not_json", again=True)
        return response


@cache
def _certificates() -> ssl.SSLContext:
    """Those of the environment (SSL_CERT_FILE) or the usual ones; reading them takes a while."""
    return httpx.create_ssl_context()


class _Capped(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > MOST_BYTES:
                raise LlmError(f"sent more than {MOST_BYTES:,} bytes", "llm_too_large")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that tells cheaply whether it was closed: the pool asks every idle one at every request."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._closed = select.poll()
        self._closed.register(stream.get_extra_info("socket"), select.POLLIN)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return bool(self._closed.poll(0)) if info == "is_readable" else self._stream.get_extra_info(info)


class _Checked(httpcore.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._system = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        last: Exception = httpcore.ConnectError(f"{host} has no address")
        addresses = await self._addresses(host, port)
        for number, address in enumerate(addresses, start=1):
            limit = CONNECT_SECONDS if number < len(addresses) else timeout
            try:
                return _Stream(
                    await self._system.connect_tcp(address, port, limit, local_address, socket_options or ())
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last

    async def _addresses(self, host: str, port: int) -> list[str]:
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} was not found: {error}") from error
        found = list(dict.fromkeys(str(row[4][0]) for row in rows))
        for text in found:
            address = literal(text)
            if address is None or not may_connect(address):
                raise _refused("leads to an address that no model is served from")
        return found


def _refused(why: str) -> LlmError:
    error = LlmError(why, "llm_host_refused", hint="Check it and LLM_ALLOWED_HOSTS.", free=True)
    error.where = "LLM_BASE_URL"
    return error
