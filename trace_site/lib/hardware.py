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
def _gpus() -> tuple[str, int, int]:
    """(name of the first accelerator, its memory in GB, how many there are); ("", 0, 0) without one."""
    asked = ["--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    if not (query := shutil.which("nvidia-smi")):
        return "", 0, 0
    try:
        answer = subprocess.run([query, *asked], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "", 0, 0
    lines = answer.stdout.strip().splitlines() if answer.returncode == 0 else []
    if not lines:
        return "", 0, 0
    name, _, memory = lines[0].rpartition(",")
    return name.strip(), round(float(memory) / 1024) if memory.strip().isdecimal() else 0, len(lines)


def facts(threads: int) -> dict[str, str | int]:
    """{"cpu", "cores", "threads", "memory_gb", "gpu", "gpu_memory_gb", "gpus"} of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    gpu, gpu_memory, gpus = _gpus()
    return {
        "cpu": _processor(),
        "cores": os.cpu_count() or 1,
        "threads": threads,
        "memory_gb": round(memory / 2**30),
        "gpu": gpu,
        "gpu_memory_gb": gpu_memory,
        "gpus": gpus,
    }
