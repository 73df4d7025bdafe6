"""`python -m catalog.core.importers ORDER`: reads one document within the limits of the order (a JSON text).

Out: JSON lines, first {"format"} or {"error"}, then one line for each tool, error and note. Knows no Django.
"""

import json
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from catalog.core.importers.read import read_whole
from trace_site.lib.errors import TraceError

ROOM = 16_000_000  # bytes, to report in when the memory is used up


def main(order: dict[str, Any]) -> None:
    """Set the limits, read, print."""
    limit(order["memory"], order["seconds"])
    shown = order["shown"]
    try:
        file = read_whole(Path(order["path"]), shown, order["fmt"], order["max_errors"], order["max_text"])
    except TraceError as error:
        say({"error": {key: getattr(error, key) for key in ("message", "code", "hint", "where")}})
        return
    except MemoryError:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # room to say so
        message = f"reading it needs more than {order['memory'] / 1e6:,.0f} MB of memory."
        hint = "Split the file by API."
        say({"error": {"message": message, "code": "too_large", "hint": hint, "where": shown}})
        return
    say({"format": file.format})
    for kind, rows in (("tool", file.records), ("error", file.errors), ("note", file.notes)):
        for row in rows:
            say([kind, asdict(row)])


def limit(memory: int, seconds: int) -> None:
    """At most so many bytes beyond what is in use now, so much processor time, and no file may be written."""
    if (used := Path("/proc/self/statm")).exists():  # elsewhere than on Linux the system ignores this limit
        taken = int(used.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + memory, taken + memory + ROOM))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def say(value: Any) -> None:
    line = json.dumps(value, ensure_ascii=False) + "\n"
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
