"""A client that sends or reads slowly costs memory, never a thread; the health check waits for nobody."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from django.core.signals import request_finished
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.urls import get_resolver, path

from trace_site import asgi, limits
from trace_site.dev.services import first_free_port
from trace_site.dev.supervisor import children
from trace_site.impact import routes_named

ran: list[str] = []
gate = threading.Event()
made: list[int] = []


def simple(request, name=""):
    ran.append(request.path)
    assert len(request.body) == int(request.META.get("CONTENT_LENGTH") or 0)
    return HttpResponse(f"{len(request.body)} bytes")


def held(request):
    ran.append(request.path)
    assert gate.wait(10)
    return HttpResponse("held")


def waiting(request):
    request.departure.until(gate.set)
    ran.append(request.path)
    assert gate.wait(10)
    return HttpResponse("nobody reads this")


def stream(request):
    def parts():
        try:
            for number in range(1000):
                made.append(number)
                yield b"x" * asgi.BLOCK
        finally:
            made.append(-1)

    return StreamingHttpResponse(parts())


def told_bit_by_bit(request):
    def parts():
        yield b"first"
        assert gate.wait(10)
        yield b"second"

    return StreamingHttpResponse(parts(), content_type=asgi.EVENTS)


def unchanged(request):
    """As WhiteNoise says that a file has not changed."""
    response = FileResponse((), status=304)
    del response["Content-Type"]
    return response


urlpatterns = [
    path("healthz", simple, name="healthz"),
    path("simple", simple),
    path("api/v1/simple", simple),
    path("held", held),
    path("waiting", waiting),
    path("long", simple, name="api-retrieve"),
    path("api/v1/imports", simple, name="api-imports"),
    path("stream", stream),
    path("unchanged", unchanged),
    path("events", told_bit_by_bit),
    path("slow", held, name="webhooks:test"),
]


@pytest.fixture
def site(settings):
    ran.clear(), made.clear(), gate.clear()
    settings.ROOT_URLCONF, settings.MIDDLEWARE = __name__, []
    limits._route.cache_clear()
    site = asgi.Site()
    yield site
    gate.set()
    limits._route.cache_clear()
    for lane in site.lanes.values():
        lane.threads.shutdown()


class Client:
    """One request as the server hands it over, by a client that reads so many messages of the answer."""

    def __init__(self, site, at, *parts, ends=True, reads=10_000, leaves=False, headers=()):
        self.told = asyncio.Queue()
        for number, part in enumerate(parts or [b""], start=1):
            more = not ends or number < len(parts)
            self.told.put_nowait({"type": "http.request", "body": part, "more_body": more})
        if leaves:
            self.told.put_nowait({"type": "http.disconnect"})
        self.room, self.taken = asyncio.Semaphore(reads), []
        scope = {"type": "http", "http_version": "1.1", "method": "POST" if parts else "GET", "path": at}
        scope |= {"raw_path": at.encode(), "query_string": b"", "headers": list(headers), "root_path": ""}
        scope |= {"client": ("127.0.0.1", 1), "server": ("localhost", 80), "scheme": "http"}
        self.task = asyncio.ensure_future(site(scope, self.told.get, self.send))

    async def send(self, message):
        await self.room.acquire()
        self.taken.append(message)

    async def answer(self):
        """(status, text)"""
        await asyncio.wait_for(self.task, 10)
        body = b"".join(message.get("body", b"") for message in self.taken)
        return (self.taken[0]["status"] if self.taken else None), body.decode()


def token(name):
    return [(b"authorization", f"Token {name}".encode())]


def of(coroutine):
    return asyncio.run(coroutine)


async def one(site, at, *parts, **how):
    return await Client(site, at, *parts, **how).answer()


def test_a_body_comes_whole_to_its_view(site):
    assert of(one(site, "/simple", b"ab", b"", b"cde")) == (200, "5 bytes")


def test_a_body_that_breaks_off_or_has_malformed_chunks_is_refused_with_the_reason(site):
    """The server tells of both in the same way."""
    status, text = of(one(site, "/api/v1/simple", b"ab", ends=False, leaves=True))
    assert status == 400 and "its chunks are malformed" in json.loads(text)["message"] and not ran


@pytest.mark.parametrize("said", [True, False], ids=["said", "unsaid"])
@pytest.mark.parametrize("more", [1, asgi.UNREAD_BYTES + 1])
def test_a_body_too_large_is_refused_before_a_view_runs(site, said, more):
    body = b"x" * (asgi.most_bytes("/api/v1/simple") + more)
    headers = [(b"content-length", str(len(body)).encode())] if said else []
    status, text = of(one(site, "/api/v1/simple", body[:-1], body[-1:], headers=headers))
    told = json.loads(text)
    assert status == 413 and told["code"] == "too_large" and set(told) == {"message", "code", "extra"}
    assert ran == []


def test_the_largest_allowed_body_is_taken(site):
    most = asgi.most_bytes("/simple")
    assert of(one(site, "/simple", b"x" * most)) == (200, f"{most} bytes")


LARGE, OF_ANA = asgi.BODY + 1, (b"cookie", b"theme=dark; sessionid=abc")
BY_A_PROGRAM = (b"authorization", b"Token abc")


@pytest.mark.parametrize("said", [True, False], ids=["said", "unsaid"])
def test_a_large_body_is_taken_only_of_who_says_who_they_are(site, said):
    length = [(b"content-length", str(LARGE).encode())] if said else []
    for who in ([], [(b"cookie", b"theme=dark")]):
        status, text = of(one(site, "/api/v1/imports", b"x" * LARGE, headers=length + who))
        assert status == 401 and json.loads(text)["code"] == "not_authenticated"
    assert ran == []
    for who in (OF_ANA, BY_A_PROGRAM):
        assert of(one(site, "/api/v1/imports", b"x" * LARGE, headers=[*length, who]))[0] == 200
    assert of(one(site, "/api/v1/imports", b"x" * asgi.BODY))[0] == 200


def test_large_bodies_that_come_at_once_have_a_limit_together_and_make_room_when_they_end(site, monkeypatch):
    monkeypatch.setattr(asgi, "AT_ONCE", 2 * LARGE)

    async def run():
        upload = {"headers": [OF_ANA]}
        waiting = [Client(site, "/api/v1/imports", b"x" * LARGE, ends=False, **upload) for _ in range(2)]
        while site.large.total() < 2 * LARGE:
            await asyncio.sleep(0.001)
        third = Client(site, "/api/v1/imports", b"x" * LARGE, **upload)
        refused, told = await third.answer()
        small = await one(site, "/api/v1/imports", b"x")
        for client in waiting:
            client.told.put_nowait({"type": "http.disconnect"})
            await client.answer()
        headers = dict(third.taken[0]["headers"])
        again = await one(site, "/api/v1/imports", b"x" * LARGE, **upload)
        return refused, json.loads(told)["code"], headers[b"Retry-After"], small[0], again[0]

    assert of(run()) == (503, "unavailable", b"10", 200, 200)
    assert not site.large


def test_a_length_of_very_many_digits_is_an_answer(site):
    assert of(one(site, "/simple", b"x", headers=[(b"content-length", b"9" * 5000)]))[0] == 413


def test_a_body_that_never_ends_is_hung_up_on_and_held_no_thread(site, monkeypatch):
    monkeypatch.setattr(asgi, "BODY_SECONDS", 0.1)

    async def run():
        slow = [Client(site, "/simple", b"a", ends=False) for _ in range(50)]
        return [await client.answer() for client in slow]

    assert {status for status, _ in of(run())} == {408}
    assert ran == [] and not site.lanes[asgi.PAGES].threads._threads


def test_pages_that_are_held_up_hold_up_neither_the_health_check_nor_what_has_a_lane(site):
    async def run():
        clients = [Client(site, "/held", headers=token(n)) for n in range(3 * asgi.THREADS[asgi.PAGES])]
        while len(ran) < asgi.THREADS[asgi.PAGES]:
            await asyncio.sleep(0.001)
        answers = [await Client(site, at).answer() for at in ("/healthz", "/long")]
        gate.set()
        return answers, [await client.answer() for client in clients]

    answers, held_up = of(run())
    assert [status for status, _ in answers] == [200, 200]
    assert {status for status, _ in held_up} == {200}


def test_what_programs_ask_is_answered_while_pages_and_long_waits_are_held_up(site):
    async def run():
        threads = asgi.THREADS[asgi.PAGES] + asgi.THREADS[asgi.LONG]
        clients = [Client(site, at, headers=token(n)) for at in ("/held", "/slow") for n in range(threads)]
        while len(ran) < threads:
            await asyncio.sleep(0.001)
        answers = [await Client(site, "/long").answer() for _ in range(20)]
        gate.set()
        return answers, [await client.answer() for client in clients]

    answers, held_up = of(run())
    assert {status for status, _ in [*answers, *held_up]} == {200}


def test_who_asks_much_holds_up_himself_alone(site, monkeypatch):
    """Beside more requests of one token than may wait, another's are answered; the one is told to come again, and when
    many ask too much all are."""
    monkeypatch.setattr(asgi, "MOST_WAITING", 100)
    places = site.lanes[asgi.PAGES].most

    async def run():
        much = [Client(site, "/held", headers=token("much")) for _ in range(200)]
        while not ran:
            await asyncio.sleep(0.001)
        answers = [await one(site, "/simple", headers=token("other")) for _ in range(20)]
        others = [Client(site, "/held", headers=token(name)) for name in range(27)]
        await asyncio.sleep(0.05)
        refused = await one(site, "/api/v1/simple", headers=token("other"))
        gate.set()
        return (
            answers,
            refused,
            [await client.answer() for client in much],
            [await c.answer() for c in others],
        )

    answers, refused, held_up, others = of(run())
    assert {status for status, _ in [*answers, *others]} == {200}
    assert refused[0] == 503 and "too many requests wait" in refused[1]
    assert Counter(status for status, _ in held_up) == {200: places + 75, 503: 125 - places}


def test_nobody_comes_as_several_callers():
    def callers(at, *requests):
        client = {"client": ("10.0.0.1", 1), "path": at}
        return {asgi.caller_of({**client, "headers": list(headers.items())}) for headers in requests}

    told, session, junk = b"authorization", {b"cookie": b"sessionid=s1"}, {b"cookie": b"sessionid=0; theme=1"}
    spelled = [{told: text} for text in (b"Token abc", b"token abc", b"TOKEN  abc ")]
    assert len(callers("/api/v1/retrieve", *spelled, {**spelled[0], **junk})) == 1
    mixed = [{b"cookie": b"theme=%d; sessionid=s1" % number} for number in range(3)]
    assert (
        len(callers("/rules/", session, *mixed, {**session, told: b"Token 1"}, {**session, told: b"x"})) == 1
    )
    assert len(callers("/api/v1/rules", session, {**session, told: b"Basic 1"}, {**session, told: b" "})) == 1
    assert len(callers("/rules/", {}, {told: b"Token"}, {b"cookie": b"theme=1"})) == 1
    assert len(callers("/api/v1/rules", {}, session, junk, spelled[0], {told: b"Token abd"})) == 5


def test_who_leaves_while_he_waits_for_his_turn_takes_no_place(site):
    threads = asgi.THREADS[asgi.PAGES]

    async def run():
        held_up = [Client(site, "/held", headers=token(n)) for n in range(threads)]
        while len(ran) < threads:
            await asyncio.sleep(0.001)
        gone = [Client(site, "/simple", headers=token("gone")) for _ in range(5)]
        await asyncio.sleep(0.01)
        for client in gone:
            client.task.cancel()
        gate.set()
        for client in held_up:
            await client.answer()
        await one(site, "/simple")
        return site.lanes[asgi.PAGES].free

    assert of(run()) == threads


def test_an_event_is_sent_when_it_is_told_and_not_when_a_block_is_full(site):
    async def run():
        client = Client(site, "/events")
        while len(client.taken) < 2:
            await asyncio.sleep(0.001)
        first = client.taken[1]["body"]
        gate.set()
        return first, await client.answer()

    assert of(run()) == (b"first", (200, "firstsecond"))


def test_a_view_that_waits_for_a_client_who_leaves_is_told(site):
    """`/waiting` ends when its departure does, or after ten seconds with another answer."""

    async def run():
        client = Client(site, "/waiting", leaves=False)
        while not ran:
            await asyncio.sleep(0.001)
        client.told.put_nowait({"type": "http.disconnect"})
        await client.answer()

    of(run())
    assert gate.is_set()


def test_streams_that_nobody_reads_hold_no_thread_and_are_made_no_further(site):
    async def run():
        clients = [Client(site, "/stream", reads=2) for _ in range(100)]
        while any(len(client.taken) < 2 for client in clients):
            await asyncio.sleep(0.001)
        answer = await Client(site, "/simple").answer()
        so_far = len(made)
        for client in clients:
            client.told.put_nowait({"type": "http.disconnect"})
            for _ in range(2):  # the block that waits to be taken, and the end
                client.room.release()
        for client in clients:
            await client.answer()
        return answer, so_far

    answer, so_far = of(run())
    assert answer == (200, "0 bytes") and 100 <= so_far <= 200
    assert made.count(-1) == 100  # each was closed


def test_a_stream_comes_whole_and_in_blocks(site):
    async def run():
        client = Client(site, "/stream")
        return len((await client.answer())[1]), len(client.taken)

    assert of(run()) == (1000 * asgi.BLOCK, 1002)  # the beginning, each block, the end


def test_a_stream_that_has_begun_goes_on_when_too_many_wait(site, monkeypatch):
    async def run():
        client = Client(site, "/stream", reads=2)
        while len(client.taken) < 2:
            await asyncio.sleep(0.001)
        monkeypatch.setattr(asgi, "MOST_WAITING", 0)
        refused = await one(site, "/simple")
        for _ in range(1000):
            client.room.release()
        return refused[0], len((await client.answer())[1])

    assert of(run()) == (503, 1000 * asgi.BLOCK)


def test_a_file_that_has_not_changed_is_said_to_without_a_type(site):
    assert of(one(site, "/unchanged")) == (304, "")


def test_a_client_that_stops_reading_is_left(site, monkeypatch):
    monkeypatch.setattr(asgi, "SEND_SECONDS", 0.05)
    assert of(one(site, "/stream", reads=0)) == (None, "")


def test_what_nobody_waits_for_any_more_is_not_done(site):
    async def run():
        clients = [Client(site, "/held", headers=token(n)) for n in range(asgi.THREADS[asgi.PAGES])]
        while len(ran) < asgi.THREADS[asgi.PAGES]:
            await asyncio.sleep(0.001)
        left = Client(site, "/simple", leaves=True)
        await asyncio.sleep(0.01)
        gate.set()
        for client in [*clients, left]:
            await client.answer()

    of(run())
    assert "/simple" not in ran


def test_every_request_is_finished_once(site):
    finished = []

    def count(**_):
        finished.append(threading.current_thread().name)

    request_finished.connect(count)
    try:
        for at in ("/simple", "/stream", "/simple"):
            of(one(site, at))
    finally:
        request_finished.disconnect(count)
    assert len(finished) == 3 and all(name.startswith(asgi.PAGES) for name in finished)


def test_every_view_with_a_long_lane_exists():
    def names(patterns, space=""):
        for pattern in patterns:
            if hasattr(pattern, "url_patterns"):
                yield from names(
                    pattern.url_patterns, space + (f"{pattern.namespace}:" if pattern.namespace else "")
                )
            else:
                yield f"{space}{pattern.name}"

    assert set(names(get_resolver("trace_site.urls").url_patterns)) >= routes_named(
        "long_views"
    ) | routes_named("program_views")


@pytest.fixture
def served(db):
    """The site as `manage.py up` starts it."""
    port = first_free_port(0)
    [web] = [child for child in children(port, 0) if child.name == "web"]
    process = subprocess.Popen(web.command, cwd=Path(asgi.__file__).parent.parent)
    try:
        while not answers(port):
            assert process.poll() is None
            time.sleep(0.05)
        yield process, port
    finally:
        process.kill()
        process.wait()


def answers(port):
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
        return answer.status == 200
    return False


def test_half_sent_requests_take_nothing_from_the_others_and_the_server_ends_with_its_parent(served):
    process, port = served
    half = [socket.create_connection(("127.0.0.1", port)) for _ in range(64)]
    for held_open in half[:32]:
        held_open.sendall(b"GET /login/ HTTP/1.1\r\nHost: localhost\r\nX-A: ")
    for held_open in half[32:]:
        held_open.sendall(b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\na")
    for _ in range(3):
        for held_open in half:
            with suppress(OSError):  # a slow machine: the server has hung up on it already
                held_open.sendall(b"a")
        assert all(answers(port) for _ in range(10))
    with socket.create_connection(("127.0.0.1", port), timeout=10) as large:
        large.sendall(b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n\r\n")
        assert b" 413 " in large.recv(4096)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert workers and not any(Path(f"/proc/{worker}").exists() for worker in workers)
