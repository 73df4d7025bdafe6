"""A snapshot's files for download: from the store, verified, streamed; the whole folder as one ZIP."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from synthesis.core.snapshot import DERIVED_FILES, FILES
from trace_site.lib.store import INDEX

CHUNK = 1 << 16
TYPES = {
    ".jsonl": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".md": "text/markdown; charset=utf-8",
    ".json": "application/json",
}
NAMES = (*FILES, *DERIVED_FILES, "manifest.json")
MADE = (1980, 1, 1, 0, 0, 0)  # the same bytes whenever it is made


class _Sink:
    """What ZipFile writes to; `take` empties it. It cannot seek, so sizes follow each file's data."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


def zipped(folder: Path, inside: str) -> Iterator[bytes]:
    """The folder as a ZIP under the folder name `inside`, block by block."""
    sink = _Sink()
    with zipfile.ZipFile(cast(IO[bytes], sink), "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.name == INDEX:
                continue
            about = zipfile.ZipInfo(f"{inside}/{path.name}", MADE)
            about.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(about, "w", force_zip64=True) as member:
                for block in blocks(path):
                    member.write(block)
                    yield sink.take()
    yield sink.take()


def blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        while block := handle.read(CHUNK):
            yield block


def card_of(folder: Path) -> str:
    """The dataset card; empty for a snapshot that was frozen before there were cards."""
    path = folder / "README.md"
    return path.read_text() if path.is_file() else ""


def card_parts(card: str) -> tuple[str, str]:
    """(the YAML that programs read, what people read)."""
    head, *parts = card.split("---\n", 2)
    return (parts[0].strip(), parts[1].strip()) if not head and len(parts) == 2 else ("", card.strip())
