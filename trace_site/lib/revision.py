"""Which code made something: the commit of the checkout, read from git's own files, or the installed version."""

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
        return loose[0].read_text().strip() if loose else _packed(common / "packed-refs", name)
    except OSError:
        return ""


def _packed(path: Path, name: str) -> str:
    rows = (line.split() for line in path.read_text().splitlines() if not line.startswith(("#", "^")))
    return next((row[0] for row in rows if row[1:] == [name]), "")
