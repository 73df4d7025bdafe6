"""The identity and the integrity of an export folder; nothing of torch is needed to know them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, sha256_file
from trace_site.lib.store import INDEX
from training.core.delivery import KINDS, RUNS_CODE

NEEDED = ("config.json", "trace.json", "tokenizer.json")
UNLISTED = {"manifest.json", INDEX}
CONFIGS = (
    "config.json",
    "tokenizer_config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
)


def digest(folder: Path) -> str:
    """sha256 of manifest.json, which holds the sha256 of every file: the identity, without reading weights."""
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        raise TraceError(
            "there is no manifest.json, so the export is unfinished or this is not one.",
            code="no_export",
            where=str(folder),
            hint="Give the export folder of a finished run.",
            permanent=True,
        )
    return hashlib.sha256(manifest.read_bytes()).hexdigest()


def verify(folder: Path) -> str:
    """Every file against the manifest, and none that loading could run; returns the digest.

    Raises TraceError `no_export`, `bad_digest` or `bad_export`.
    """
    identity = digest(folder)
    files = _listed(folder)
    missing = [name for name in NEEDED if name not in files]
    if missing:
        raise TraceError(
            f"the manifest does not list {missing[0]}.", code="no_export", where=str(folder), permanent=True
        )
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink() or (path.is_file() and name not in {*files, *UNLISTED}):
            raise _unsafe("is not listed in the manifest.", path)
    for name, entry in files.items():
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or inside.suffix not in KINDS:
            raise _unsafe(f"'{name}' is no file that an export holds.", folder)
        if not (folder / name).is_file() or sha256_file(folder / name) != entry.get("sha256"):
            raise TraceError(
                "the file is not the one the manifest describes.",
                code="bad_digest",
                where=str(folder / name),
                hint="Fetch the model again from the store.",
                permanent=True,
            )
    for name in sorted(files):
        if PurePosixPath(name).name in CONFIGS and (
            found := RUNS_CODE & set(_keys(read_json(folder / name)))
        ):
            raise _unsafe(f"'{min(found)}' would run code that the model brings.", folder / name)
    return identity


def _listed(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / "manifest.json")
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict) or not all(isinstance(entry, dict) for entry in files.values()):
        raise TraceError("the manifest lists no files.", code="no_export", where=str(folder), permanent=True)
    return files


def _keys(value: Any) -> Iterator[str]:
    """The names of every field that says something, however deep."""
    if isinstance(value, dict):
        for key, part in value.items():
            if part is not None:
                yield key
            yield from _keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from _keys(part)


def _unsafe(problem: str, where: Path) -> TraceError:
    return TraceError(
        problem,
        code="bad_export",
        where=str(where),
        hint="Only what training exported is loaded: train or import the model again.",
        permanent=True,
    )
