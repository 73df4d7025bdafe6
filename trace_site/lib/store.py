"""The artefact store: folders of files under an fsspec URL, written once, verified on every read.

A folder goes in with its digests listed in `store.json`, written last, so its existence means the folder is
complete. `file://` (a local path) is the default; `s3://bucket/prefix` works the same through fsspec.
"""

import fcntl
import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash, sha256_file

INDEX = "store.json"
# what names a folder to another program: no part begins with a dot, so none leads out of the store
KEY = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)*")
DIGEST = re.compile("[0-9a-f]{64}")


class Store:
    """Folders addressed by key under one URL; `cache` holds local copies of remote folders."""

    def __init__(self, url: str, cache: Path, options: dict[str, Any] | None = None) -> None:
        self.filesystem, self.root = fsspec.core.url_to_fs(url, **(options or {}))
        self.cache = cache
        self.is_local = isinstance(self.filesystem, LocalFileSystem)

    def put_dir(self, local: Path, key: str) -> str:
        """Copy every file below `local` to `key`; returns the folder's digest (sha256 over names and contents).

        A key that holds the same content already is left alone, so that its readers are not disturbed; other content
        replaces it only after all files are written.
        """
        files = {
            str(path.relative_to(local)): {"sha256": sha256_file(path), "bytes": path.stat().st_size}
            for path in sorted(local.rglob("*"))
            if path.is_file() and path.name != INDEX
        }
        digest = content_hash(files)
        target = f"{self.root}/{key}"
        if not self.is_local:
            for name in files:
                self.filesystem.put_file(str(local / name), f"{target}/{name}")
            self.filesystem.pipe_file(f"{target}/{INDEX}", _index(files, digest))
        elif _differing(Path(target), digest):
            try:
                _replace(Path(target), files, digest, lambda name, path: shutil.copyfile(local / name, path))
            except OSError as error:
                raise TraceError(
                    f"could not store the folder ({error.strerror}).",
                    code="store_write_failed",
                    where=target,
                    hint="Free some disk space or check STORE_URL, then run it again.",
                ) from error
        return digest

    def get_dir(self, key: str, digest: str) -> Path:
        """A local path of the folder, every file verified against its digest; raises TraceError if it differs."""
        local = self.local_dir(key, digest)
        if not self.is_local and not (local / INDEX).exists():
            self._download(key, digest, local)
        if not (local / INDEX).is_file():
            raise _missing(key)
        try:
            verify(local, digest, key)
        except TraceError:
            if self.is_local:
                raise
            # a copy of ours that went bad; the store may still have the right one
            self._download(key, digest, local, again=True)
            verify(local, digest, key)
        return local

    def read(self, key: str, digest: str, name: str) -> bytes:
        """One file of the folder, verified; no other is fetched. Raises TraceError as `get_dir`."""
        entry, data = self._files(key, digest).get(name) or {}, b""
        with suppress(FileNotFoundError):
            data = self.filesystem.cat_file(f"{self.root}/{key}/{name}")
        if hashlib.sha256(data).hexdigest() != entry.get("sha256"):
            raise _corrupt(key, [name])
        return bytes(data)

    def _files(self, key: str, digest: str) -> dict[str, Any]:
        """What the folder's index lists, which must be the one that `digest` was computed from."""
        try:
            files = json.loads(self.filesystem.cat_file(f"{self.root}/{key}/{INDEX}"))["files"]
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(key) from None
        except (ValueError, KeyError, TypeError):
            files = None
        if content_hash(files) != digest:
            raise _corrupt(key, [INDEX])
        return dict(files)

    def local_dir(self, key: str, digest: str) -> Path:
        """Where `get_dir` puts the folder; it need not be there yet."""
        return Path(f"{self.root}/{key}") if self.is_local else self.cache / key.replace("/", "_") / digest

    def has(self, key: str) -> bool:
        """Whether anything lies under the key, whole or not."""
        return bool(self.filesystem.exists(f"{self.root}/{key}"))

    def remove(self, key: str) -> None:
        """Delete a folder and its local copies; the index goes first, so that a half-deleted folder is no folder.

        Removing what is not there does nothing: an interrupted removal is finished by repeating it.
        """
        target = f"{self.root}/{key}"
        try:
            if self.filesystem.exists(f"{target}/{INDEX}"):
                self.filesystem.rm_file(f"{target}/{INDEX}")
            if self.filesystem.exists(target):
                self.filesystem.rm(target, recursive=True)
        except OSError as error:
            raise TraceError(
                f"could not remove the folder ({error.strerror or error}).",
                code="store_write_failed",
                where=key,
                hint="Check the rights on STORE_URL, then run it again.",
            ) from error
        shutil.rmtree(self.cache / key.replace("/", "_"), ignore_errors=True)

    def _download(self, key: str, digest: str, local: Path, *, again: bool = False) -> None:
        files = self._files(key, digest)  # first: it says where on this machine files are written

        def fetch(name: str, path: Path) -> None:
            try:
                self.filesystem.get_file(f"{self.root}/{key}/{name}", str(path))
            except FileNotFoundError:
                raise _corrupt(key, [name]) from None

        with _alone(local):
            if again or not (local / INDEX).exists():
                _replace(local, files, digest, fetch)


