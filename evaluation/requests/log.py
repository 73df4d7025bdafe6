"""The log of what programs asked: written beside the answers, never before them.

In: an entry for each request that was drawn, handed over in memory. A thread of the web process scrubs and writes them,
many at once. What finds no room is lost and counted; no answer waits for the log and none fails with it. Only scrubbed
texts are stored.
"""

import atexit
import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F

from catalog.core.scrubbing.scrub import scrub
from evaluation.models import RequestDay, RequestLogPolicy, RetrievalRequest
from trace_site.database import database_now

log = logging.getLogger(__name__)
# entries in memory; at 100 requests a second the database may be away for most of a minute
MOST_WAITING = 5000
MOST_AT_ONCE = 200
WRITE_SECONDS = 1.0  # how often what waits is written
ANSWERED = "answered"
REPORTED = ("verdict", "expected", "comment", "reported_at")  # what a report of an answer writes
LOGGED = [
    field.name
    for field in RetrievalRequest._meta.concrete_fields
    if field.name not in ("id", "key", *REPORTED)
]


@dataclass(slots=True)
class Entry:
    """One request that was drawn, with its texts as they came."""

    key: UUID
    owner: int
    token: int | None
    token_name: str
    caller: str
    via: str
    query: str
    asked: Mapping[str, Any]  # mode, k, domain, permissions
    total_ms: float
    answer: Mapping[str, Any] | None = None
    outcome: str = ANSWERED
    came: float = field(default_factory=time.monotonic)


def caller_hash(caller: str) -> str:
    """What is kept of the caller that a call names: enough to find the same one again, nothing to know them by."""
    if not caller:
        return ""
    return hmac.new(settings.SECRET_KEY.encode(), f"caller {caller}".encode(), hashlib.sha256).hexdigest()[
        :32
    ]


def request_id(owner: int, logged: bool) -> UUID:
    """An id that says by itself whose request it was and whether it is in the log: eight random bytes, the last bit of
    which says that, and eight of a MAC over them and the owner."""
    drawn = bytearray(secrets.token_bytes(8))
    drawn[7] = drawn[7] & 0xFE | logged
    return UUID(bytes=bytes(drawn) + _mark(bytes(drawn), owner))


def is_logged(key: UUID, owner: int) -> bool | None:
    """None for an id that was never given to this person."""
    drawn, mark = key.bytes[:8], key.bytes[8:]
    return bool(drawn[7] & 1) if hmac.compare_digest(mark, _mark(drawn, owner)) else None


def _mark(drawn: bytes, owner: int) -> bytes:
    message = b"request %d " % owner + drawn
    return hmac.new(settings.SECRET_KEY.encode(), message, hashlib.sha256).digest()[:8]


def policy() -> RequestLogPolicy:
    """As an admin set it, else the defaults."""
    return RequestLogPolicy.objects.first() or RequestLogPolicy()


class Log:
    """What waits to be written in this process."""

    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self.taken: list[Entry] = []  # what is being written
        self.asked = self.lost = 0
        self.counting = threading.Lock()  # of these
        self.writing = threading.Lock()  # one writer at a time
        self.thread: threading.Thread | None = None

    def add(self, entry: Entry | None) -> None:
        """One more request; None: it was not drawn. Waits for nobody but who adds as well."""
        with self.counting:
            self.asked += 1
            if entry is not None and len(self.waiting) >= MOST_WAITING:
                self.lost += 1
            elif entry is not None:
                self.waiting.append(entry)

    def holds(self, key: UUID) -> bool:
        """Whether the request waits here to be written, or is being written."""
        with self.counting:
            return any(entry.key == key for entry in (*self.waiting, *self.taken))

    def start(self) -> None:
        """From here on what waits is written without being asked; the rest at the end of the process."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, name="request-log", daemon=True)
            self.thread.start()
            atexit.register(self.flush)

    def _run(self) -> None:
        while True:
            time.sleep(WRITE_SECONDS)
            self.flush()

    def flush(self) -> None:
        """Write what waits now. While the database is away it waits on, as much as there is room for."""
        with self.writing:
            while self.waiting or self.asked or self.lost:
                if not self._write_some():
                    return

    def _write_some(self, most: int = MOST_AT_ONCE) -> bool:
        """Whether to go on. An entry that the database refuses is lost, and it alone."""
        with self.counting:
            entries = self.taken = [self.waiting.popleft() for _ in range(min(len(self.waiting), most))]
            asked, lost, self.asked, self.lost = self.asked, self.lost, 0, 0
        try:
            with transaction.atomic():
                keeps_texts, now = policy().keeps_texts, database_now()
                write([as_row(entry, keeps_texts, now) for entry in entries])
                count(now.date(), asked=asked, kept=len(entries), lost=lost)
        except (OperationalError, InterfaceError) as error:
            log.warning("%d requests wait for the log: %s", len(entries), error)
            if not connection.in_atomic_block:
                connection.close()  # a new one may come through
            self.put_back(entries, asked, lost)
            return False
        except Exception:  # noqa: BLE001 - whatever an entry does, the log goes on and no answer hears of it
            if len(entries) > 1:
                self.put_back(entries, asked, lost)
                return all(self._write_some(1) for _ in entries)
            log.exception("%d requests were not logged", len(entries))
            self.put_back([], asked, lost + len(entries))
            return bool(entries)
        self.taken = []
        return True

    def put_back(self, entries: Sequence[Entry], asked: int, lost: int) -> None:
        with self.counting:
            self.taken = []
            self.waiting.extendleft(reversed(entries))
            self.asked += asked
            self.lost += lost


def write(rows: Sequence[RetrievalRequest]) -> None:
    """All at once. Of a request that was reported before it was written, all but the report."""
    RetrievalRequest.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["key"], update_fields=LOGGED
    )


requests = Log()


def start() -> None:
    """Called by a process that serves the site."""
    requests.start()


def count(today: date, *, asked: int, kept: int, lost: int) -> None:
    more = {"asked": asked, "kept": kept, "lost": lost}
    if not RequestDay.objects.filter(pk=today).update(**{name: F(name) + n for name, n in more.items()}):
        RequestDay.objects.bulk_create([RequestDay(day=today)], ignore_conflicts=True)
        RequestDay.objects.filter(pk=today).update(**{name: F(name) + n for name, n in more.items()})


def as_row(entry: Entry, keeps_texts: bool, now: datetime) -> RetrievalRequest:
    answer: Mapping[str, Any] = entry.answer or {}
    query, trace = (
        scrub(text) if keeps_texts and text else None for text in (entry.query, answer.get("trace"))
    )
    return RetrievalRequest(
        key=entry.key,
        at=now - timedelta(seconds=time.monotonic() - entry.came),
        owner_id=entry.owner,
        token=entry.token,
        token_name=entry.token_name,
        caller=entry.caller,
        via=entry.via,
        **entry.asked,
        outcome=entry.outcome,
        query=query.text if query else "",
        replaced=query.kinds if query else [],
        trace=trace.text if trace else "",
        model_id=answer["model"]["id"] if answer else None,
        tools=[tool["name"] for tool in answer.get("tools", ())],
        withheld=[tool["name"] for tool in answer.get("withheld", ())],
        cited=[[rule["code"], rule["version"]] for rule in answer.get("cited_rules", ())],
        clause=next((one["token"] for one in answer.get("clauses", ()) if one["decided"]), ""),
        confidence=answer.get("confidence"),
        fits=answer.get("fits"),
        total_ms=round(entry.total_ms, 2),
        engine_ms=round(1000 * answer["latency"]["engine"], 2) if answer else None,
    )
