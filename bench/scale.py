"""Every page, list and search over 8,323 tools, 123 rules, 1,000,000 samples and 20 runs; and the rollups they read.

    TRACE_HOME=/some/empty/folder python -m bench.scale [--samples 1000000] [--runs 20] [--only home] [--browser]

The first run fills the home (minutes) and ends; the next measure at once. One line a page: p50, p95 and the slowest of
50 requests in milliseconds of server time; processor time of this process and of its Postgres backend for one request,
which other work on the machine hardly moves; queries; kB. Then rollups: processor seconds of both from scratch, where
nothing moved, and after a rule, a sample and a promotion. With `--browser` the first load of the home and domain pages
in Chromium, nothing cached: bytes over the wire (no proxy that compresses) and first contentful paint, the median of
five.
"""

import argparse
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

ITEMS, KEPT_OUT, RECORDED, REPORTED = 600, 2_000, 20_000, 400
REQUESTS = 50
GOAL_MS = 150
LOADS = 5
PORT = 8893


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=int, default=8_323)
    parser.add_argument("--rules", type=int, default=123)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="", help="measure the pages whose title holds this text")
    parser.add_argument("--browser", action="store_true")
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    os.environ.update(API_RATE="1000000", API_ADDRESS_RATE="1000000")  # a fast machine would meet the limit
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # playwright's loop lives in this thread
    from trace_site.dev.services import ensure_services

    ensure_services()
    import django

    django.setup()
    if fill(asked):
        return 0
    slow = measure_pages(asked.only)
    if not asked.only:
        measure_rollups()
    if asked.browser:
        measure_loads()
    return 1 if slow else 0


def fill(asked: argparse.Namespace) -> bool:
    """False where the home is full already."""
    from django.core.management import call_command
    from django.db import connection, transaction

    from bench.scale_samples import ReviewHome
    from synthesis.models import Sample
    from training.models import Model

    call_command("migrate", verbosity=0)
    if Model.objects.exists():
        return False
    started = time.monotonic()

    def echo(line: str) -> None:
        print(f"  {line}", flush=True)

    if not Sample.objects.exists():
        ReviewHome(asked.samples, asked.rules, asked.tools).build(echo)
    echo(f"{asked.runs} runs, their evaluations, and what was recorded")
    with transaction.atomic():
        Measured(asked.runs).build()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    print(f"filled in {time.monotonic() - started:.0f} s")
    return True


