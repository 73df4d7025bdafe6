"""The one shape of every command: `--json` makes the last line of stdout one JSON object; errors are one line."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import IntegrityError, connection

from trace_site.audit_context import acting
from trace_site.database import frozen_error
from trace_site.jobs import WAITS_FOR, Job, reap, run
from trace_site.lib.errors import TraceError, declared
from trace_site.lib.letters import entered_all

PRINT_SECONDS = 4.0


class TraceCommand(BaseCommand):
    """A thin shell: define `add_options` and `run`, which returns (result, sentence for people)."""

    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the result as JSON in the last line")
        self.add_options(parser)

    def add_options(self, parser: CommandParser) -> None:
        """Add the command's own options."""

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Do the work; raise TraceError for what the user can fix."""
        raise CommandError("this command does nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        source = f"command {type(self).__module__.rpartition('.')[2]}"
        try:
            with acting(None, source):
                result, sentence = self.run(entered_all(options))
        except TraceError as error:
            raise CommandError(str(error)) from error
        except IntegrityError as error:
            if (frozen := frozen_error(error)) is None:
                raise
            raise CommandError(str(frozen)) from error
        if sentence:
            self.stdout.write(sentence)
        if options["json"]:
            self.stdout.write(json.dumps(result, ensure_ascii=False, default=str))

    def echo(self, line: str) -> None:
        """Progress for people; with or without --json it goes to stdout before the last line."""
        self.stdout.write(line)
        self.stdout.flush()


def add_budget(parser: CommandParser) -> None:
    """Limits of what asks a language model, as the options `calls`, `tokens` and `money`."""
    calls = "stop cleanly before more calls than this"
    parser.add_argument("--max-calls", dest="calls", type=int, help=calls)
    tokens = "... before more tokens, prompt and answer together"
    parser.add_argument("--max-tokens", dest="tokens", type=int, help=tokens)
    money = "... before it costs more, by the prices set"
    parser.add_argument("--max-cost", dest="money", type=float, help=money)


def run_inline(job: Job, echo: Callable[[str], None] = print) -> dict[str, Any]:
    """Run a job from a command line, or follow the worker that has it; returns its result.

    Prints a progress line every PRINT_SECONDS. Raises TraceError when the job does not end well.
    """
    ended = threading.Event()

    def print_progress() -> None:
        try:
            while not ended.wait(PRINT_SECONDS):
                echo(Job.objects.get(pk=job.pk).progress_line())
        finally:
            connection.close()

    printer = threading.Thread(target=print_progress, daemon=True)
    printer.start()
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
        stopped, hint = "stopped; what was finished is kept.", "Run the command again to go on."
        raise TraceError(stopped, code="interrupted", hint=hint) from error
    finally:
        ended.set()
        printer.join(timeout=5)
    echo(job.progress_line())
    if job.state != Job.State.DONE:
        code = declared(job.error_code, "job_failed")
        raise TraceError(job.error or f"{job.title} was {job.state}.", code=code)
    return job.result or {}
