"""Stands in for `training.ml` where the process boundary is under test: writes a run directory by the contract.

FAKE_TRAINER (JSON) says what to do: die, hang, take its time, keep a journal.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from training.core.rundir import RunDir, publish_dir


def exit_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(4)


def told(behaviour: dict, what: str, run: Path) -> None:
    """One line a trainer in the journal of all of them; a line is written whole."""
    if "journal" in behaviour:
        line = json.dumps({"what": what, "stage": run.name, "pid": os.getpid(), "at": time.time()})
        with open(behaviour["journal"], "ab", buffering=0) as handle:
            handle.write(line.encode() + b"\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("stage")
    for name in ("--snapshot", "--run", "--recipe", "--init"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--parent-pipe", action="store_true")
    args = parser.parse_args()
    behaviour = json.loads(os.environ.get("FAKE_TRAINER", "{}"))
    if args.parent_pipe:
        threading.Thread(target=exit_with_parent, daemon=True).start()
    told(behaviour, "began", args.run)
    with RunDir(args.run).locked() as run:
        start = int((run.root / "resume").read_text()) if (run.root / "resume").is_file() else 0
        run.log(f"{args.stage} from step {start}")
        for step in range(start + 1, 5):
            run.add_metrics(
                {"stage": args.stage, "step": step, "steps": 4, "loss": 4.0 - step, "tokens": step * 10}
            )
            print(json.dumps({"event": "progress", "done": step, "total": 4, "note": "loss"}), flush=True)
            (run.root / "resume").write_text(str(step))
            time.sleep(behaviour.get("step_seconds", 0))
            if behaviour.get("error_at") == step:
                print("the loss is nan at step 2.", file=sys.stderr)
                return 1
            if behaviour.get("killed_at") == step and start == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            while behaviour.get("hang"):
                if run.stop_requested():
                    run.log("stopped on request")
                    return 3
                time.sleep(0.02)

        def write(folder: Path) -> None:
            (folder / "trace.json").write_text(
                json.dumps({"stage": args.stage, "init": str(args.init or ""), "tools": []})
            )
            header = json.dumps({"w": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}}).encode()
            weights = len(header).to_bytes(8, "little") + header + bytes(48)
            (folder / "model.safetensors").write_bytes(weights)

        publish_dir(run.root / ".export-tmp", run.export, write, {})
        run.finish({"stage": args.stage, "training": {"Steps": 4}})
        told(behaviour, "finished", args.run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
