"""What the retrieval endpoint adds to the engine's own time, and how many queries a second it passes on.

    python -m bench.endpoint [--home DIR] [--seconds 20] [--tools 8323] [--cost] [--pages] [--profile]

A site as `manage.py up` serves it (web in one process, the endpoint in two) in a home of its own, and in place of the
engine a stub that thinks for 10 ms and answers whoever asks. Every call has a token with permissions, is filtered by
them, counted by the limits and logged (share 1: the dearest). Open loop: calls leave at their time, answered or not, so
that a slow answer shows in those behind it; the stub asked directly, in turn with the site, is what its time is taken
from. Then closed loops. Timings mean something on a calm machine alone: the load is printed beside them. What a call
takes of the processor says something on a busy one too.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
THINK = 0.010  # seconds, of the stub
RATE = 100  # calls a second of the open loop
COST_RATE = 20  # and of the one whose processor time is counted
ROUNDS = 4
P50_GOAL, P95_GOAL = 5.0, 20.0  # ms beyond what the stub takes
PASSED_GOAL = 50.0  # queries a second at 16 clients
QUERY = "could somebody send me the payslip of May 2024 for my bank"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--home", type=Path, help="kept for the next time; else a folder that goes")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--tools", type=int, default=8323)
    parser.add_argument(
        "--pages",
        action="store_true",
        help="of both processes once more, while somebody reads pages all the time",
    )
    parser.add_argument(
        "--profile", action="store_true", help="where one request spends its time, in this process"
    )
    parser.add_argument("--cost", action="store_true", help="only what a call takes of the processor")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRACE_HOME"] = str(options.home or folder)
        os.environ.update(RETRIEVE_RATE="10000000", RETRIEVE_ADDRESS_RATE="10000000")
        from trace_site.dev import services

        services.ensure_services()
        try:
            with stub() as engine:
                os.environ["ENGINE_URL"] = engine
                made = prepare(options.tools)
                if options.profile:
                    return profile(made)
                return measure(made, engine, options)
        finally:
            services.stop_services(services.home())


def prepare(tools: int) -> dict[str, Any]:
    """The home's contents: a catalog in which every fourth tool needs a permission, a champion, tokens."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "trace_site.settings"
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from catalog.models import Tool
    from evaluation.models import RequestLogPolicy
    from tests.factories import make_domain, make_model
    from trace_site.artefacts import store
    from trace_site.rest.tokens import service_token_make
    from training.models import AliasMove

    call_command("migrate", verbosity=0)
    user, is_new = User.objects.get_or_create(username="bench")
    if is_new:
        domain = make_domain("bench")
        rows = [
            Tool(
                name=f"Service{n % 900}/Operation{n}",
                api=f"Service{n % 900}",
                endpoint=f"Operation{n}",
                description=f"Does what operation {n} of service {n % 900} does, for the people who ask for it.",
                domain=domain,
                permissions=[f"right.{n % 40}"] if n % 4 == 0 else [],
                content_hash="0" * 64,
                words="x",
            )
            for n in range(tools)
        ]
        Tool.objects.bulk_create(rows, batch_size=2000)
        export = settings.TRACE_HOME / "export"
        export.mkdir()
        listed = [{"name": row.name, "permissions": row.permissions} for row in rows]
        random.Random(1).shuffle(listed)
        (export / "trace.json").write_text(json.dumps({"tools": listed}))
        for name in ("config.json", "tokenizer.json", "manifest.json", "model.safetensors", "card.md"):
            (export / name).write_text("{}")
        digest = store().put_dir(export, "models/bench")
        AliasMove.objects.create(
            alias="champion", model=make_model(store_key="models/bench", store_digest=digest)
        )
        RequestLogPolicy.objects.create(share=1.0)
    rights = [f"right.{n}" for n in range(20)]
    _, secret = service_token_make(
        owner=user, name="bench", scopes=["retrieve"], days=2, actor=user, permissions=rights
    )
    body = {"query": QUERY, "permissions": rights[:10], "k": 10, "caller": "employee 4711"}
    return {"token": secret, "body": body, "cookie": cookie_of("bench", "admin")}


