"""Makes `.venv` and installs the pinned packages, each only with a hash that its pin names: `make env`.

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
PINS = ROOT / "constraints"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NO_NETWORK = "Check the network and the free disk space (2 GB), then run it again."


def main() -> None:
    if not (3, 11) <= sys.version_info[:2] <= (3, 14):
        stop("check Python", "Use Python 3.11 to 3.14: make PYTHON=python3.12")
    # without an NVIDIA GPU the CPU build: the default Linux build brings gigabytes of CUDA packages
    cpu = not shutil.which("nvidia-smi")
    torch, packages = PINS / f"torch-{'cpu' if cpu else 'cuda'}.txt", PINS / "dev.txt"
    stamp = VENV / "trace-bootstrap.txt"
    read = b"".join(path.read_bytes() for path in (ROOT / "pyproject.toml", torch, packages))
    wanted = f"{hashlib.sha256(read).hexdigest()} {os.path.realpath(VENV)}"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        make = [sys.executable, "-m", "venv", str(VENV)]
        step("create .venv", "On Debian and Ubuntu: apt install python3-venv", make)
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    pinned = [*pip, "--require-hashes", "-r"]
    # a mirror or a local folder may have the CPU build; only where none does its own index is asked too
    builds = [[], ["--extra-index-url", CPU_INDEX]] if cpu else [[]]
    step("install torch", NO_NETWORK, *([*pinned, str(torch), *index] for index in builds))
    # what is built from source is built by the setuptools that came with torch: pip would fetch one without a hash
    step("install packages", NO_NETWORK, [*pinned, str(packages), "--no-build-isolation"])
    step("install the project", NO_NETWORK, [*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])
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
    main()
