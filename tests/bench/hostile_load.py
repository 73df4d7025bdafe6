"""How long the health check waits while strangers hold sockets half open and somebody sends bodies made to cost time.

    TRACE_HOME=/some/folder python -m tests.bench.hostile_load [--url http://127.0.0.1:8000] [--seconds 30]

Without --url the site is started as `manage.py up` starts it. Ends with 1 when the slowest 5 % wait longer than GOAL.
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
from contextlib import nullcontext, suppress
from urllib.parse import urlsplit

from tests.bench.served import cookie_of, served

HALF_OPEN, HOSTILE, KEYS = 32, 8, 12_000
GOAL = 0.5  # seconds, of the slowest 5 %
WAIT = 60.0
CSRF = "h" * 32
BODY = ("{" + ", ".join(f'"key{n}": {n}' for n in range(KEYS)) + ', "key0": 0}').encode()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="a site that runs on the home's database already")
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    cookie = signed_in()
    given = {"web": (str(options.url).rstrip("/"), 0)}
    with nullcontext(given) if options.url else served("web") as found:
        url, _ = found["web"]
        ended = threading.Event()
        print(f"alone: {told(health(url, 3.0))}")
        answers: Counter[str] = Counter()
        threads = [threading.Thread(target=hold, args=(url, ended)) for _ in range(HALF_OPEN)]
        threads += [
            threading.Thread(target=attack, args=(url, cookie, ended, answers)) for _ in range(HOSTILE)
        ]
        for thread in threads:
            thread.start()
        time.sleep(1)
        waits = health(url, options.seconds)
        ended.set()
        print(
            f"{HALF_OPEN} half-open sockets, {HOSTILE} bodies of {len(BODY):,} bytes at once: {told(waits)}"
        )
        print(f"the bodies were answered {dict(answers)}")
        for thread in threads:
            thread.join()
    return 0 if slowest(waits) <= GOAL else 1


def signed_in() -> str:
    """The cookie of somebody without a role."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "trace_site.settings")
    import django

    from trace_site.dev.services import ensure_services

    ensure_services()
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    return f"{cookie_of('hostile')}; csrftoken={CSRF}"


def health(url: str, seconds: float) -> list[float]:
    """How long each asking took; one that failed counts as WAIT."""
    waits, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.monotonic()
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=WAIT) as answer:
                answer.read()
            waits.append(time.monotonic() - started)
        except OSError:
            waits.append(max(WAIT, time.monotonic() - started))
        time.sleep(0.1)
    return waits


def hold(url: str, ended: threading.Event) -> None:
    """A request whose header never ends, a byte a second; begun again when the site hangs up."""
    place = urlsplit(url)
    while not ended.is_set():
        with suppress(OSError), socket.create_connection((place.hostname, place.port), timeout=5) as held:
            held.sendall(b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
            while not ended.wait(1.0):
                held.sendall(b"a")


def attack(url: str, cookie: str, ended: threading.Event, answers: Counter[str]) -> None:
    place = urlsplit(url)
    headers = {"Content-Type": "application/json", "Cookie": cookie, "X-CSRFToken": CSRF}
    while not ended.is_set():
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=WAIT)
        try:
            connection.request("POST", "/api/v1/rules/check", BODY, headers)
            reply = connection.getresponse()
            code = json.loads(reply.read()).get("code", "") if reply.status >= 400 else ""
            answers[f"{reply.status} {code}".strip()] += 1
        except (OSError, http.client.HTTPException, ValueError) as error:
            answers[type(error).__name__] += 1
        finally:
            connection.close()


def slowest(waits: list[float]) -> float:
    return statistics.quantiles(waits, n=20, method="inclusive")[-1] if len(waits) > 1 else waits[0]


def told(waits: list[float]) -> str:
    middle = statistics.median(waits)
    return (
        f"/healthz {len(waits)} times, p50 {middle:.3f} s, p95 {slowest(waits):.3f} s, max {max(waits):.3f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
