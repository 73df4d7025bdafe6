"""What bodies made to cost time cost everybody else: each operation of the API is sent the largest it takes, full of
what masking and checking find hardest, eight at once by somebody of the weakest role that may, while strangers hold
sockets half open.

    TRACE_HOME=/a/copy/of/a/home python -m tests.bench.hostile_load [--seconds 5] [--only rules/check]

It writes into that home. The site is started as `manage.py up` starts it. Ends with 1 when of one operation the slowest
5 % of health checks or pages wait longer than GOAL, or the web process grows by more than MEMORY.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench.served import cookie_of, served

HALF_OPEN, HOSTILE = 32, 8
GOAL = 0.5  # seconds, of the slowest 5 %
MEMORY = 100_000_000  # bytes
WAIT = 60.0
CSRF = "h" * 32
KEYS = ("{" + ", ".join(f'"key{n}": {n}' for n in range(12_000)) + ', "key0": 0}').encode()
OWN = {"domain": "hr", "rule": "", "base": "pocket", "model": "champion"}
OWN_NUMBERS = dict.fromkeys(("rule", "snapshot", "batch", "champion"), 1)
FILLERS = ("4155552671 ", "1/", "when x, ")  # the worst known of scrubbing, numbers and conditions


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="for each operation")
    parser.add_argument("--only", default="", help="operations with this in their address")
    options = parser.parse_args()
    prepare()
    from tests.test_limits import WITH_A_BODY

    failed = 0
    with served("web") as found:
        url, pid = found["web"]
        ended = threading.Event()
        strangers = [threading.Thread(target=hold, args=(url, ended)) for _ in range(HALF_OPEN)]
        for thread in strangers:
            thread.start()
        for operation in WITH_A_BODY:
            if options.only in operation.path:
                failed += not attacked(url, pid, operation, options.seconds)
        ended.set()
        for thread in strangers:
            thread.join()
    return 1 if failed else 0


def prepare() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    os.environ.update(API_RATE="1000000", API_ADDRESS_RATE="1000000")
    import django

    from trace_site.dev.services import ensure_services

    ensure_services()
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def attacked(url: str, pid: int, operation: Any, seconds: float) -> bool:
    """Whether everybody else noticed little."""
    from tests.test_limits import largest, largest_body, place_of
    from trace_site.access import ADMIN, EXPERT, PRODUCT_MANAGER, REVIEWER

    place = place_of(operation, {})
    # the largest, and one with short lists, which may pass where the largest is refused
    few = json.dumps(largest(operation.bodies()["application/json"]["schema"], 2)).encode()
    bodies = [filled(body, filler) for body in (largest_body(operation), few) for filler in FILLERS] + [KEYS]
    for role in ("", PRODUCT_MANAGER, REVIEWER, EXPERT, ADMIN):
        cookie = f"{cookie_of(f'hostile-{role}', role)}; csrftoken={CSRF}"
        tried = [sent(url, operation.method, place, body, cookie) for body in bodies]
        if tried[0][0] != "403 not_allowed":
            break
    alone, body = max((took, body) for (_, took), body in zip(tried, bodies, strict=True))
    before, ended = resident(pid), threading.Event()
    answers: Counter[str] = Counter()

    def attack() -> None:
        while not ended.is_set():
            answers[sent(url, operation.method, place, body, cookie)[0]] += 1

    threads = [threading.Thread(target=attack) for _ in range(HOSTILE)]
    for thread in threads:
        thread.start()
    checks = {at: waits(url + at, seconds / 2) for at in ("/healthz", "/login/")}
    ended.set()
    for thread in threads:
        thread.join()
    grown = resident(pid) - before
    ok = all(slowest(took) <= GOAL for took in checks.values()) and grown <= MEMORY
    told = ", ".join(f"{at} p95 {slowest(took):.3f} s" for at, took in checks.items())
    print(
        f"{'ok ' if ok else 'BAD'} {operation} ({role or 'no role'}): {len(body):,} bytes, alone"
        f" {alone:.3f} s; {told}; {grown / 1e6:+.0f} MB; {dict(answers)}",
        flush=True,
    )
    return ok


def filled(body: bytes, filler: str) -> bytes:
    """With the filler in place of what stands in long texts, and the home's own things where some are named."""

    def of(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: of(key, part) for key, part in value.items()}
        if isinstance(value, list):
            return [of(name, part) for part in value]
        if isinstance(value, str):
            return OWN.get(name, (filler * len(value))[: len(value)] if len(value) > 20 else value)
        return OWN_NUMBERS.get(name, value) if isinstance(value, int) else value

    return json.dumps(of("", json.loads(body))).encode()


def resident(pid: int) -> int:
    """Bytes of memory of a process and all below it."""
    own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(resident(int(child)) for child in children)


def waits(url: str, seconds: float) -> list[float]:
    """How long each asking took; one that failed counts as WAIT."""
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        try:
            with urllib.request.urlopen(url, timeout=WAIT) as answer:
                answer.read()
            found.append(time.monotonic() - started)
        except OSError:
            found.append(max(WAIT, time.monotonic() - started))
        time.sleep(0.05)
    return found


def hold(url: str, ended: threading.Event) -> None:
    """A request whose header never ends, a byte a second; begun again when the site hangs up."""
    place = urlsplit(url)
    while not ended.is_set():
        with suppress(OSError), socket.create_connection((place.hostname, place.port), timeout=5) as held:
            held.sendall(b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
            while not ended.wait(1.0):
                held.sendall(b"a")


def sent(url: str, method: str, path: str, body: bytes, cookie: str) -> tuple[str, float]:
    """The status with the code of what is refused, and seconds."""
    place, began = urlsplit(url), time.monotonic()
    headers = {"Content-Type": "application/json", "Cookie": cookie, "X-CSRFToken": CSRF}
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=WAIT)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        read = reply.read()
        code = json.loads(read).get("code", "") if reply.status >= 400 else ""
        status = f"{reply.status} {code}".strip()
    except (OSError, http.client.HTTPException, ValueError) as error:
        status = type(error).__name__
    finally:
        connection.close()
    return status, time.monotonic() - began


def slowest(waits: list[float]) -> float:
    return statistics.quantiles(waits, n=20, method="inclusive")[-1] if len(waits) > 1 else waits[0]


if __name__ == "__main__":
    sys.exit(main())
