"""Many texts scrubbed in a process of its own, with a limit on its processor time: meanwhile this one answers others.

In: (text, kinds to spare) of each. Out: what `scrub` says of it.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from itertools import islice

from catalog.core.importers.read import limit_self, run_limited
from catalog.core.scrubbing.identities import PersonalSpan
from catalog.core.scrubbing.scrub import Scrubbed, scrub
from trace_site.lib.errors import TraceError

AT_ONCE = 2000
HERE = 5000  # characters that are scrubbed sooner than a process starts
SECONDS, MEMORY = 20, 500_000_000  # of processor time, and bytes


def scrub_many(texts: Iterable[str]) -> Iterator[Scrubbed]:
    """Any number of texts, some at a time; one in which nothing personal is found stays as it was typed."""
    waiting = iter(texts)
    while some := list(islice(waiting, AT_ONCE)):
        for text, done in zip(some, scrub_all([(text, ()) for text in some]), strict=True):
            yield done if done.found else Scrubbed(text, text, ())


def scrub_all(rows: Sequence[tuple[str, Sequence[str]]]) -> list[Scrubbed]:
    """Raises TraceError `too_large`, `reader_failed`."""
    if sum(len(text) for text, _ in rows) <= HERE:
        return [scrub(text, spare) for text, spare in rows]
    what = "these queries take too long to search for personal data."
    slow = TraceError(what, code="too_large", hint="Split them.")
    broken = TraceError("the search for personal data broke off", code="reader_failed")
    written = run_limited(__name__, rows, SECONDS, slow, broken)
    return [
        Scrubbed(plain, text, tuple(PersonalSpan(*one) for one in found))
        for plain, text, found in json.loads(written)
    ]


if __name__ == "__main__":
    os.nice(10)
    limit_self(MEMORY, SECONDS)
    json.dump([astuple(scrub(text, spare)) for text, spare in json.load(sys.stdin)], sys.stdout)
