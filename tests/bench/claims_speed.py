"""Claims under threads: how many a second, whether two ever get the same item, and whether one sweep frees all.

    python -m tests.bench.claims_speed [--claims 100000] [--threads 16]

Runs on a database of its own. Every item is claimed once, through `claims.claim_next`, then put away as decided, ten
at a time; then all are claimed with leases that have ended, and swept once. The exit code is 1 when an item
was claimed twice, when some were never claimed, or when the sweep left one.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

GOAL = 300  # claims a second
PUT_AWAY = 10  # items a reviewer holds at most


@dataclass(frozen=True, slots=True)
class Outcome:
    claims: int
    double: int
    missed: int
    seconds: float
    swept: int
    left: int
    sweep_seconds: float

    @property
    def whole(self) -> bool:
        return not (self.double or self.missed or self.left)

    def __str__(self) -> str:
        return (
            f"{self.claims:,} claims in {self.seconds:.1f} s: {self.claims / self.seconds:,.0f} a second (goal "
            f"{GOAL}), {self.double} double, {self.missed} missed; one sweep freed {self.swept:,} in "
            f"{self.sweep_seconds:.1f} s and left {self.left}"
        )


def claim_all(items: int, threads: int) -> Outcome:
    """Make `items` items and have `threads` threads, a reviewer each, claim them all."""
    from synthesis.models import ReviewItem
    from synthesis.review import queue as claims

    make_items(items)
    found: list[list[int]] = [[] for _ in range(threads)]
    workers = [_Worker(number, found[number]) for number in range(threads)]
    started = time.monotonic()
    _together([worker.work for worker in workers])
    seconds = time.monotonic() - started
    times = Counter(pk for pks in found for pk in pks)
    _claim_all_late(workers[0].reviewer)
    started = time.monotonic()
    swept = claims.sweep()
    return Outcome(
        claims=sum(times.values()),
        double=sum(count - 1 for count in times.values()),
        missed=items - len(times),
        seconds=seconds,
        swept=swept,
        left=ReviewItem.objects.exclude(state="open").count(),
        sweep_seconds=time.monotonic() - started,
    )


class _Worker:
    """A reviewer who claims until nothing is left."""

    def __init__(self, number: int, found: list[int]) -> None:
        from django.contrib.auth.models import Group, User

        self.found = found
        self.held: list[int] = []
        self.reviewer = User.objects.create_user(f"claimer-{number}")
        self.reviewer.groups.add(Group.objects.get_or_create(name="reviewer")[0])

    def work(self) -> None:
        from synthesis.review import queue as claims

        while (item := claims.claim_next(self.reviewer, besides=self.held)) is not None:
            self.held.append(item.pk)
            if len(self.held) == PUT_AWAY:
                self.put_away()
        self.put_away()

    def put_away(self) -> None:
        from synthesis.models import ReviewItem

        self.found.extend(self.held)
        mine = ReviewItem.objects.filter(pk__in=self.held, claimed_by=self.reviewer)
        mine.update(state="decided", decided_by=self.reviewer, claimed_by=None, claimed_until=None)
        self.held = []


def make_items(count: int) -> None:
    """So many samples that wait; the trigger makes their items."""
    from synthesis.models import Sample, SynthesisRun
    from tests.factories import make_domain

    run, domain = SynthesisRun.objects.create(branch="rrb", writer="offline"), make_domain()
    made = (
        Sample(run=run, key=f"claimed-{number}", branch="rrb", domain=domain, seed=number, machine="ready")
        for number in range(count)
    )
    Sample.objects.bulk_create(made, batch_size=5000)


def _claim_all_late(reviewer: Any) -> None:
    """As if all had been claimed and left."""
    from django.db.models.functions import Now

    from synthesis.models import ReviewItem

    late = {"state": "claimed", "claimed_by": reviewer, "claimed_until": Now() - timedelta(seconds=1)}
    ReviewItem.objects.update(decided_by=None, **late)


def _together(work: list[Callable[[], None]]) -> None:
    """Each on a thread with a connection of its own."""
    from django.db import connection

    def run(one: Callable[[], None]) -> None:
        try:
            one()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(work)) as pool:
        list(pool.map(run, work))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--claims", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=16)
    asked = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    import django

    from trace_site.dev.services import ensure_services

    ensure_services()
    django.setup()
    from django.conf import settings
    from django.db import connection

    from trace_site.database import become_owner

    name = settings.DATABASES["default"]["NAME"]
    become_owner()
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        outcome = claim_all(asked.claims, asked.threads)
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
    print(outcome)
    return 0 if outcome.whole else 1


if __name__ == "__main__":
    sys.exit(main())
