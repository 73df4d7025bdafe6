"""A child process with a will of its own, for the supervisor's tests."""

import json
import os
import sys
import threading
import time
from pathlib import Path


def main() -> int:
    what = next(word for word in sys.argv[1:] if not word.startswith("--"))
    if what == "speak":
        print("not json")
        print(json.dumps({"event": "progress", "done": 1, "total": 2}), flush=True)
        print(json.dumps({"event": "done"}), flush=True)
    elif what == "fail":
        print("first a warning", file=sys.stderr)
        print("the file is gone.", file=sys.stderr)
        return 2
    elif what == "hang":
        print(json.dumps({"event": "started"}), flush=True)
        time.sleep(60)
    elif what == "until-stop":
        stop = Path(sys.argv[-1])
        print(json.dumps({"event": "started", "pid": os.getpid()}), flush=True)
        while not stop.exists():
            time.sleep(0.01)
        stop.with_name("stopped").touch()
    elif what == "orphan":
        Path(sys.argv[-1]).write_text("alive")
        leave = threading.Thread(target=sys.stdin.buffer.read)
        leave.start()
        leave.join()
        Path(sys.argv[-1]).write_text("left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
