"""Faults of the platform: a database, a broker or a disk that is away or full, for which nobody's input is to blame.

The one place that tells them from mistakes. Requests are answered with 503 and Retry-After, jobs wait and go on.
"""

import errno

import psycopg
import redis
from django.db import InterfaceError, OperationalError
from psycopg.errors import DiskFull

from trace_site.lib.errors import TraceError

# psycopg's own where Django does not translate it: while a server-side cursor is read or closed
AWAY = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
FULL = (errno.ENOSPC, errno.EDQUOT)
RETRY_AFTER = 2  # seconds
PLATFORM = ("disk_full", "ledger_down", "unavailable")  # codes of what is told already


def outage(error: BaseException | None) -> TraceError | None:
    """What of the platform failed; None where it was something else. An error that was raised while another was
    handled may be that one's echo: a connection that ends in a transaction is None to what closes it. One of ours is
    only where it says so: a file that could not be written, because the disk is full."""
    seen: list[BaseException] = []  # one that is raised again may be the context of its own cause
    while error is not None and error not in seen:
        seen.append(error)
        if isinstance(error, TraceError) and error.code in PLATFORM:
            return error
        if isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in FULL):
            return _outage("the disk is full.", "disk_full", "An admin has to free space.")
        if isinstance(error, redis.ConnectionError | redis.TimeoutError):
            return _outage("Redis does not answer.", "unavailable")
        if isinstance(error, AWAY) and not isinstance(error.__cause__, DiskFull):
            return _outage("the database is away or busy.", "unavailable")
        error = error.__cause__ or (None if isinstance(error, TraceError) else error.__context__)
    return None


def _outage(what: str, code: str, hint: str = "Try again in a moment.") -> TraceError:
    return TraceError(what, code=code, hint=hint, extra={"retry_after": RETRY_AFTER})
