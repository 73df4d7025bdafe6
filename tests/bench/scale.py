"""Server time of every list, search and filter at 50,000 tools and 5,000 rules, in this process, by Django's client.

    TRACE_HOME=/some/empty/folder python -m tests.bench.scale [--tools 50000] [--rules 5000] [--samples 20000]

The first run fills the home; later ones measure at once. Prints one line a page: p50, p95, the slowest, queries, kB.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

REQUESTS = 50
GOAL_MS = 150


def main() -> int:
    options = parse()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    from trace_site.services import ensure_services

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

    call_command("migrate", verbosity=0)
    if Tool.objects.exists():
        return
    started = time.monotonic()
    with transaction.atomic():
        Home(options.tools, options.rules, options.samples).build(lambda line: print(f"  {line}", flush=True))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    print(f"filled in {time.monotonic() - started:.0f} s")


def measure(only: str) -> int:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from tests.bench.scale_pages import pages

    client = Client(SERVER_NAME="localhost", raise_request_exception=False)
    client.force_login(User.objects.get(username="admin"))
    slow = 0
    print(f"{'page':<44}{'p50':>8}{'p95':>8}{'max':>8}{'queries':>9}{'kB':>7}")
    for title, address in pages():
        if only not in title:
            continue
        answer = client.get(address(0))  # what a process does once
        if answer.status_code != 200:
            print(f"{title:<44} fails: {answer.status_code} at {address(0)}", flush=True)
            slow += 1
            continue
        times = []
        for number in range(REQUESTS):
            started = time.perf_counter()
            answer = client.get(address(number))
            times.append(1000 * (time.perf_counter() - started))
            assert answer.status_code == 200, (title, address(number), answer.status_code)
        with CaptureQueriesContext(connection) as queries:
            client.get(address(0))
        times.sort()
        p95 = times[int(0.95 * len(times))]
        slow += p95 > GOAL_MS
        mark = " <-- slow" if p95 > GOAL_MS else ""
        print(
            f"{title:<44}{statistics.median(times):>8.1f}{p95:>8.1f}{times[-1]:>8.1f}{len(queries):>9}"
            f"{len(answer.content) / 1000:>7.0f}{mark}",
            flush=True,
        )
    print(f"{slow} above {GOAL_MS} ms")
    return 1 if slow else 0


Address = Callable[[int], str]

if __name__ == "__main__":
    sys.exit(main())
