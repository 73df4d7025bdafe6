"""Which code made something: the commit of the checkout, read from git's own files, or the installed version."""

import json
import os
import platform
import shutil
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trace_site.lib.errors import TraceError

PACKAGE = "trace-rule-studio"


@cache
def code_revision(root: Path) -> dict[str, str]:
    """{"version", "commit"} of the project at `root`; a part that cannot be told is empty.

    TRACE_REVISION names the commit where there is no checkout, as in an image. Nothing is run: git need not be there.
    """
    try:
        release = version(PACKAGE)
    except PackageNotFoundError:
        release = ""
    return {"version": release, "commit": os.environ.get("TRACE_REVISION", "") or commit(root / ".git")}


def commit(git: Path) -> str:
    """The commit that is checked out; empty when this is no checkout or it has none yet."""
    try:
        if git.is_file():  # a worktree: the file names its folder
            git = git.parent / git.read_text().partition("gitdir:")[2].strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        name = head.partition(":")[2].strip()
        shared = git / "commondir"
        common = git / shared.read_text().strip() if shared.is_file() else git
        loose = [folder / name for folder in (git, common) if (folder / name).is_file()]
        if loose:
            return loose[0].read_text().strip()
        packed = [line.split() for line in (common / "packed-refs").read_text().splitlines()]
        return next((row[0] for row in packed if row[1:] == [name]), "")
    except OSError:
        return ""


# What a measurement was made on: processor, threads, memory, accelerator.


@cache
def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


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


def hardware_facts(threads: int) -> dict[str, str | int]:
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


# The licence of data as people state it: an SPDX identifier, or a few words of their own.

LONGEST = 100
# how dataset cards name what SPDX names otherwise only by its capitals
CARD_NAMES = frozenset(
    {"apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "mpl-2.0", "gpl-3.0", "agpl-3.0", "cc0-1.0", "odbl"}
    | {"cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nd-4.0", "cc-by-nc-sa-4.0", "cc-by-nc-nd-4.0"}
)


def licence_of(text: str, where: str = "licence") -> str:
    """The text on one line; empty: not recorded. Raises TraceError "bad_licence"."""
    said = " ".join(text.split())
    if len(said) > LONGEST or not said.isprintable():
        raise TraceError(
            f"a licence has at most {LONGEST} plain characters.",
            code="bad_licence",
            where=where,
            hint="Write its SPDX identifier, such as CC-BY-4.0, or a few words.",
        )
    return said


def card_lines(licence: str) -> list[str]:
    """The licence in the YAML of a dataset card: a name its readers know, else `other` with the words."""
    if not licence:
        return ["license: unknown"]
    if licence.lower() in CARD_NAMES:
        return [f"license: {licence.lower()}"]
    return ["license: other", f"license_name: {json.dumps(licence)}"]
