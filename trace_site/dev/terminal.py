"""What a long command tells a terminal: finished steps as lines, and below them one line of progress.

On a terminal that line is rewritten every second. Anywhere else it is said again once nothing was for 30 seconds.
"""

import shutil
import threading
import time
from typing import TextIO

CLEAR = "\r\x1b[2K"
REWRITE_SECONDS, REPEAT_SECONDS = 1.0, 30.0
USUAL = 20.0  # seconds of measured work that count as much as what this machine has shown so far


class Progress:
    """Steps with the seconds that each takes on two idle cores; how fast this machine is shows as it goes."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.rewrites = out.isatty()
        self.title = self.detail = ""
        self._step = self._later = self._done = self._spent = 0.0
        self._least: float | None = None
        self._started = self._told = time.monotonic()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._repeat, daemon=True, name="progress").start()

    def say(self, line: str) -> None:
        """A line that stays."""
        with self._lock:
            self._write(f"{CLEAR}{line}\n" if self.rewrites else f"{line}\n")
            self._show()

    def begin(self, title: str, seconds: float, later: float) -> None:
        """`seconds`: what the step usually takes; `later`: what all steps after it do."""
        with self._lock:
            self.title, self.detail, self._least = title, "", None
            self._step, self._later, self._started = seconds, later, time.monotonic()
            self._show()

    def at(self, detail: str, least: float | None = None) -> None:
        """How far the step is, and the seconds it still takes at least, where that is known."""
        self.detail, self._least = detail, least

    def end(self) -> None:
        """The step is finished: a line says how long it took."""
        took, title = time.monotonic() - self._started, self.title
        self._done, self._spent, self.title = self._done + self._step, self._spent + took, ""
        self.say(f"{took:>7,.0f} s  {title}")

    def give_up(self) -> None:
        """The step is not finished, and nothing goes on."""
        with self._lock:
            self.title = ""
            if self.rewrites:
                self._write(CLEAR)

    def close(self) -> None:
        self._ended.set()
        self.give_up()

    @property
    def seconds_left(self) -> float:
        """Of all steps together."""
        pace = (self._spent + USUAL) / (self._done + USUAL)
        rest = pace * self._step - (time.monotonic() - self._started)
        return max(rest, self._least or 0.0, 0.0) + pace * self._later

    def line(self) -> str:
        left, spent = self.seconds_left, self._spent + time.monotonic() - self._started
        share = 100 * spent / (spent + left) if spent + left else 0
        time_left = f"{left / 60:,.0f} min" if left >= 90 else f"{left:,.0f} s"
        return f"{time_left:>7} left, {share:.0f} %: {self.title}{f', {self.detail}' if self.detail else ''}"

    def _repeat(self) -> None:
        while not self._ended.wait(REWRITE_SECONDS):
            with self._lock:
                if self.rewrites:
                    self._show()
                elif self.title and time.monotonic() - self._told >= REPEAT_SECONDS:
                    self._write(f"{self.line()}\n")

    def _show(self) -> None:
        if self.rewrites and self.title:
            self._write(CLEAR + self.line()[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        self._told = time.monotonic()
        self.out.write(text)
        self.out.flush()
