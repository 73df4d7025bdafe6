"""Cuts a file of lines where the content says so: one changed line changes one part, wherever lines come and go.

In: lines. Out: parts of about AVERAGE lines, each with its digest; joined they are the file, byte for byte. Equal
parts of many files can be kept once.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

AVERAGE = 512  # a part ends after a line whose checksum is a multiple of this
LONGEST = 4096


@dataclass(frozen=True, slots=True)
class LinePart:
    digest: str  # sha256 of the bytes
    rows: int
    data: bytes


def cut(lines: Iterable[bytes]) -> Iterator[LinePart]:
    """Never holds more than one part."""
    part: list[bytes] = []
    for line in lines:
        part.append(line)
        if len(part) == LONGEST or zlib.crc32(line) % AVERAGE == 0:
            yield _joined(part)
            part = []
    if part:
        yield _joined(part)


def _joined(lines: list[bytes]) -> LinePart:
    data = b"".join(lines)
    return LinePart(hashlib.sha256(data).hexdigest(), len(lines), data)
