"""The identity and the integrity of an export folder; nothing of torch is needed to know them."""

import hashlib
from pathlib import Path
from typing import Any

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, sha256_file

NEEDED = ("config.json", "trace.json", "tokenizer.json")


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
    """Every file against the manifest; returns the digest."""
    identity = digest(folder)
    files: dict[str, Any] = read_json(folder / "manifest.json").get("files", {})
    missing = [name for name in NEEDED if name not in files]
    if missing:
        raise TraceError(
            f"the manifest does not list {missing[0]}.", code="no_export", where=str(folder), permanent=True
        )
    for name, entry in files.items():
        if not (folder / name).is_file() or sha256_file(folder / name) != entry["sha256"]:
            raise TraceError(
                "the file is not the one the manifest describes.",
                code="bad_digest",
                where=str(folder / name),
                hint="Fetch the model again from the store.",
                permanent=True,
            )
    return identity