def _replace(target: Path, files: dict[str, Any], digest: str, fetch: Callable[[str, Path], object]) -> None:
    """Put a folder with these files in the place of `target` once it is whole; `fetch` writes one of them."""
    staging = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        for name in files:
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            fetch(name, staging / name)
        staging.mkdir(parents=True, exist_ok=True)
        (staging / INDEX).write_bytes(_index(files, digest))
        shutil.rmtree(target, ignore_errors=True)
        staging.rename(target)
    finally:  # nothing stays of what a store that went away, or a full disk, cut short
        shutil.rmtree(staging, ignore_errors=True)


def _differing(folder: Path, digest: str) -> list[str]:
    """The names of files that are not as the index says; the index itself when it is not the one meant."""
    try:
        files = json.loads((folder / INDEX).read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return [INDEX]
    if content_hash(files) != digest:
        return [INDEX]
    return [
        name
        for name, entry in files.items()
        if not (folder / name).is_file() or sha256_file(folder / name) != entry["sha256"]
    ]


def verify(folder: Path, digest: str, key: str) -> None:
    """Raise TraceError unless the folder holds exactly what `digest` was computed from."""
    if bad := _differing(folder, digest):
        raise _corrupt(key, bad)


@contextmanager
def _alone(local: Path) -> Iterator[None]:
    """Who fetches a copy while another process does waits for it: no copy is taken away from its readers."""
    local.parent.mkdir(parents=True, exist_ok=True)
    with (local.parent / f".{local.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def reaching(key: str) -> Iterator[None]:
    """Whatever a store raises that does not answer becomes TraceError `unavailable`."""
    try:
        yield
    except TraceError:
        raise
    except Exception as error:  # noqa: BLE001 - each kind of store raises its own
        problem = f"the artefact store does not answer ({type(error).__name__})."  # its text may name hosts
        raise TraceError(problem, code="unavailable", where=key) from error


def _missing(key: str) -> TraceError:
    hint = "Check STORE_URL; the job that makes it can be run again."
    return TraceError("not in the artefact store.", code="store_missing", where=key, hint=hint)


def _corrupt(key: str, bad: list[str]) -> TraceError:
    return TraceError(
        f"the stored files differ from their digests ({', '.join(bad[:3])}).",
        code="store_corrupt",
        where=key,
        hint="Restore the folder from a backup or run the job that made it again.",
        permanent=True,
    )


def _index(files: dict[str, Any], digest: str) -> bytes:
    return json.dumps({"digest": digest, "files": files}, indent=1).encode()
