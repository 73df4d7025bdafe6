"""Makes `.venv` and installs the pinned packages: `python3 trace_site/dev/bootstrap.py [extras]`.

Runs before anything is installed, so it uses the standard library only. Each step is one line with how long it took; a
failure says which step and what to do, below what the tool itself said. A stamp file makes a second run take
milliseconds.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
CONSTRAINTS = ROOT / "constraints" / "constraints.txt"
TORCH = next(line.strip() for line in CONSTRAINTS.read_text().splitlines() if line.startswith("torch=="))
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NO_NETWORK = "Check the network and the free disk space (2 GB), then run it again."


def main(extras: list[str]) -> None:
    if sys.version_info < (3, 11):
        stop("check Python", "Use Python 3.11 or newer: make PYTHON=python3.12")
    stamp = VENV / "trace-bootstrap.txt"
    pinned = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + CONSTRAINTS.read_bytes()).hexdigest()
    wanted = f"{','.join(extras)} {pinned} {os.path.realpath(VENV)}"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        make = [sys.executable, "-m", "venv", str(VENV)]
        step("create .venv", "On Debian and Ubuntu: apt install python3-venv", make)
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    if "ml" in extras:
        # without an NVIDIA GPU the CPU build: the default Linux build brings gigabytes of CUDA packages
        cpu = sys.platform == "linux" and not shutil.which("nvidia-smi")
        # a mirror or a local folder may have it; only where none does its own index is asked too
        builds = [[f"{TORCH}+cpu"], [f"{TORCH}+cpu", "--extra-index-url", CPU_INDEX]] if cpu else [[TORCH]]
        step("install torch", NO_NETWORK, *([*pip, *build] for build in builds))
    project = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    step("install packages", NO_NETWORK, [*pip, "-c", str(CONSTRAINTS), "-e", project])
    stamp.write_text(wanted)


def step(name: str, remedy: str, *commands: list[str]) -> None:
    """The first of the commands that succeeds is enough; where none does, all they said is shown."""
    print(f"set-up: {name} ...", end=" ", flush=True)
    started, told = time.monotonic(), ""
    for command in commands:
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if ended.returncode == 0:
            print(f"{time.monotonic() - started:.0f} s", flush=True)
            return
        told += ended.stdout
    print(f"\n{told}", flush=True)
    stop(name, remedy)


def stop(name: str, remedy: str) -> None:
    sys.exit(f"error: set-up step '{name}' failed.\n  {remedy}")


if __name__ == "__main__":
    main(sys.argv[1:])
