"""The frozen lines of snapshots in the database: kept once by their digest, compressed, joined again to files."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from synthesis.core.line_parts import LinePart, cut
from synthesis.models import FrozenLines

BATCH = 16  # parts in memory at once


@dataclass(slots=True)
class Parts:
    """Collects the parts of files as they are written. `digests`: {file: its parts in order}."""

    digests: dict[str, list[str]] = field(default_factory=dict)
    _new: dict[str, FrozenLines] = field(default_factory=dict)

    def kept(self, name: str, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines unchanged; on the way their parts are noted."""
        found = self.digests.setdefault(name, [])
        for part in cut(lines):
            found.append(part.digest)
            self._note(part)
            yield from lines_of(part.data)

    def _note(self, part: LinePart) -> None:
        if part.digest not in self._new:
            data = zlib.compress(part.data, 6)
            self._new[part.digest] = FrozenLines(digest=part.digest, rows=part.rows, data=data)

    def save(self) -> int:
        """Store what is not there yet; returns how many parts that were."""
        known = set(FrozenLines.objects.filter(pk__in=self._new).values_list("pk", flat=True))
        fresh = [row for digest, row in self._new.items() if digest not in known]
        FrozenLines.objects.bulk_create(fresh, ignore_conflicts=True, batch_size=BATCH)
        return len(fresh)


def joined(digests: Sequence[str]) -> Iterator[bytes]:
    """The lines of these parts, in order, a few parts at a time."""
    for start in range(0, len(digests), BATCH):
        wanted = digests[start : start + BATCH]
        rows = dict(FrozenLines.objects.filter(pk__in=wanted).values_list("pk", "data"))
        for digest in wanted:
            yield from lines_of(zlib.decompress(rows[digest]))


def lines_of(data: bytes) -> Iterator[bytes]:
    """Lines by newline alone, each with its newline."""
    yield from (line + b"\n" for line in data[:-1].split(b"\n")) if data else ()
