"""Makes `.venv` and installs the pinned packages: `python3 trace_site/dev/bootstrap.py [extras]`.

Runs before anything is installed, so it uses the standard library only. Each step has a name; a failure says which
step and what to do, below what the tool itself said. A stamp file makes a second run take milliseconds.
"""

import hashlib
import os
import shutil
import subprocess
import sys
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
        step("create .venv", make, "On Debian and Ubuntu: apt install python3-venv")
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    if "ml" in extras:
        # without an NVIDIA GPU the CPU build: the default Linux build brings gigabytes of CUDA packages
        cpu = sys.platform == "linux" and not shutil.which("nvidia-smi")
        install = [*pip, f"{TORCH}+cpu" if cpu else TORCH]
        # a mirror or a local folder may have it; only where none does its own index is asked too
        if not cpu or subprocess.run(install, stderr=subprocess.DEVNULL).returncode:
            step("install torch", [*install, *(["--extra-index-url", CPU_INDEX] if cpu else [])], NO_NETWORK)
    project = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    step("install packages", [*pip, "-c", str(CONSTRAINTS), "-e", project], NO_NETWORK)
    stamp.write_text(wanted)


def step(name: str, command: list[str], remedy: str) -> None:
    print(f"set-up: {name} ...", flush=True)
    if subprocess.run(command).returncode:
        stop(name, remedy)


def stop(name: str, remedy: str) -> None:
    sys.exit(f"error: set-up step '{name}' failed.\n  {remedy}")


if __name__ == "__main__":
    main(sys.argv[1:])
