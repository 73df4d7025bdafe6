"""The site as an ASGI application: a slow client costs it memory, never a thread.

A request gets a worker thread only once its body is whole, and gives it back when the view has answered; the answer is
sent by the event loop, a stream block by block, an event stream event by event. What waits long by its nature has a
lane of its own, and so have the health check and what programs ask of a model, so that no page holds up the others. In
a lane callers take turns, so that who asks much holds up himself, and too many who wait are told to come again. Views
stay plain functions.
"""

import asyncio
import hashlib
import multiprocessing
import os
import sys
import tempfile
from asyncio import Task
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any, TypeVar

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")

import django
from django.apps import apps
from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.http import HttpResponseBase, parse_cookie
from django.urls import set_script_prefix
from django.utils.module_loading import import_string

from trace_site.dev.supervisor import die_with_parent
from trace_site.impact import routes_named
from trace_site.lib.departure import Departure
from trace_site.lib.errors import TraceError
from trace_site.lib.loading import loading_modules
from trace_site.lib.turns import Turns
from trace_site.limits import AT_ONCE, BODY, length_said, most_bytes, refusal, route_of, too_large

SWITCH_SECONDS = 0.0005  # Python's own is 0.005, and a request passes between loop and thread several times
BODY_SECONDS = 30.0  # for a whole body, and a second more for each SLOWEST bytes it says it has
SLOWEST = 200_000
UNREAD_BYTES = 4_000_000  # of a body that is refused are taken and thrown away, so that its sender hears why
IN_MEMORY = 256_000  # bytes of a body; what is longer lies on the disk
SEND_SECONDS = 60.0  # for a client to take one block
BLOCK = 1 << 16
MOST_WAITING = 512  # requests for a thread of one lane
EVENTS = "text/event-stream"
PAGES, LONG, PROGRAMS = "pages", "long", "programs"
HEALTH = "healthz"
THREADS = {HEALTH: 1, PAGES: 8, LONG: 4, PROGRAMS: 32}  # as many of the last as one engine answers at once
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
T = TypeVar("T")


