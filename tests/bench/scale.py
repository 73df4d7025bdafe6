"""Server time of every list, search and filter at 50,000 tools and 5,000 rules, in this process, by Django's client.

    TRACE_HOME=/some/empty/folder python -m tests.bench.scale [--tools 50000] [--rules 5000] [--samples 20000]

The first run fills the home; later ones measure at once. One line a page: p50, p95 and the slowest of 50 requests in
milliseconds; `cpu` is the processor time of this process and of its Postgres backend for one request, which other
work on the machine hardly moves; then queries and kB.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

REQUESTS = 50
GOAL_MS = 150


def main() -> int:
    options = parse()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    os.environ.update(API_RATE="1000000", API_ADDRESS_RATE="1000000")  # a fast machine would meet the limit
    from trace_site.dev.services import ensure_services

    ensure_services()
    import django

    django.setup()
    prepare(options)
    return measure(options.only)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=50_000)
    parser.add_argument("--rules", type=int, default=5_000)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--only", default="", help="measure the pages whose title holds this text")
    return parser.parse_args()


def prepare(options: argparse.Namespace) -> None:
    from django.core.management import call_command
    from django.db import connection, transaction

    from catalog.models import Tool
    from tests.bench.scale_home import Home
    from trace_site.database import as_owner

    call_command("migrate", verbosity=0)
    if Tool.objects.exists():
        return
    started = time.monotonic()
    with transaction.atomic():
        Home(options.tools, options.rules, options.samples).build(lambda line: print(f"  {line}", flush=True))
    with as_owner(), connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    print(f"filled in {time.monotonic() - started:.0f} s")


def measure(only: str) -> int:
    from django.contrib.auth.models import Group, User
    from django.test import Client

    from tests.bench.scale_pages import pages

    client = Client(SERVER_NAME="localhost", raise_request_exception=False)
    admin = User.objects.get(username="admin")
    admin.groups.set(Group.objects.all())
    client.force_login(admin)
    slow = 0
    print(f"{'page':<42}{'p50':>8}{'p95':>8}{'max':>8}{'cpu':>7}{'queries':>9}{'kB':>6}")
    for title, address in pages():
        if only in title:
            slow += not one_page(client, title, address)
    print(f"{slow} above {GOAL_MS} ms, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 1 if slow else 0


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


if __name__ == "__main__":
    sys.exit(main())
