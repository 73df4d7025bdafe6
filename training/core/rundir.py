"""The run directory: the one contract between a trainer and whoever watches it.

Layout: recipe.yaml, metrics.jsonl, log.txt, checkpoints/step-000123/{..., manifest.json last}, STOP, export/,
done.json last. One trainer at a time (flock); everything appears whole or not at all. Metrics and log
are best effort: a full disk loses lines, never a run. After a kill steps repeat in metrics.jsonl; the last line of a
step counts.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_json, sha256_file, write_atomic
from trace_site.lib.provenance import code_revision, hardware_facts

ROOT = Path(__file__).resolve().parents[2]
KEEP_CHECKPOINTS = 2
KEPT_FREE = 2**20  # bytes a checkpoint leaves to the log and to others


class RunDir:
    """Paths and atomic writes of one run; knows nothing of torch. Only a `writer` writes: of several processes one."""

    def __init__(self, root: Path, writer: bool | None = None) -> None:
        self.root = root
        self.export = root / "export"
        self.checkpoints = root / "checkpoints"
        self.done = root / "done.json"
        # as torch.distributed's launchers number the processes of a team
        self.writer = os.environ.get("RANK", "0") == "0" if writer is None else writer

    @contextmanager
    def locked(self) -> Iterator["RunDir"]:
        """Hold the directory; the lock ends with the process, however it ends."""
        if not self.writer:
            yield self
            return
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise TraceError(
                    "another trainer is writing this run directory.",
                    code="run_locked",
                    where=str(self.root),
                    hint="Wait for it, or stop it first.",
                ) from error
            for leftover in (*self.checkpoints.glob(".step-*"), *self.root.glob(".export*")):
                shutil.rmtree(leftover, ignore_errors=True)
            for leftover in self.root.glob(".*.tmp"):
                leftover.unlink(missing_ok=True)
            yield self

    def stop_requested(self) -> bool:
        return (self.root / "STOP").exists()

    def keep(self, name: str, text: str) -> None:
        """Write a file of the run whole or not at all."""
        if self.writer:
            write_atomic(self.root / name, text)

    def log(self, line: str) -> None:
        self._append("log.txt", line.rstrip("\n") + "\n")

    def add_metrics(self, row: dict[str, Any]) -> None:
        """Append one line; a reader may meet a half-written last line and must skip it."""
        self._append("metrics.jsonl", json.dumps(row) + "\n")

    def _append(self, name: str, line: str) -> None:
        """One whole line or nothing: what a kill or a full disk left of an earlier line is cut off first."""
        if not self.writer:
            return
        with (self.root / name).open("a+b", buffering=0) as handle:
            end = whole_lines(handle.fileno())
            try:
                if handle.write(line.encode()) != len(line.encode()):
                    handle.truncate(end)
            except OSError as error:
                handle.truncate(end)
                if not was_full(error):
                    raise

    def save_checkpoint(self, step: int, write: Callable[[Path], None], needed: int = 0) -> Path:
        """Publish a checkpoint of about `needed` bytes: files, manifest with digests, rename, pruning.

        Raises TraceError with code disk_full before it writes when there is no room, and leaves nothing behind.
        """
        final = self.checkpoints / f"step-{step:06d}"
        try:
            if needed and shutil.disk_usage(self.checkpoints).free < needed + KEPT_FREE:
                raise OSError(errno.ENOSPC, "no room")
            publish_dir(self.checkpoints / f".{final.name}.{os.getpid()}", final, write, {"step": step})
        except Exception as error:
            if not was_full(error):
                raise
            free = shutil.disk_usage(self.checkpoints).free
            raise TraceError(
                f"the disk is full: the checkpoint of step {step} needs {needed / 1e6:,.1f} MB, {free / 1e6:,.1f} MB "
                "are free.",
                code="disk_full",
                where=str(self.checkpoints),
                hint="Free some space and start the run again: it goes on from its newest checkpoint.",
                extra={"needed_bytes": needed, "free_bytes": free},
            ) from error
        self._prune(final)
        return final

    def by_age(self) -> list[Path]:
        """Every checkpoint folder, intact or not, newest first."""
        numbered = [(int(p.name[5:]), p) for p in self.checkpoints.glob("step-*") if p.name[5:].isdecimal()]
        return [path for _, path in sorted(numbered, reverse=True)]

    def _prune(self, written: Path) -> None:
        """Keep the newest intact ones. A damaged one does not count, so it never pushes out the last good one."""
        kept = 0
        for path in self.by_age():
            if kept < KEEP_CHECKPOINTS and (path == written or is_intact(path)):
                kept += 1
            else:
                discard(path)

    def latest_checkpoint(self) -> Path | None:
        """The newest checkpoint whose files match their digests; a damaged one is passed over, and the log says so."""
        for path in self.by_age():
            if is_intact(path):
                return path
            self.log(f"passed over {path.name}: its files do not match its manifest")
        return None

    def finish(self, facts: dict[str, Any]) -> None:
        """Write done.json, with the code and the machine that made it: from here on the run is complete."""
        made = {"code": code_revision(ROOT), "hardware": hardware_facts(os.cpu_count() or 1)}
        facts = {**facts, **made}
        self.keep(self.done.name, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def whole_lines(descriptor: int) -> int:
    """Cut an unfinished last line off an open text file; returns the bytes that stay."""
    size = end = os.fstat(descriptor).st_size
    while end and os.pread(descriptor, 1, end - 1) != b"\n":
        end = max(0, end - 4096)
        end += os.pread(descriptor, 4096, end).rfind(b"\n") + 1
    if end < size:
        os.ftruncate(descriptor, end)
    return end


# Folders that appear whole or not at all, and prove later that they are what was written: manifest.json holds size and
# sha256 of every file, and a digest of the manifest itself.

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def publish_dir(temporary: Path, final: Path, write: Callable[[Path], None], facts: dict[str, Any]) -> None:
    """Let `write` fill a temporary folder, add manifest.json with every file's digest, rename it into place. When it
    raises, nothing is left under either name."""
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        for path in files:
            fsync(path)
        listed = {
            str(path.relative_to(temporary)): {"sha256": sha256_file(path), "bytes": path.stat().st_size}
            for path in files
        }
        manifest = {**facts, "files": listed}
        manifest["digest"] = content_hash(manifest)
        write_atomic(temporary / "manifest.json", json.dumps(manifest, indent=2) + "\n")
        for path in (*(p for p in temporary.rglob("*") if p.is_dir()), temporary):
            fsync(path)
        if final.exists():
            discard(final)
        temporary.rename(final)
        fsync(final.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def is_intact(directory: Path) -> bool:
    """Does the folder hold what its manifest says, and is the manifest as it was written?"""
    return not damaged(directory)


def damaged(directory: Path) -> str:
    """The first file that is not as the manifest says, or the manifest; empty when the folder is intact."""
    at = "manifest.json"
    try:
        manifest = read_json(directory / at)
        digest = manifest.pop("digest", None)  # folders of earlier versions have none
        if digest is not None and digest != content_hash(manifest):
            return at
        for at, facts in manifest["files"].items():
            if sha256_file(directory / at) != facts["sha256"]:
                return str(at)
    except (TraceError, OSError, ValueError, LookupError, TypeError, AttributeError):
        return at
    return ""


def discard(directory: Path) -> None:
    """Remove a folder so that no half of it ever stands under its name; a dead process's rest goes with the lock."""
    aside = directory.with_name(f".{directory.name}.{os.getpid()}.old")
    shutil.rmtree(aside, ignore_errors=True)
    directory.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def was_full(error: BaseException | None) -> bool:
    """Whether a full disk, quota or size limit is behind an error; safetensors tells it in words only."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        if type(error).__name__ == "SafetensorError" and any(
            f"os error {code})" in str(error) for code in FULL
        ):
            return True
        error = error.__cause__
    return False


def fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
