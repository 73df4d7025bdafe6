"""Many reviewers at once, a server killed in the middle of it, and whether every reading has exactly one decision.

Real HTTP clients (see `storm_client`) against the site, on the database of the test.
"""

import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.synthesis.storm_client import Reviewer, Seen
from tests.synthesis.storm_site import Site

SHARE = 0.3  # of second readings
PATIENCE_S = 900


@dataclass(frozen=True, slots=True)
class Outcome:
    """`problems` is empty when all went well."""

    rounds: dict[int, int]
    kills: int
    answers: dict[int, int]
    problems: dict[str, int]


def storm(reviewers: int, items: int, kills: int, seed: int = 1) -> Outcome:
    """Have `reviewers` people decide `items` samples while the server is killed `kills` times."""
    names = make_world(reviewers, items)
    seen, done, site = Seen(), threading.Event(), Site(_free_port())
    people = [Reviewer(site.url, name, seed + at, seen, expire) for at, name in enumerate(names)]
    site.start()
    try:
        with ThreadPoolExecutor(reviewers) as pool:
            working = [pool.submit(_worked, one, done) for one in people]
            try:
                killed = _watch(site, items, kills)
            finally:
                done.set()
        for one in working:
            one.result()
    finally:
        site.kill()
    return _outcome(seen, killed)


def make_world(reviewers: int, items: int) -> list[str]:
    """Samples of one rule that wait, some drawn for a second reading, and the people; their names."""
    from django.contrib.auth.models import Group, User

    from synthesis.models import SecondShare, SynthesisRun
    from tests.factories import make_rule, make_sample, make_tool

    tools = [make_tool("PayNova/GetPayslip"), make_tool("PayOld/GetPayslip")]
    rule, run = (
        make_rule(*tools, code="SLIP_YEAR"),
        SynthesisRun.objects.create(branch="rule", writer="offline"),
    )
    for _ in range(items):
        make_sample(rule=rule, tools=tools, run=run)
    SecondShare.objects.create(share=SHARE)
    group = Group.objects.get_or_create(name="reviewer")[0]
    for number in range(reviewers):
        User.objects.create_user(f"storm-{number}", password="pass").groups.add(group)
    return [f"storm-{number}" for number in range(reviewers)]


def expire(session: str) -> None:
    """End a session between page and submit."""
    from django.db import connection

    from trace_site.people.sessions import Session, stored_key

    Session.objects.filter(pk=stored_key(session)).delete()
    connection.close()


def _worked(one: Reviewer, done: threading.Event) -> None:
    from django.db import connection

    try:
        one.work(done)
    finally:
        connection.close()


def _watch(site: Site, items: int, kills: int) -> int:
    """Kill and restart as the decisions grow; until everything is decided."""
    from synthesis.models import Decision, Sample

    moments = [items * (at + 1) // (kills + 1) for at in range(kills)]
    killed, ended = 0, time.monotonic() + PATIENCE_S
    waiting = Sample.objects.filter(human__in=("pending", "second", "disputed"))
    while waiting.exists():
        assert time.monotonic() < ended, f"{waiting.count()} samples still wait"
        if killed < kills and Decision.objects.count() >= moments[killed]:
            site.kill()
            killed += 1
            site.start()
        time.sleep(0.05)
    return killed


def _outcome(seen: Seen, killed: int) -> Outcome:
    from synthesis.models import ReviewItem

    standing = ReviewItem.objects.filter(state="decided").values_list("round", flat=True)
    return Outcome(
        rounds=dict(Counter(standing)),
        kills=killed,
        answers=dict(seen.answers),
        problems=dict(seen.wrong) | {name: count for name, count in _problems(seen).items() if count},
    )


def _problems(seen: Seen) -> dict[str, int]:
    """What the books say that may not be, by name."""
    from django.db.models import Count, F, Sum

    from synthesis.models import Decision, ReviewItem, Sample
    from synthesis.samples.counts import sample_kinds, waiting_total
    from trace_site.audit.models import AuditChange, AuditEntry

    made = Decision.objects.exclude(verdict="undo")
    stands = made.filter(item__state="decided", take=F("item__takes"))
    readings = stands.values("sample", "round").annotate(times=Count("pk"))
    counted: Counter[Any] = Counter(Sample.objects.values_list("machine", "human"))
    rollup = sample_kinds({}).values_list("machine", "human").annotate(sum=Sum("n")).filter(sum__gt=0)
    decided = {(d.reviewer.username, d.sample_id, d.verdict) for d in made.select_related("reviewer")}
    return {
        "readings decided twice": readings.filter(times__gt=1).count(),
        "decided items without a decision": ReviewItem.objects.filter(state="decided").count()
        - readings.count(),
        "two readings by one person": stands.values("sample", "reviewer")
        .annotate(n=Count("pk"))
        .filter(n__gt=1)
        .count(),
        "items left": ReviewItem.objects.filter(state__in=("open", "claimed", "held")).count(),
        "decisions without audit": _apart(AuditChange.objects.filter(table_name="synthesis_decision")),
        "decisions without a note": _apart(AuditEntry.objects.filter(action__startswith="sample.")),
        "accepted and not there": len(set(seen.accepted) - decided),
        "waiting by the rollup": waiting_total(),
        "rollup differs": int({(machine, human): n for machine, human, n in rollup.order_by()} != counted),
    }


def _apart(rows: Any) -> int:
    from synthesis.models import Decision

    return abs(int(rows.count()) - Decision.objects.count())


def _free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port