class Lane:
    """Threads for one kind of requests, of which no caller has all. For the event loop alone."""

    def __init__(self, name: str, threads: int) -> None:
        self.threads, self.free = ThreadPoolExecutor(threads, name), threads
        self.most = max(1, threads * 3 // 4)
        self.held: Counter[str] = Counter()  # places, by caller
        self.waiting: Turns[tuple[str, asyncio.Future[None]]] = Turns()

    async def run(self, caller: str, work: Callable[..., T], *args: Any) -> T:
        """What `work` gives, in a thread, when it is the caller's turn."""
        await self.turn(caller)
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work, *args)
        finally:
            self.leave(caller)

    async def turn(self, caller: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self.waiting.put(caller, (caller, turn))
        self.admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(caller)
            raise

    def admit(self) -> None:
        """Give what is free to those whose turn it is."""
        while self.free and (one := self.waiting.take(lambda one: self.held[one[0]] < self.most)):
            caller, turn = one
            if not turn.done():
                turn.set_result(None)
                self.held[caller] += 1
                self.free -= 1

    def leave(self, caller: str) -> None:
        self.free += 1
        self.held[caller] -= 1
        if not self.held[caller]:
            del self.held[caller]
        self.admit()


class Site(ASGIHandler):
    """Django's handler with plain threads under it."""

    def __init__(self) -> None:
        self.load_middleware()  # in its synchronous form, as the views are
        self.lanes = {name: Lane(name, threads) for name, threads in THREADS.items()}
        self.large: Counter[IO[bytes]] = Counter()  # bytes of each body beyond BODY; for the event loop alone

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not spoken here")
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as body:
            gone = None
            try:
                size = await self.take_body(scope, receive, body)
                if size and all(name != b"content-length" for name, _ in scope["headers"]):
                    # a body in chunks does not say how long it is; views, and Django's own limits, ask
                    scope = {**scope, "headers": [*scope["headers"], (b"content-length", b"%d" % size)]}
                gone = asyncio.ensure_future(receive())  # after a whole body only its end can come
                await self.answer(scope, body, gone, send)
            except TraceError as error:
                response = refusal(scope["path"], error)
                response["Connection"] = "close"  # what was not read would be taken for the next request
                await self.send_response(response, patient(send))
            except (RequestAborted, TimeoutError):
                return
            finally:
                del self.large[body]
                if gone is not None:
                    gone.cancel()

    async def take_body(self, scope: dict[str, Any], receive: Receive, body: IO[bytes]) -> int:
        """Fill `body` with what the client sends; how many bytes that is.

        What is beyond BODY is counted in `large`.
        Raises TraceError `too_large`, `not_authenticated`, `unavailable`, `too_slow`, `bad_request`.
        """
        most, refused = most_taken(scope)
        said = length_said(dict(scope["headers"]).get(b"content-length", b"").decode("latin-1"))
        if said > most + UNREAD_BYTES:
            raise refused
        taken = 0
        try:
            async with asyncio.timeout(BODY_SECONDS + said / SLOWEST):
                async for part in parts_of(receive):
                    taken += len(part)
                    if taken > most + UNREAD_BYTES:
                        break
                    if taken <= most:
                        if taken > BODY:
                            self.large[body] = taken
                            if self.large.total() > AT_ONCE:
                                busy = "too many files are being sent at once."
                                raise TraceError(busy, code="unavailable", hint="Send it again in a moment.")
                        body.write(part)
        except TimeoutError as error:
            raise TraceError("the body did not come whole in time.", code="too_slow") from error
        if taken > most:
            raise refused
        body.seek(0)
        return taken

    async def answer(self, scope: dict[str, Any], body: IO[bytes], gone: Task[Any], send: Send) -> None:
        request, refused = self.create_request(scope, body)
        lane, caller = self.lanes[lane_of(scope["path"])], caller_of(scope)
        response: Any = refused
        if request is not None:
            left = request.departure = Departure(caller)  # type: ignore[attr-defined]
            gone.add_done_callback(lambda gone: None if gone.cancelled() else left.happen())
            if not lane.waiting.has_room(caller, MOST_WAITING):  # a stream that has begun goes on
                raise TraceError("too many requests wait.", code="unavailable", hint="Ask again in a moment.")
            response = await lane.run(caller, self.respond, request, scope, gone)
        if not response.streaming:
            return await self.send_response(response, patient(send))
        if not response.is_async:
            most = 1 if response.get("Content-Type") == EVENTS else BLOCK  # an unchanged file has none
            response.streaming_content = self.blocks(partial(lane.run, caller), iter(response), gone, most)
        try:
            await self.send_response(response, patient(send))
        finally:
            await asyncio.get_running_loop().run_in_executor(lane.threads, response.close)

    def respond(self, request: ASGIRequest, scope: dict[str, Any], gone: Task[Any]) -> HttpResponseBase:
        """In a worker thread: the view and all that stands around it. An answer that is whole is closed here too."""
        if gone.done():  # nobody waits any more
            raise RequestAborted
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        response = self.get_response(request)
        response._handler_class = self.__class__  # type: ignore[attr-defined]
        if not response.streaming:
            response.close()
        return response

    async def blocks(
        self, run: Callable[..., Awaitable[bytes]], parts: Iterator[bytes], gone: Task[Any], most: int
    ) -> AsyncIterator[bytes]:
        """The parts of a stream in blocks, each made in a thread that is free for others while it is sent."""
        while not gone.done() and (block := await run(next_block, parts, most)):
            yield block


def next_block(parts: Iterator[bytes], most: int) -> bytes:
    """Parts until there are `most` bytes of them."""
    block = bytearray()
    while len(block) < most and (part := next(parts, None)) is not None:
        block += part
    return bytes(block)


def lane_of(path: str) -> str:
    """As the apps say: `long_views` may wait for a model, an endpoint, a child process or the artefact store;
    `program_views` are asked by programs, many at once."""
    if path == f"/{HEALTH}":
        return HEALTH
    route = route_of(path)
    if route in routes_named("long_views"):
        return LONG
    return PROGRAMS if route in routes_named("program_views") else PAGES


def caller_of(scope: dict[str, Any]) -> str:
    """Whose turn a request takes: its token's or its session's, whichever its view will know it by, else its address's.
    Nothing else of a request counts, so that nobody comes as several callers. Who that is finds the view."""
    headers = dict(scope["headers"])
    scheme, *said = headers.get(b"authorization", b"").split()[:2] or [b""]
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    token = said[0] if said and scheme.lower() in (b"token", b"bearer") else b""
    session = cookies.get(settings.SESSION_COOKIE_NAME, "").encode()
    known = token or session if scope["path"].startswith("/api/") else session or token
    address = str((scope.get("client") or [""])[0]).encode()
    return hashlib.sha256(known or address).hexdigest()[:16]


def most_taken(scope: dict[str, Any]) -> tuple[int, TraceError]:
    """The bytes that this request's body may have, and the refusal of more: a stranger's has BODY everywhere.

    Who asks is found out later, by the view; here it is enough that the request says who.
    """
    most, session = most_bytes(scope["path"]), f"{settings.SESSION_COOKIE_NAME}=".encode()
    if most <= BODY or any(
        name == b"authorization" or (name == b"cookie" and session in value)
        for name, value in scope["headers"]
    ):
        return most, too_large(most)
    what = f"a body of more than {BODY:,} bytes is read of people who are signed in."
    return BODY, TraceError(what, code="not_authenticated", hint="Sign in, or send a token.")


async def parts_of(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":  # who left hears nothing; who sent no proper chunk does
            broken = "the body ended before it was whole, or its chunks are malformed."
            hint = "Send it with a Content-Length, or in chunks that end with an empty one."
            raise TraceError(broken, code="bad_request", hint=hint)
        yield message.get("body", b"")
        more = message.get("more_body", False)


def patient(send: Send) -> Send:
    """A client that takes nothing for so long is left."""

    async def sent(message: Mapping[str, Any]) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await send(message)

    return sent


is_worker = multiprocessing.parent_process() is not None  # of the server, which starts it again when it dies
if is_worker:
    sys.setswitchinterval(SWITCH_SECONDS)
    if sys.platform == "linux":
        die_with_parent()
with loading_modules():
    django.setup()
    application = Site()
    lane_of("/")  # loads every view, which the first request would wait for
    if is_worker:
        for app in apps.get_app_configs():
            for name in getattr(app, "at_start", ()):
                import_string(name)()
