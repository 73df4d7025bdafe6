"""The run directory: the one contract between a trainer and whoever watches it.

Layout: recipe.yaml, metrics.jsonl, log.txt, checkpoints/step-000123/{..., manifest.json last}, checkpoints/latest,
STOP, export/, done.json last. One trainer at a time (flock); everything appears whole or not at all.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, sha256_file, write_atomic

KEEP_CHECKPOINTS = 2


class RunDir:
    """Paths and atomic writes of one run; knows nothing of torch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.export = root / "export"
        self.checkpoints = root / "checkpoints"
        self.done = root / "done.json"
        self._metrics: IO[str] | None = None

    @contextmanager
    def locked(self) -> Iterator["RunDir"]:
        """Hold the directory; the lock ends with the process, however it ends."""
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
            for leftover in (*self.checkpoints.glob(".step-*"), *self.root.glob(".export-*")):
                shutil.rmtree(leftover, ignore_errors=True)
            try:
                yield self
            finally:
                if self._metrics:
                    self._metrics.close()
                    self._metrics = None

    def stop_requested(self) -> bool:
        return (self.root / "STOP").exists()

    def log(self, line: str) -> None:
        with (self.root / "log.txt").open("a", encoding="utf-8") as handle:
            handle.write(line.rstrip("\n") + "\n")

    def add_metrics(self, row: dict[str, Any]) -> None:
        """Append one line; a reader may meet a half-written last line and must skip it."""
        if self._metrics is None:
            self._cut_half_line()
            self._metrics = (self.root / "metrics.jsonl").open("a", encoding="utf-8")
        self._metrics.write(json.dumps(row) + "\n")
        self._metrics.flush()

    def _cut_half_line(self) -> None:
        """A kill may have left the last line unfinished: drop it before appending."""
        path = self.root / "metrics.jsonl"
        if path.exists() and (data := path.read_bytes()) and not data.endswith(b"\n"):
            write_atomic(path, data[: data.rfind(b"\n") + 1])

    def save_checkpoint(self, step: int, write: Callable[[Path], None]) -> Path:
        """Publish a checkpoint: files, manifest with digests, rename, then the `latest` pointer."""
        final = self.checkpoints / f"step-{step:06d}"
        temporary = self.checkpoints / f".step-{step:06d}.{os.getpid()}"
        publish_dir(temporary, final, write, {"step": step})
        write_atomic(self.checkpoints / "latest", final.name)
        for old in sorted(self.checkpoints.glob("step-*"))[:-KEEP_CHECKPOINTS]:
            shutil.rmtree(old, ignore_errors=True)
        return final

    def latest_checkpoint(self) -> Path | None:
        """The newest checkpoint whose files match their digests; a damaged one is passed over."""
        pointer = self.checkpoints / "latest"
        names = [pointer.read_text().strip()] if pointer.exists() else []
        names += sorted((p.name for p in self.checkpoints.glob("step-*")), reverse=True)
        for name in names:
            if is_intact(self.checkpoints / name):
                return self.checkpoints / name
        return None

    def finish(self, facts: dict[str, Any]) -> None:
        """Write done.json: from here on the run is complete."""
        write_atomic(self.done, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


def publish_dir(temporary: Path, final: Path, write: Callable[[Path], None], facts: dict[str, Any]) -> None:
    """Let `write` fill a temporary folder, add manifest.json with every file's digest, rename it into place."""
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    write(temporary)
    files = sorted(path for path in temporary.rglob("*") if path.is_file())
    for path in files:
        _fsync(path)
    manifest = {
        **facts,
        "files": {
            str(path.relative_to(temporary)): {"sha256": sha256_file(path), "bytes": path.stat().st_size}
            for path in files
        },
    }
    write_atomic(temporary / "manifest.json", json.dumps(manifest, indent=2) + "\n")
    _fsync(temporary)
    if final.exists():
        shutil.rmtree(final)
    temporary.rename(final)
    _fsync(final.parent)


def is_intact(directory: Path) -> bool:
    """Does the folder hold exactly what its manifest says?"""
    if not (directory / "manifest.json").is_file():
        return False
    try:
        files = read_json(directory / "manifest.json")["files"]
    except (TraceError, KeyError, TypeError):
        return False
    return all(
        (directory / name).is_file() and sha256_file(directory / name) == facts["sha256"]
        for name, facts in files.items()
    )


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
