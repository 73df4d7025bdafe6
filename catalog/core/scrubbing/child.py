"""Many texts scrubbed in a process of its own, with a limit on its processor time: meanwhile this one answers others.

In: (text, kinds to spare) of each. Out: what `scrub` says of it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import astuple

from catalog.core.importers.read import PASSED, ROOT, WAIT, limit_self
from catalog.core.scrubbing.identities import PersonalSpan
from catalog.core.scrubbing.scrub import Scrubbed, scrub
from trace_site.lib.errors import TraceError

HERE = 5000  # characters that are scrubbed sooner than a process starts
SECONDS, MEMORY = 20, 500_000_000  # of processor time, and bytes


def scrub_all(rows: Sequence[tuple[str, Sequence[str]]]) -> list[Scrubbed]:
    """Raises TraceError `too_large`."""
    if sum(len(text) for text, _ in rows) <= HERE:
        return [scrub(text, spare) for text, spare in rows]
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={key: os.environ[key] for key in PASSED if key in os.environ},
            input=json.dumps(rows).encode(),
            capture_output=True,
            timeout=WAIT * SECONDS,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        what = "these queries take too long to search for personal data."
        raise TraceError(what, code="too_large", hint="Split them.") from error
    return [
        Scrubbed(plain, text, tuple(PersonalSpan(*one) for one in found))
        for plain, text, found in json.loads(done.stdout)
    ]


if __name__ == "__main__":
    os.nice(10)
    limit_self(MEMORY, SECONDS)
    json.dump([astuple(scrub(text, spare)) for text, spare in json.load(sys.stdin)], sys.stdout)
