"""The identity and the integrity of an export folder; nothing of torch is needed to know them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json
from trace_site.lib.store import INDEX
from training.core.delivery import RUNS_CODE, check_files

NEEDED = ("config.json", "trace.json", "tokenizer.json")
CONFIGS = {f"{part}config.json" for part in ("", "tokenizer_", "generation_", "preprocessor_", "processor_")}


def digest(folder: Path) -> str:
    """sha256 of manifest.json, which holds the sha256 of every file: the identity, without reading weights."""
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        problem = "there is no manifest.json, so the export is unfinished or this is not one."
        raise refused(problem, folder, "no_export", "Give the export folder of a finished run.")
    return hashlib.sha256(manifest.read_bytes()).hexdigest()


def verify(folder: Path) -> str:
    """Every file against the manifest, and none that loading could run; returns the digest.

    Raises TraceError `no_export` or `bad_export`.
    """
    identity = digest(folder)
    try:
        files = check_files(folder, {INDEX})
    except TraceError as error:
        raise refused(error.message, Path(error.where)) from error
    for name in NEEDED:
        if name not in files:
            raise refused(f"the manifest does not list {name}.", folder, "no_export", "")
    for name in sorted(files):
        keys = set(_keys(read_json(folder / name))) if PurePosixPath(name).name in CONFIGS else set()
        if found := RUNS_CODE & keys:
            raise refused(f"'{min(found)}' would run code that the model brings.", folder / name)
    return identity


def refused(
    problem: str,
    where: Path,
    code: str = "bad_export",
    hint: str = "Only what training exported is loaded: train or import the model again.",
) -> TraceError:
    return TraceError(problem, code=code, where=str(where), hint=hint, permanent=True)


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
