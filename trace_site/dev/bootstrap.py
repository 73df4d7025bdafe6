"""Makes `.venv` and installs the pinned packages: `python3 trace_site/dev/bootstrap.py [extras]`.

Runs before anything is installed, so it uses the standard library only. Each step has a name; a failure says which
step, what the tool said last, and what to do. A stamp file makes a second run take milliseconds.
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


def main(extras: list[str]) -> None:
    if sys.version_info < (3, 11):
        stop(
            "check Python",
            f"this is Python {sys.version.split()[0]}",
            "Use Python 3.11 or newer: make PYTHON=python3.12",
        )
    stamp = VENV / "trace-bootstrap.txt"
    wanted = fingerprint(extras)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        step(
            "create .venv",
            [sys.executable, "-m", "venv", str(VENV)],
            "On Debian and Ubuntu: apt install python3-venv",
        )
    if "ml" in extras:
        install_torch()
    step(
        f"install packages ({', '.join(['base', *extras])})",
        [*pip(), "-c", str(CONSTRAINTS), "-e", f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)],
        "Check the network and the free disk space (2 GB), then run it again.",
    )
    stamp.write_text(wanted)


def install_torch() -> None:
    """The CPU build where there is no NVIDIA GPU: the default Linux build brings gigabytes of CUDA packages."""
    remedy = "Check the network and the free disk space (2 GB), then run it again."
    if sys.platform != "linux" or shutil.which("nvidia-smi"):
        step("install torch", [*pip(), TORCH], remedy)
        return
    # a mirror or a local folder may have it
    if run([*pip(), f"{TORCH}+cpu"], "install torch (CPU build)").returncode == 0:
        return
    step("install torch (CPU build)", [*pip(), f"{TORCH}+cpu", "--extra-index-url", CPU_INDEX], remedy)


def pip() -> list[str]:
    return [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def step(name: str, command: list[str], remedy: str) -> None:
    result = run(command, name)
    if result.returncode != 0:
        lines = [line for line in result.stdout.splitlines() if line.strip()]
        stop(
            name,
            next((line for line in lines if "ERROR" in line), lines[-1] if lines else "no output"),
            remedy,
        )


def run(command: list[str], name: str) -> subprocess.CompletedProcess[str]:
    """Run a command, printing a line every 5 seconds so that nobody wonders whether it hangs."""
    started = time.monotonic()
    print(f"set-up: {name} ...", flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        output = ""
        while True:
            try:
                output, _ = child.communicate(timeout=5)
                break
            except subprocess.TimeoutExpired:
                print(f"set-up: {name}, {time.monotonic() - started:.0f} s so far", flush=True)
    return subprocess.CompletedProcess(command, child.returncode, output, "")


def fingerprint(extras: list[str]) -> str:
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + CONSTRAINTS.read_bytes())
    return f"{','.join(extras)} {digest.hexdigest()} {os.path.realpath(VENV)}"


def stop(name: str, reason: str, remedy: str) -> None:
    sys.exit(f"error: set-up step '{name}' failed: {reason}\n  {remedy}")


if __name__ == "__main__":
    main(sys.argv[1:])