class Measured:
    """Runs with evaluations over one benchmark, what they were asked besides, recorded requests, and every second run
    promoted, the rollups counted after each."""

    def __init__(self, runs: int, seed: int = 20) -> None:
        from catalog.models import Tool

        self.chance, self.many = random.Random(seed), runs
        rows = Tool.objects.filter(status=Tool.Status.ACTIVE).order_by("pk")
        self.tools = list(rows.only("pk", "name", "domain_id", "cluster_id"))
        self.near: dict[int | None, list[str]] = {}
        for tool in self.tools:
            self.near.setdefault(tool.cluster_id, []).append(tool.name)

    def build(self) -> None:
        from evaluation.results import rollups
        from tests.factories import crown, make_model, make_run

        self.snapshot = self.freeze()
        self.benchmark()
        self.evaluate(None)
        for number in range(self.many):
            model = make_model(run=make_run(snapshot=self.snapshot))
            self.evaluate(model)
            if number % 2:
                crown(model)
                rollups.refresh()
        self.kept_out(model)
        self.requests(model)
        rollups.refresh()

    def guess(self, gold: Any) -> str:
        """Right, a look-alike, or anything."""
        near, any_tool = self.near[gold.cluster_id], self.chance.choice(self.tools)
        return self.chance.choice([gold.name] * 6 + self.chance.choices(near, k=3) + [any_tool.name])

    def freeze(self) -> Any:
        from synthesis.models import Sample, SnapshotSample
        from tests.factories import make_snapshot

        snapshot = make_snapshot()
        approved = Sample.objects.filter(human="approved", machine="ready").order_by("pk")
        SnapshotSample.objects.bulk_create(
            SnapshotSample(snapshot=snapshot, sample_id=pk, position=place, sample_key=key)
            for place, (pk, key) in enumerate(approved.values_list("pk", "key")[:10_000])
        )
        return snapshot

    def benchmark(self) -> None:
        from evaluation.models import Benchmark

        self.golds = [self.chance.choice(self.tools) for _ in range(ITEMS)]
        self.test = Benchmark.objects.create(name="asked", kind="prb", hash="0" * 64, count=ITEMS)

    def evaluate(self, model: Any) -> None:
        from tests.factories import make_evaluation

        for decode in ("fast", "trace", "trace-free") if model else ("embedding",):
            many = 1 if decode.startswith("trace") else 10
            given = [
                (gold, [self.guess(gold), *(self.chance.choice(self.tools).name for _ in range(many - 1))])
                for gold in self.golds
            ]
            make_evaluation(*given, benchmark=self.test, decode=decode, model=model)

    def kept_out(self, model: Any) -> None:
        from evaluation.models import Answer, LabelledRequest
        from evaluation.results.unanswered import Unanswered
        from synthesis.models import Sample
        from trace_site.jobs import Job

        asked = [one for one, _ in Unanswered.kept_out(model).requests if one.sample_id][:KEPT_OUT]
        samples = Sample.objects.in_bulk([one.sample_id for one in asked])
        by_name = {tool.name: tool for tool in self.tools}
        job = Job.objects.create(kind="rule_tests", state="done")
        LabelledRequest.objects.bulk_create(asked)
        made = []
        for one in asked:
            gold = by_name[samples[one.sample_id].answer[0]]
            of = {"item": one, "job": job}
            made += [Answer(model=by, output={"tools": [self.guess(gold)]}, **of) for by in (model, None)]
        Answer.objects.bulk_create(made)

    def requests(self, model: Any) -> None:
        from django.contrib.auth.models import User
        from django.utils import timezone

        from evaluation.models import RetrievalRequest

        owner, now = User.objects.create(username="copilot", password="!"), timezone.now()
        rows = []
        for number in range(RECORDED):
            gold = self.chance.choice(self.tools)
            told = number < REPORTED
            rows.append(
                RetrievalRequest(
                    key=uuid4(),
                    at=now - timedelta(minutes=number * 2),
                    owner=owner,
                    via="single",
                    outcome="answered",
                    query=f"asked {number}",
                    model=model,
                    tools=[self.guess(gold)],
                    verdict="wrong" if told else "",
                    expected=[gold.name] if told else [],
                    reported_at=now if told else None,
                )
            )
        RetrievalRequest.objects.bulk_create(rows, batch_size=2000)


def home_pages() -> Iterator[tuple[str, Callable[[int], str]]]:
    from django.db.models import Count
    from django.urls import reverse

    from bench.scale_pages import asking
    from catalog.models import Domain
    from evaluation.coverage.counted import counted

    yield "home", asking(reverse("home"))
    gaps = [row.pk for rows in counted().clusters.values() for row in rows if row.open_tools][:50]
    largest = Domain.objects.annotate(many=Count("tools")).order_by("-many")
    for slug in largest.values_list("slug", flat=True)[:2]:
        yield f"domain page, {slug}", asking(reverse("home"), domain=slug)
        yield f"clusters, {slug}", asking(reverse("clusters"), domain=slug)
        yield f"map, {slug}", asking(reverse("clusters-map"), domain=slug)
    yield "cluster", lambda number: reverse("cluster", args=[gaps[number % len(gaps)]])


def measure_pages(only: str) -> int:
    from django.contrib.auth.models import Group, User
    from django.test import Client

    from bench.scale_pages import pages

    client = Client(SERVER_NAME="localhost", raise_request_exception=False)
    admin = User.objects.get(username="admin")
    admin.groups.set(Group.objects.all())
    client.force_login(admin)
    print(f"{'page':<42}{'p50':>8}{'p95':>8}{'max':>8}{'cpu':>7}{'queries':>9}{'kB':>6}")
    asked = [(title, address) for title, address in [*home_pages(), *pages()] if only in title]
    slow = sum(not one_page(client, title, address) for title, address in asked)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return slow