@contextmanager
def stub() -> Iterator[str]:
    from django.conf import settings

    command = [
        sys.executable,
        "-m",
        "tests.engine_stub",
        "--think",
        str(THINK),
        "--store",
        settings.STORE_URL,
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def served(*names: str) -> Iterator[dict[str, tuple[str, int]]]:
    """{name of a process, `web` or `endpoint`: (its address, its id)}."""
    from trace_site.dev.services import first_free_port
    from trace_site.dev.supervisor import children, stop

    port = first_free_port(0)
    ports = {"web": port, "endpoint": first_free_port(port + 1)}
    parts = [one for one in children(port, ports["endpoint"]) if one.name in names]
    for part in parts:
        part.process = subprocess.Popen(part.command, cwd=ROOT)
    try:
        found = {}
        for part in parts:
            url = f"http://127.0.0.1:{ports[part.name]}"
            assert part.process is not None
            while not answers(url):
                assert part.process.poll() is None, "the site did not start"
                time.sleep(0.1)
            found[part.name] = url, part.process.pid
        yield found
    finally:
        stop(parts)


def answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/healthz", timeout=5):
        return True
    return False


def cookie_of(username: str, role: str = "") -> str:
    """Of a person who has signed in."""
    from django.conf import settings
    from django.contrib.auth.models import Group, User
    from django.test import Client

    user, _ = User.objects.get_or_create(username=username)
    user.groups.set(Group.objects.filter(name=role))
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


def processor_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    """{name: what the process of this id and all below it have used}; of those that have ended too."""
    below, used = defaultdict(list), {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal():
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
                below[int(fields[1])].append(int(folder.name))
                used[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def whole(pid: int) -> float:
        return used.get(pid, 0.0) + sum(map(whole, below[pid]))

    return {name: whole(pid) for name, pid in processes.items()}


class Asker:
    """HTTP/1.1 over connections that stay open; as little of the processor as Python can use for it."""

    def __init__(
        self, url: str, path: str, headers: dict[str, str], body: bytes, method: str = "POST"
    ) -> None:
        self.host, _, port = url.removeprefix("http://").partition(":")
        self.port = int(port)
        rows = {"Host": f"{self.host}:{port}", "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in rows.items())
        self.request = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.statuses: Counter[int] = Counter()

    async def ask(self) -> float:
        """Seconds from now to the whole answer."""
        began = time.perf_counter()
        if self.loop is not asyncio.get_running_loop():
            self.idle, self.loop = [], asyncio.get_running_loop()
        kept = self.idle.pop() if self.idle else None
        reader, writer = kept or await asyncio.open_connection(self.host, self.port)
        writer.write(self.request)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            if kept is None:
                raise
            self.idle.clear()  # nobody spoke on it for long, and the site hung up
            return await self.ask()
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        self.idle.append((reader, writer))
        self.statuses[int(head[9:12])] += 1
        return time.perf_counter() - began


async def open_loop(asker: Asker, seconds: float, rate: float = RATE) -> list[float]:
    """Seconds from the time at which a call was due to its answer."""
    began, calls = time.perf_counter(), []

    async def call(due: float) -> float:
        await asker.ask()
        return time.perf_counter() - due

    for number in range(int(seconds * rate)):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        calls.append(asyncio.create_task(call(due)))
    return [await one for one in calls]


async def closed_loop(asker: Asker, clients: int, seconds: float) -> tuple[float, list[float]]:
    """(answers a second, seconds of each)."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def client() -> None:
        while time.perf_counter() < end:
            took.append(await asker.ask())

    await asyncio.gather(*(client() for _ in range(clients)))
    return len(took) / seconds, took


def at(values: list[float], share: float) -> float:
    """In ms."""
    return 1000 * sorted(values)[min(len(values) - 1, int(share * len(values)))]


def cost(asker: Asker, seconds: float, rate: float, processes: dict[str, int]) -> str:
    """Milliseconds of the processor that a call takes, by process, beyond what they use while nobody calls."""
    start = processor_seconds(processes)
    time.sleep(seconds)
    idle = processor_seconds(processes)
    took = asyncio.run(open_loop(asker, seconds, rate))
    time.sleep(1)  # the log is written
    end = processor_seconds(processes)
    per_second = {name: (idle[name] - start[name]) / seconds for name in processes}
    spent = {name: end[name] - idle[name] - per_second[name] * (seconds + 1) for name in processes}
    told = ", ".join(f"{name} {1000 * spent[name] / len(took):.2f}" for name in processes)
    return f"processor at {rate:.0f}/s, ms a call: {told}; n = {len(took):,}; {load()}"


def measure(made: dict[str, Any], engine: str, options: argparse.Namespace) -> int:
    print(probe())
    headers = {"Authorization": f"Token {made['token']}", "Content-Type": "application/json"}
    payload = json.dumps(made["body"]).encode()
    as_engine = json.dumps(engine_body(made)).encode()
    bare = Asker(engine, "/retrieve", {"Content-Type": "application/json"}, as_engine)
    with served("web", "endpoint") as found:
        askers = {name: Asker(url, "/api/v1/retrieve", headers, payload) for name, (url, _) in found.items()}
        asker = askers["endpoint"]
        asyncio.run(open_loop(asker, 3))  # warm
        processes = {"endpoint": found["endpoint"][1], **servers()}
        print(cost(asker, options.seconds, COST_RATE, processes), flush=True)
        if options.cost:
            return 0
        ((p50, p95),) = added("alone", RATE, {"endpoint": asker}, bare, options.seconds)
        missed = (p50 > P50_GOAL) + (p95 > P95_GOAL)
        if options.pages:
            with reading(found["web"][0], made["cookie"]):
                added("while pages are read", RATE / 2, askers, bare, options.seconds)
        for clients in (1, 16, 32):
            passed, took = asyncio.run(closed_loop(asker, clients, options.seconds / 2))
            print(
                f"{clients:2} clients: {passed:.0f} queries/s, "
                f"p50 {at(took, 0.5):.1f} p95 {at(took, 0.95):.1f} ms; {load()}"
            )
            if clients == 16:
                missed += passed < PASSED_GOAL
        print(f"answers by status: {dict(asker.statuses)}")
        time.sleep(1.5)
        from evaluation.models import RequestDay, RetrievalRequest

        days = RequestDay.objects.values_list("asked", "kept", "lost")
        print(f"log: {RetrievalRequest.objects.count():,} rows; asked, kept, lost: {list(days)}")
    return 1 if missed else 0


def added(
    what: str, rate: float, askers: dict[str, Asker], bare: Asker, seconds: float
) -> list[tuple[float, float]]:
    """Milliseconds beyond the engine's own, of the middle and of the slowest 5 %, by process. All are asked in turn."""
    sides = {"engine": bare, **askers}
    took: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(ROUNDS):
        for name in list(sides)[:: -1 if turn % 2 else 1]:
            took[name] += asyncio.run(open_loop(sides[name], seconds / ROUNDS, rate))
    found = []
    for name in askers:
        pair = ("engine", name)
        told = ", ".join(f"{one} p50 {at(took[one], 0.5):.1f} p95 {at(took[one], 0.95):.1f}" for one in pair)
        p50, p95 = (at(took[name], share) - at(took["engine"], share) for share in (0.5, 0.95))
        print(
            f"open loop {rate:.0f}/s, {what}: {told} p99 {at(took[name], 0.99):.1f} ms; added p50 {p50:.1f} "
            f"(goal {P50_GOAL:.0f}), p95 {p95:.1f} (goal {P95_GOAL:.0f}); n = {len(took[name]):,}; {load()}",
            flush=True,
        )
        found.append((p50, p95))
    return found


def servers() -> dict[str, int]:
    """The processes behind the site."""
    from django.conf import settings
    from redis import Redis

    postmaster = settings.TRACE_HOME / "postgres" / "postmaster.pid"
    redis = Redis.from_url(settings.REDIS_URL).info("server")["process_id"]
    return {"postgres": int(postmaster.read_text().split()[0]), "redis": int(redis)}


def engine_body(made: dict[str, Any]) -> dict[str, Any]:
    from training.models import Model

    model = Model.objects.values("store_key", "store_digest").get()
    named = {name: model[f"store_{name}"] for name in ("key", "digest")}
    return {"model": named, "fallback": [], "without": [], "mode": "fast", **made["body"]}


@contextmanager
def reading(url: str, cookie: str) -> Iterator[None]:
    """Two readers who open page after page."""
    code = (
        "import sys, time, urllib.request as u\n"
        "while True:\n"
        "    for page in ('/catalog/', '/evaluation/', '/training/models/', '/rules/'):\n"
        "        u.urlopen(u.Request(sys.argv[1] + page, headers={'Cookie': sys.argv[2]})).read()\n"
    )
    readers = [subprocess.Popen([sys.executable, "-c", code, url, cookie]) for _ in range(2)]
    try:
        time.sleep(1)
        yield
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


def probe() -> str:
    import platform

    loops, began = 0, time.perf_counter()
    while time.perf_counter() - began < 0.5:
        sum(range(1000))
        loops += 1
    name = next(
        (
            line.split(": ")[1]
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "?",
    )
    machine = f"{os.cpu_count()} cores, {name}, Python {platform.python_version()}"
    return f"{machine}, sum(range(1000)) in {500_000 / loops:.1f} us; {load()}"


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


def profile(made: dict[str, Any]) -> int:
    """Where a request's time goes in Django, queries counted; the network and the server are left out."""
    import cProfile
    import pstats

    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    client = Client(headers={"Authorization": f"Token {made['token']}", "Host": "localhost"})

    def ask() -> None:
        assert client.post("/api/v1/retrieve", made["body"], "application/json").status_code == 200

    for _ in range(20):
        ask()
    with CaptureQueriesContext(connection) as queries:
        ask()
    for one in queries.captured_queries:
        print(f"query {one['time']} s: {one['sql'][:150]}")
    took = []
    for _ in range(200):
        began = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began)
    print(
        f"one request: {1000 * statistics.median(took) - 1000 * THINK:.2f} ms beside the stub's {1000 * THINK:.0f} ms"
    )
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(200):
        ask()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
