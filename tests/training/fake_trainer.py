"""Stands in for `training.ml` where the process boundary is under test: writes a run directory by the contract.

`behaviour.json` beside the run directory's parent says what to do: die, hang, or be quick.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from training.core.publish import publish_dir
from training.core.rundir import RunDir


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("stage")
    for name in ("--snapshot", "--run", "--recipe", "--init"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--parent-pipe", action="store_true")
    args = parser.parse_args()
    behaviour = json.loads(os.environ.get("FAKE_TRAINER", "{}"))
    with RunDir(args.run).locked() as run:
        start = int((run.root / "resume").read_text()) if (run.root / "resume").is_file() else 0
        run.log(f"{args.stage} from step {start}")
        for step in range(start + 1, 5):
            run.add_metrics(
                {"stage": args.stage, "step": step, "steps": 4, "loss": 4.0 - step, "tokens": step * 10}
            )
            print(json.dumps({"event": "progress", "done": step, "total": 4, "note": "loss"}), flush=True)
            (run.root / "resume").write_text(str(step))
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
                json.dumps({"stage": args.stage, "init": str(args.init or "")})
            )
            header = json.dumps({"w": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}}).encode()
            weights = len(header).to_bytes(8, "little") + header + bytes(48)
            (folder / "model.safetensors").write_bytes(weights)

        publish_dir(run.root / ".export-tmp", run.export, write, {})
        run.finish({"stage": args.stage, "training": {"Steps": 4}})
    return 0


if __name__ == "__main__":
    sys.exit(main())
