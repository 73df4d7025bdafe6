"""Folders that appear whole or not at all, and prove later that they are what was written.

In: a temporary name, a final name, a callable that fills a folder. Out: the folder under its final name with
manifest.json: size and sha256 of every file, and a digest of the manifest itself.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, read_json, sha256_file, write_atomic

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def publish_dir(temporary: Path, final: Path, write: Callable[[Path], None], facts: dict[str, Any]) -> None:
    """Let `write` fill a temporary folder, add manifest.json with every file's digest, rename it into place.

    Raises TraceError with code disk_full when there was no room; then nothing is left under either name.
    """
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        _seal(temporary, facts)
        if final.exists():
            discard(final)
        temporary.rename(final)
        fsync(final.parent)
    except Exception as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if was_full(error):
            raise TraceError(
                "the disk is full.",
                code="disk_full",
                where=str(final),
                hint="Free some space, then try again.",
            ) from error
        raise


def _seal(folder: Path, facts: dict[str, Any]) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        fsync(path)
    listed = {
        str(path.relative_to(folder)): {"sha256": sha256_file(path), "bytes": path.stat().st_size}
        for path in files
    }
    manifest = {**facts, "files": listed}
    manifest["digest"] = content_hash(manifest)
    write_atomic(folder / "manifest.json", json.dumps(manifest, indent=2) + "\n")
    for path in (*(p for p in folder.rglob("*") if p.is_dir()), folder):
        fsync(path)


def is_intact(directory: Path) -> bool:
    """Does the folder hold what its manifest says, and is the manifest as it was written?"""
    try:
        manifest = read_json(directory / "manifest.json")
        digest = manifest.pop("digest", None)  # folders of earlier versions have none
        if digest is not None and digest != content_hash(manifest):
            return False
        return all(
            (directory / name).stat().st_size == facts["bytes"]
            and sha256_file(directory / name) == facts["sha256"]
            for name, facts in manifest["files"].items()
        )
    except (TraceError, OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


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


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
