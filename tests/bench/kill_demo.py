"""The demo killed at random moments and started again: it goes on, and ends as one that nobody killed.

    python -m tests.bench.kill_demo FOLDER [--kills 10] [--seed 1] [--seconds 300]

FOLDER holds the two homes and their logs. Moments are drawn from the first `--seconds` of each start. Exit code 1 when
the two ends differ.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

END = """
import json
from django.db.models import Count
from catalog.models import Cluster, Tool
from evaluation.models import Benchmark, Evaluation, GateReport
from rules.models import ChangeRequest, RuleVersion
from synthesis.models import Guideline, Sample, Snapshot, SynthesisRun
from trace_site.jobs import Job
from training.models import AliasMove, Model, Run

def rows(of, *columns):
    return sorted(map(list, of.objects.order_by().values_list(*columns)), key=str)

print(json.dumps({
    "tools": rows(Tool, "name", "status", "embedding_key"),
    "rules": rows(RuleVersion, "rule__code", "number", "content_hash"),
    "clusters": Cluster.objects.count(),
    "benchmarks": rows(Benchmark, "name", "version", "hash"),
    "guidelines": Guideline.objects.count(),
    "requests": rows(ChangeRequest, "title", "state"),
    "synthesis": rows(SynthesisRun, "branch", "writer", "job__state"),
    "samples": rows(Sample, "query", "trace", "machine", "human"),
    "snapshots": rows(Snapshot, "hash"),
    "runs": rows(Run, "key", "job__state"),
    "models": rows(Model, "run__retrieval", "parameters"),
    "evaluations": rows(Evaluation, "model__run__retrieval", "benchmark__name", "decode"),
    "gates": rows(GateReport, "candidate__run__retrieval", "verdict"),
    "aliases": rows(AliasMove, "alias", "model__run__retrieval"),
    "unfinished": Job.objects.exclude(state="done").count(),
}))
"""


def start(home: Path) -> subprocess.Popen[bytes]:
    log = home.with_suffix(".log").open("ab")
    command = [sys.executable, "manage.py", "demo", "--no-serve"]
    return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "TRACE_HOME": str(home)})


def finish(home: Path) -> dict[str, object]:
    """Start it and let it end; what there is then."""
    if start(home).wait():
        sys.exit(f"the demo failed: see {home.with_suffix('.log')}")
    told = subprocess.run(
        [sys.executable, "manage.py", "shell", "-v", "0", "-c", END],
        env={**os.environ, "TRACE_HOME": str(home)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, object] = json.loads(told.stdout)
    return found


def kill_demo(home: Path, kills: int, draw: random.Random, seconds: float) -> None:
    for number in range(1, kills + 1):
        demo, at = start(home), draw.uniform(1, seconds)
        try:
            demo.wait(at)
            print(f"kill {number}: it had ended before {at:.0f} s")
        except subprocess.TimeoutExpired:
            demo.send_signal(signal.SIGKILL)
            demo.wait()
            print(f"kill {number}: after {at:.0f} s")
        time.sleep(draw.uniform(0, 3))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    whole, killed = given.folder.resolve() / "whole", given.folder.resolve() / "killed"
    expected = finish(whole)
    kill_demo(killed, given.kills, random.Random(given.seed), given.seconds)
    found = finish(killed)
    differ = [name for name, value in expected.items() if found[name] != value]
    print(f"{given.kills} kills; different at the end: {', '.join(differ) or 'nothing'}")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
