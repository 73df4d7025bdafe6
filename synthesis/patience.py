"""Waiting for a database that is away for a moment: restarts, failovers, ended connections."""

import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

T = TypeVar("T")
PATIENCE = 30.0  # seconds
AWAY = (OperationalError, InterfaceError)


def patiently(work: Callable[[], T]) -> T:
    """What `work` gives. It is repeated on a new connection while the database is away, so it must bear that.

    Raises the database's error after PATIENCE seconds, and at once inside a transaction.
    """
    given_up = time.monotonic() + PATIENCE
    while True:
        try:
            return work()
        except AWAY:
            if connection.in_atomic_block or time.monotonic() > given_up:
                raise
            connection.close()
            time.sleep(0.2)