def one_page(client: Any, title: str, address: Any) -> bool:
    """Measure and print one page; was it fast enough?"""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    answer = client.get(address(0))  # what a process does once
    if answer.status_code != 200:
        print(f"{title:<42} answers {answer.status_code} at {address(0)}", flush=True)
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    times, cpu = [], processor_seconds(backend)
    for number in range(REQUESTS):
        started = time.perf_counter()
        answer = client.get(address(number))
        times.append(1000 * (time.perf_counter() - started))
        assert answer.status_code == 200, (title, address(number), answer.status_code)
    cpu = 1000 * (processor_seconds(backend) - cpu) / REQUESTS
    with CaptureQueriesContext(connection) as queries:
        client.get(address(0))
    times.sort()
    p95 = times[int(0.95 * len(times))]
    print(
        f"{title:<42}{statistics.median(times):>8.1f}{p95:>8.1f}{times[-1]:>8.1f}{cpu:>7.1f}{len(queries):>9}"
        f"{len(answer.content) / 1000:>6.0f}{' <-- slow' if p95 > GOAL_MS else ''}",
        flush=True,
    )
    return p95 <= GOAL_MS


def processor_seconds(backend: int) -> float:
    """Of this process, and of a Postgres backend that runs on this machine."""
    stat = Path(f"/proc/{backend}/stat")
    fields = stat.read_text().rpartition(")")[2].split() if stat.is_file() else []
    ticks = int(fields[11]) + int(fields[12]) if fields else 0
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def measure_rollups() -> None:
    from evaluation.coverage.counted import counted
    from evaluation.models import Count
    from evaluation.results import rollups
    from rules.models import Rule
    from synthesis.models import Sample
    from training.models import AliasMove, Model
    from training.registry.registry import current_aliases

    Count.objects.all().delete()
    timed("rollups from scratch, nothing read before", rollups.refresh)
    Count.objects.all().delete()
    timed("rollups from scratch", rollups.refresh)
    timed("counted again, nothing moved", rollups.refresh)
    timed("is anything behind?", lambda: rollups.is_behind(rollups.Now.read()))

    rule = Rule.objects.filter(published__isnull=False).order_by("pk")[0]
    published = rule.published_id
    for title, version in (("a rule rolled back", None), ("and applied", published)):
        Rule.objects.filter(pk=rule.pk).update(published=version)
        timed(f"{title}: rollups counted", rollups.count)
    sample = Sample.objects.filter(human="pending", machine="ready").order_by("pk")[0]
    Sample.objects.filter(pk=sample.pk).update(human="approved")
    timed("a sample approved", rollups.refresh)
    Sample.objects.filter(pk=sample.pk).update(human="pending")
    champion = current_aliases()["champion"]
    other = Model.objects.exclude(pk=champion.pk).order_by("-pk")[0]
    AliasMove.objects.create(alias=AliasMove.Alias.CHAMPION, model=other)
    timed("a model promoted", rollups.refresh)
    found = counted()
    print(f"{len(found.outcomes):,} labelled requests, {sum(map(len, found.clusters.values())):,} clusters")


def timed(title: str, work: Callable[[], Any]) -> None:
    backend, here = backend_pid(), time.process_time()
    in_postgres = processor_seconds(backend) - here
    result = work()
    here, now = time.process_time() - here, backend_pid()
    after = processor_seconds(now) - time.process_time()
    in_postgres = after - in_postgres if now == backend else after  # a job opens a connection of its own
    shown = result if isinstance(result, dict | bool) else ""
    print(f"{title:<44}{here:>7.2f} s here {in_postgres:>6.2f} s in Postgres  {shown}", flush=True)


def backend_pid() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def measure_loads() -> None:
    from django.contrib.auth.models import User
    from playwright.sync_api import sync_playwright

    from tests.browser.reviewing import session_cookie
    from tests.synthesis.storm_site import Site

    site, admin = Site(PORT), User.objects.get(username="admin")
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    site.start()
    try:
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox", "--disable-gpu"]
            )
            for title, address in home_pages():
                cookie = session_cookie(admin, site.url)
                loads = [one_load(chromium, site.url, address(0), cookie) for _ in range(LOADS)]
                paint, size = (statistics.median(column) for column in zip(*loads, strict=True))
                print(f"{title:<42}first paint {paint:>6.0f} ms  {size / 1000:>6.0f} kB", flush=True)
            chromium.close()
    finally:
        site.kill()


def one_load(chromium: Any, url: str, address: str, cookie: Any) -> Sequence[float]:
    """(milliseconds to the first contentful paint, bytes received), nothing cached."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, base_url=url)
    context.add_cookies([cookie])
    page = context.new_page()
    received: list[float] = []
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    page.goto(address, wait_until="networkidle")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    context.close()
    return paint, sum(received)


if __name__ == "__main__":
    sys.exit(main())
