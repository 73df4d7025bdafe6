"""A job run by a command, in the terminal: here, or followed while a worker has it."""

import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import connection
from django.http import HttpResponse

from trace_site.jobs import WAITS_FOR, Job, reap, run
from trace_site.lib.errors import TraceError


def run_inline(job: Job, echo: Callable[[str], None] = print) -> dict[str, Any]:
    """Run a job from a command line, or follow the worker that has it; returns its result.

    Prints a progress line at least every 4 seconds. Raises TraceError when the job does not end well.
    """
    printer = _Printer(job.pk, echo)
    try:
        while True:
            run(job.pk)
            job.refresh_from_db()
            if not job.is_active:
                break
            if (other := job.params.get(WAITS_FOR)) is not None:
                run(other)  # no worker may be there to do it
            time.sleep(0.5)
            reap()
    except KeyboardInterrupt as error:
        raise TraceError(
            "stopped; what was finished is kept.", code="interrupted", hint="Run the command again to go on."
        ) from error
    finally:
        printer.close()
    echo(job.progress_line())
    if job.state != Job.State.DONE:
        raise TraceError(job.error or f"{job.title} was {job.state}.", code=job.error_code or job.state)
    return job.result or {}


class _Printer:
    """Prints a job's progress from its row while something else runs it."""

    def __init__(self, job_id: int, echo: Callable[[str], None], every: float = 4.0) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, args=(job_id, echo, every), daemon=True)
        self._thread.start()

    def _loop(self, job_id: int, echo: Callable[[str], None], every: float) -> None:
        try:
            while not self._ended.wait(every):
                echo(Job.objects.get(pk=job_id).progress_line())
        finally:
            connection.close()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(timeout=5)


# Pages that follow a job: what polls, and what happens when the job ends.


def refresh_at_end(response: HttpResponse, job: Job | None) -> HttpResponse:
    """Only a page whose job was active polls, so an ended job means that its buttons and links changed as well."""
    if job is None or not job.is_active:
        response["HX-Refresh"] = "true"
    return response
