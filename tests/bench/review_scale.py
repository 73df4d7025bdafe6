"""Server time of samples lists and of the review queue at a million samples and 200,000 that wait, by Django's client.

    TRACE_HOME=/some/empty/folder python -m tests.bench.review_scale [--samples 1000000] [--only text]

The first run fills the home (minutes); later ones measure at once. One line a page: p50, p95 and the slowest of 50
requests in milliseconds; `cpu` is the processor time of this process and of its Postgres backend for one request, which
other work on the machine hardly moves; queries; and whether a statement names the trace. Then claims as the first
reviewer meets them: 5,000 items claimed at the head, 10,000 that they have put off, 50,000 that only others may read.
"""

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from tests.bench.scale import processor_seconds

REQUESTS = 50
GOAL_MS = 100
TRACE = re.compile(r'"?synthesis_(sample|attempt)"?\."?trace"?')


def main() -> int:
    options = parse()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    from trace_site.dev.services import ensure_services

    ensure_services()
    import django

    django.setup()
    prepare(options)
    from django.contrib.auth.models import Group, User
    from django.test import Client

    client = Client(SERVER_NAME="localhost", raise_request_exception=False)
    me = User.objects.get(username="reviewer0")
    me.groups.set(Group.objects.all())
    client.force_login(me)
    slow = sum(not one_page(client, *page) for page in pages() if options.only in page[0])
    slow += sum(not line(*work) for work in (*screen_work(me), *work_of(me)) if options.only in work[0])
    if options.only in "against OFFSET":
        against_offset()
    print(f"{slow} above {GOAL_MS} ms, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 1 if slow else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="measure the lines whose title holds this text")
    return parser.parse_args()


def prepare(options: argparse.Namespace) -> None:
    from django.core.management import call_command

    from synthesis.models import Sample
    from tests.bench.review_scale_home import ReviewHome

    call_command("migrate", verbosity=0)
    if Sample.objects.exists():
        return
    started = time.monotonic()
    ReviewHome(options.samples, 2_000, 8_000).build(lambda text: print(f"  {text}", flush=True))
    print(f"filled in {time.monotonic() - started:.0f} s")


def pages() -> Iterator[tuple[str, str]]:
    """(title, address)"""
    from rules.models import Rule
    from synthesis.models import Sample

    last = Sample.objects.order_by("-pk").values_list("pk", flat=True)[0]
    some = Sample.objects.filter(pk=last // 3).select_related("rule_version__rule").get()
    code = Rule.objects.filter(versions__samples__pk__gt=last // 3).values_list("code", flat=True)[0]
    depths = {"first": "", "half": str(last // 2), "99.9 %": str(last // 1000), "last": "last"}
    filters: dict[str, dict[str, Any]] = {
        "none": {},
        "domain": {"domain": some.domain_id},
        "to review": {"human": "pending", "machine": "ready"},
        "to adjudicate, rare": {"human": "disputed"},
        "approved in bulk": {"approved_how": "bulk"},
        "writer": {"writer": "llm"},
        "run": {"run": some.run_id},
        "rule": {"rule": code},
        "five combined": {
            "domain": some.domain_id,
            "style": "explicit",
            "human": "second",
            "machine": "ready",
            "branch": "rule",
        },  # fmt: skip
        "a check in a domain": {"check": "leakage", "domain": some.domain_id},
        "an axis in a domain": {"axis": "label", "domain": some.domain_id},
        "a common word, rare status": {"q": "payslip", "human": "disputed"},
        "a common word in a domain": {"q": "payslip", "domain": some.domain_id},
        "nothing matches": {"machine": "dropped", "approved_how": "bulk"},
        "common word": {"q": "payslip"},
        "rare word": {"q": "zeppelin"},
        "no such word": {"q": "qqzzxx"},
        "common check": {"check": "leakage"},
        "rare check": {"check": "clean_voice"},
        "axis": {"axis": "label"},
        "stale: current": {"stale": "current"},
        "stale: outdated": {"stale": "outdated"},
    }
    for title, chosen in filters.items():
        for depth, after in depths.items():
            query = {**chosen, **({"after": after} if after else {})}
            yield f"samples, {title}, {depth}", f"/synthesis/samples/?{urlencode(query)}"
    yield "API samples, deep", f"/api/v1/synthesis/samples?human=approved&after={last // 1000}"
    for title, address in (
        ("rule codes of the filter", "/synthesis/samples/rules/"),
        ("nav badge", "/synthesis/review/count/"),
        ("review, first of all", "/synthesis/review/"),
        ("review, a rule", f"/synthesis/review/?rule={code}"),
        ("review, nothing waits", "/synthesis/review/?style=explicit&tier=hard"),
        ("runs", "/synthesis/"),
        ("batches", "/synthesis/batches/"),
        ("team", "/synthesis/team/"),
        ("quality", "/synthesis/quality/"),
    ):
        yield title, address


def one_page(client: Any, title: str, address: str) -> bool:
    answer = client.get(address, follow=True)  # what a process does once
    if answer.status_code != 200:
        print(f"{title:<42} answers {answer.status_code} at {address}", flush=True)
        return answer.status_code == 404
    return line(title, lambda: client.get(address, follow=True))


def screen_work(me: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(title, what the page of the queue asks for while one reads); decisions are rolled back."""
    from synthesis.samples.decisions import seen_key

    client, shown = _screen(me)
    scripted = {"HTTP_HX_REQUEST": "true", "HTTP_ACCEPT": "application/json"}
    yield "review, this item again", lambda: client.get(f"/synthesis/review/{shown.sample_id}/")
    yield (
        "review, next item (fragment)",
        undone(lambda: client.post("/synthesis/review/next/", {"besides": [shown.pk]}, **scripted)),
    )
    sent = {"claim": str(shown.claim), "seen": seen_key(shown.sample), "seconds": "3"}
    yield (
        "review, approve (POST)",
        undone(lambda: client.post(f"/synthesis/review/{shown.sample_id}/approve/", sent, **scripted)),
    )


def work_of(me: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(title, what one request of a reviewer does); all of it is rolled back."""
    from rules.models import Rule
    from synthesis.models import ReviewItem
    from synthesis.review import queue as review_queue
    from synthesis.review import services as review_services

    rare = Rule.objects.exclude(published=None).order_by("-pk").values_list("code", flat=True)[0]

    def decide() -> None:
        item = review_queue.claim_next(me, {"round": 1})
        review_services.approve(sample=item.sample_id, reviewer=me, claim=item.claim)

    yield "claim, no filter", undone(lambda: review_queue.claim_next(me))
    yield "claim, second readings", undone(lambda: review_queue.claim_next(me, {"round": 2}))
    yield "claim, adjudications", undone(lambda: review_queue.claim_next(me, {"round": 3}))
    yield "claim, one rule", undone(lambda: review_queue.claim_next(me, {"rule": rare}))
    yield "claim, a rare tier", undone(lambda: review_queue.claim_next(me, {"tier": "hard", "round": 3}))
    yield "claim, another person", undone(lambda: review_queue.claim_next(_other()))
    yield "claim and approve", undone(decide)
    yield "sweep", undone(review_queue.sweep)
    assert ReviewItem.objects.filter(state="open").exists()


def undone(work: Callable[[], Any]) -> Callable[[], None]:
    """The work, rolled back."""
    from django.db import transaction

    def once() -> None:
        with transaction.atomic():
            work()
            transaction.set_rollback(True)

    return once


def _screen(me: Any) -> tuple[Any, Any]:
    """A browser of theirs, and the item on its screen."""
    from django.test import Client

    from synthesis.review import queue as review_queue

    client = Client(SERVER_NAME="localhost")
    client.force_login(me)
    item = review_queue.claim_next(me)
    assert item is not None
    return client, item


def _other() -> Any:
    from django.contrib.auth.models import User

    return User.objects.get(username="reviewer7")


def line(title: str, work: Callable[[], Any]) -> bool:
    """Measure and print one line; was it fast enough?"""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        work()
    asked = [one["sql"] for one in queries.captured_queries]  # the next request forgets them
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    times, cpu = [], processor_seconds(backend)
    for _ in range(REQUESTS):
        started = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - started))
    cpu = 1000 * (processor_seconds(backend) - cpu) / REQUESTS
    times.sort()
    p95 = times[int(0.95 * len(times))]
    named = sum(bool(TRACE.search(sql)) for sql in asked)
    print(
        f"{title:<42}{statistics.median(times):>8.1f}{p95:>8.1f}{times[-1]:>8.1f}{cpu:>7.1f}{len(asked):>5}"
        f"{f' trace in {named}' if named else ''}{' <-- slow' if p95 > GOAL_MS else ''}",
        flush=True,
    )
    return p95 <= GOAL_MS


def against_offset() -> None:
    """The page after 500,000 rows: by key, and by OFFSET with a COUNT as paginators make it; A/B, seven times."""
    from synthesis.models import Sample
    from synthesis.samples import selectors as samples_selectors

    last = Sample.objects.order_by("-pk").values_list("pk", flat=True)[0]
    chosen = {"machine": "ready"}
    key, offset = [], []
    for _ in range(7):
        started = time.perf_counter()
        samples_selectors.samples(chosen, str(last // 2))
        key.append(time.perf_counter() - started)
        started = time.perf_counter()
        rows = Sample.objects.filter(**chosen).order_by("-pk").only(*samples_selectors.SHOWN)
        list(rows.select_related("rule_version__rule", "run__job")[400_000:400_050])
        rows.count()
        offset.append(time.perf_counter() - started)
    by_key, by_offset = statistics.median(key), statistics.median(offset)
    print(
        f"after 400,000 ready: {1000 * by_key:.1f} ms by key, {1000 * by_offset:.0f} ms by OFFSET and COUNT: "
        f"{by_offset / by_key:.0f} times"
    )


if __name__ == "__main__":
    sys.exit(main())
