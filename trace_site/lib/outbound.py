"""Requests to addresses that people type or set: only to hosts that may be asked, and answers up to a cap.

A name is looked up once, every address it has must be allowed, and the connection goes to one of those: what the name
server says later changes nothing. Gateways turn some addresses into others, and some public ones are a cloud's own.
Proxies of the environment are not used, and redirects are not followed.
"""

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import httpx2 as httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

CONNECT_SECONDS = 10.0  # to one of several addresses

# where clouds answer their own machines; not all are private by their bits
METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"))
)
UNICAST = ipaddress.IPv6Network("2000::/3")  # all that IANA has given to hosts of the internet
TUNNELS = [ipaddress.IPv6Network(net) for net in ("2002::/16", "2001::/32")]  # 6to4 and Teredo, inside it
# IPv4 in the last four bytes: compatible, mapped and translated (RFC 4291, RFC 2765), NAT64 (RFC 6052)
LAST_BYTES = [
    ipaddress.IPv6Network(net) for net in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")
]
LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215; where IPv4 stands depends on the network
NAT64_BYTES = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15))
ISATAP = (bytes.fromhex("00005efe"), bytes.fromhex("02005efe"))  # RFC 5214: before the last four bytes


def literal(text: str) -> Address | None:
    """The address that a text writes out, without its zone; None for a name."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def meanings(address: Address) -> list[Address]:
    """The address itself, and the IPv4 addresses that a gateway may make of an IPv6 one."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    parts = address.packed
    inner = [address.sixtofour, *(address.teredo or ())]
    if any(address in net for net in LAST_BYTES) or parts[8:12] in ISATAP:
        inner.append(ipaddress.IPv4Address(parts[12:]))
    if address in LOCAL_NAT64:
        inner += [ipaddress.IPv4Address(bytes(parts[at] for at in places)) for places in NAT64_BYTES]
    return [address, *(one for one in inner if one is not None)]


def may_connect(address: str) -> bool:
    """False for link-local addresses, where clouds keep their secrets, and for what no host has."""
    found = literal(address)
    return found is not None and not any(
        one.is_link_local or one.is_multicast or one.is_unspecified or one in METADATA
        for one in meanings(found)
    )


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet, whatever a gateway makes of it."""
    found = literal(address)
    if found is None:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if isinstance(found, ipaddress.IPv6Address) and (
        found not in UNICAST or any(found in net for net in TUNNELS)
    ):
        return False
    return all(one.is_global and not one.is_multicast and one not in METADATA for one in meanings(found))


class Refused(Exception):
    """A name leads to an address that may not be asked."""


@cache
def certificates() -> ssl.SSLContext:
    """Those of the environment (SSL_CERT_FILE) or the usual ones; reading them takes a while."""
    return httpx.create_ssl_context()


class CheckedTransport(httpx.AsyncHTTPTransport):
    """Connects to addresses that are `allowed`. TLS and the Host header keep the name. Raises Refused."""

    def __init__(self, allowed: Callable[[str], bool], connections: int) -> None:
        limits = httpx.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=30.0
        )
        super().__init__(verify=certificates(), trust_env=False, limits=limits)
        self._allowed = allowed
        self._known: dict[str, list[str]] = {}  # until one cannot be connected to

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode()
        request.extensions = {**request.extensions, "sni_hostname": host}
        if host not in self._known:
            found = await look_up(host)
            if not all(map(self._allowed, found)):
                raise Refused(host)
            self._known[host] = found
        last: Exception = httpx.ConnectError(f"{host} has no address")
        for address in self._known[host]:
            request.url = request.url.copy_with(host=address)
            try:
                return await super().handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                last = error
        self._known.pop(host, None)
        raise last


async def look_up(host: str) -> list[str]:
    """Every address of a name. The system's look-up cannot be stopped, so it runs in a thread nobody waits for."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(answer: list[str] | Exception) -> None:
        if not found.done():
            found.set_exception(answer) if isinstance(answer, Exception) else found.set_result(answer)

    def ask() -> None:
        answer: list[str] | Exception
        try:
            rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            answer = list(dict.fromkeys(str(row[4][0]) for row in rows))
        except (OSError, UnicodeError) as error:
            answer = httpx.ConnectError(f"{host} was not found: {error}")
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, answer)

    threading.Thread(target=ask, daemon=True, name="look-up").start()
    return await found


def client_of(allowed: Callable[[str], bool], connections: int = 1) -> httpx.AsyncClient:
    """Without a time limit of its own but for connecting: whoever asks has a deadline."""
    return httpx.AsyncClient(
        transport=CheckedTransport(allowed, connections),
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        headers={"Accept-Encoding": "identity"},
        trust_env=False,
    )
