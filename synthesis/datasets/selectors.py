"""Reads behind the snapshot pages."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from django.db.models import Count, Q, QuerySet

from synthesis.core.snapshot import DERIVED_FILES, FILES
from synthesis.models import Sample, Snapshot
from trace_site.jobs import Job
from trace_site.lib.store import INDEX


def snapshots() -> QuerySet[Snapshot]:
    """Without the manifests, which hold every contaminated and removed sample; members are counted by the build."""
    return Snapshot.objects.select_related("created_by").defer("manifest", "parts")


def composition(of: Snapshot) -> list[dict[str, Any]]:
    """What is inside: samples by branch, domain, rule and style."""
    keys = ("branch", "domain_id", "rule_version__rule__code", "rule_version__number", "style", "tier")
    return list(
        Sample.objects.filter(memberships__snapshot=of)
        .values(*keys)
        .annotate(count=Count("id"), offline=Count("id", filter=Q(writer__startswith="offline")))
        .order_by(*keys)
    )


def by_branch(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Composition summed by branch, for one stacked bar."""
    labels = dict(Sample._meta.get_field("branch").choices or ())
    tones = {"rrb": "accent", "rule": "good", "imported": "warn"}
    totals: dict[str, int] = {}
    for row in rows:
        totals[row["branch"]] = totals.get(row["branch"], 0) + row["count"]
    return [
        {"label": labels[branch], "count": count, "tone": tones[branch]} for branch, count in totals.items()
    ]


def any_approved() -> bool:
    return Sample.objects.filter(human=Sample.Human.APPROVED, machine=Sample.Machine.READY).exists()


def last_rebuild(of: int) -> Job | None:
    """The newest job that rebuilt the snapshot."""
    return Job.objects.filter(kind="snapshot_rebuild", params__snapshot=of).order_by("-pk").first()


# A snapshot's files for download: from the store, verified, streamed; the whole folder as one ZIP.


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
