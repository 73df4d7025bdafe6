"""What a measurement was made on: processor, threads, memory, accelerator."""

import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path


@cache
def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache
def _gpu() -> str:
    """The name of the first accelerator; empty without one."""
    if not (query := shutil.which("nvidia-smi")):
        return ""
    try:
        answer = subprocess.run(
            [query, "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip().splitlines()[0] if answer.returncode == 0 and answer.stdout.strip() else ""


def facts(threads: int) -> dict[str, str | int]:
    """{"cpu", "cores", "threads", "memory_gb", "gpu"} of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _processor(),
        "cores": os.cpu_count() or 1,
        "threads": threads,
        "memory_gb": round(memory / 2**30),
        "gpu": _gpu(),
    }
