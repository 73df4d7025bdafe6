"""Clients who leave before their answer is whole: what is done for them elsewhere ends with them."""

import threading
from collections.abc import Callable


class Departed(Exception):
    """Whoever asked has left, so it was not answered."""


class Departure:
    """Of one client; `caller` tells whose turn its requests take. Whoever notices it calls `happen`, in any thread;
    what waits for another server meanwhile says by `until` how that ends."""

    def __init__(self, caller: str = "") -> None:
        self.caller = caller
        self.happened = False
        self._end: Callable[[], object] | None = None
        self._lock = threading.Lock()  # what has said that it is over is not ended afterwards

    def until(self, end: Callable[[], object] | None) -> None:
        """From here on leaving calls `end`; None: nothing."""
        with self._lock:
            self._end = end
            if end is not None and self.happened:
                end()

    def happen(self) -> None:
        with self._lock:
            self.happened = True
            if self._end is not None:
                self._end()
