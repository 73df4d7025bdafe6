"""Files written whole or not at all, JSON lines with file:line errors, and content hashes."""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from trace_site.lib.errors import TraceError, quoted
from trace_site.lib.texts import Lines, decode, json_rows, parse_json, text_lines, undecoded

MAX_LINE = 5_000_000  # characters
UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # NUL and halves of surrogate pairs
ESCAPED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")  # NUL, or half of a surrogate pair: worth a closer look


def canonical_json(value: Any) -> str:
    """The one text form a value is hashed in: sorted keys, no spaces, UTF-8 kept."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def content_hash(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256_file(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def storable(text: str) -> bool:
    """Whether a text can be stored: no NUL, no half of a surrogate pair."""
    return UNSTORABLE.search(text) is None


def levels_of(value: Any) -> Iterator[list[Any]]:
    """A parsed JSON value, then all that lies in it, then what lies in that, and so on."""
    level = [value]
    while level:
        yield level
        inner = (
            item.values() if isinstance(item, dict) else item
            for item in level
            if isinstance(item, (dict, list))
        )
        level = [part for parts in inner for part in parts]


def storable_json(value: Any, text: str) -> bool:
    """The same of every text of a value that was parsed from `text`, which tells cheaply when nothing is wrong."""
    if storable(text) and not ESCAPED.search(text):
        return True
    values = (item for level in levels_of(value) for item in level)
    texts = (part for item in values for part in (item if isinstance(item, dict) else [item]))
    return all(storable(part) for part in texts if isinstance(part, str))


def strict_json(text: str) -> Any:
    """JSON without NaN, infinite numbers and doubled keys. Raises ValueError (JSONDecodeError too), RecursionError."""
    return json.loads(
        text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite
    )


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"The key {quoted(twice)} is given twice. Keep one.")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON. Use a number or null.")


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"{quoted(digits)} is larger than any number. Use a smaller one.")
    return number


def deeper_than(most: int, value: Any) -> bool:
    """Whether objects and lists of a parsed JSON value lie more than `most` levels inside one another."""
    return any(isinstance(item, (dict, list)) for item in next(islice(levels_of(value), most, None), []))


def write_atomic(path: Path, data: bytes | str, *, private: bool = False) -> None:
    """Write to a temporary name, fsync, rename: a reader sees the old file or the new one. `private`: only this
    account may read it, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as handle:
            if private:
                os.fchmod(handle.fileno(), 0o600)
            handle.write(data.encode() if isinstance(data, str) else data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise TraceError(
            f"could not write the file ({error.strerror}).",
            code="write_failed",
            where=str(path),
            hint="Free some disk space or check the folder's permissions, then run it again.",
        ) from error


def write_jsonl(path: Path, rows: Iterable[Any]) -> int:
    """Write rows as JSON lines, atomically; returns how many."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    write_atomic(path, "".join(line + "\n" for line in lines))
    return len(lines)


def read_json(path: Path) -> Any:
    """Parse one JSON document; raises TraceError naming file, line and column."""
    return _parsed(read_text(path), str(path), "Check that the file is complete and is a .json file.")


def _parsed(text: str, where: str, hint: str, **options: Any) -> Any:
    """What a JSON text holds; `options` are those of `parse_json`."""
    value = parse_json(text, where, hint, **options)
    if not storable_json(value, text):
        raise TraceError(
            "a text holds a character that cannot be stored (NUL or half of a surrogate pair).",
            code="bad_text",
            where=where,
            hint="Take \\u0000 and lone \\ud800 to \\udfff out of it.",
        )
    return value


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for every non-empty line; raises TraceError at the first bad line."""
    for number, text in jsonl_lines(path):
        yield number, parse_jsonl_line(f"{path}:{number}", text)


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `read_jsonl`; of a file that is one JSON list its objects, with their places."""
    hint = "Send one list of objects, or one object a line."
    for number, row in json_rows(read_text(path), str(path), hint):
        yield number, parse_jsonl_line(f"{path}:{number}", json.dumps(row))


def jsonl_lines(
    path: Path, shown: str = "", longest: int = MAX_LINE, most: int | None = None
) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) for every non-empty line, never holding more than one."""
    if not path.is_file():
        raise _missing(path)
    with path.open("rb") as handle:
        yield from text_lines(Lines(handle, shown or str(path), longest, most))


def parse_jsonl_line(where: str, text: str, **hooks: Any) -> dict[str, Any]:
    """The object of a line; `hooks` are those of `json.loads`."""
    hint = "Each line must be one JSON object."
    if undecoded(text):
        raise TraceError("not UTF-8 text.", code="bad_encoding", where=where, hint="Save the file as UTF-8.")
    row = _parsed(text, where, hint, lines=False, **hooks)
    if not isinstance(row, dict):
        wrong = f"expected a JSON object, found {type(row).__name__}."
        raise TraceError(wrong, code="bad_row", where=where, hint=hint)
    return row


def read_text(path: Path) -> str:
    """Read a text file of at most 100 MB; raises TraceError for a missing, huge or binary one."""
    return decode(read_bytes(path), str(path))


def read_bytes(path: Path, max_bytes: int = 100_000_000) -> bytes:
    """Read a file with a size cap (bytes); raises TraceError for a missing or huge one."""
    if not path.is_file():
        raise _missing(path)
    size = path.stat().st_size
    if size > max_bytes:
        raise TraceError(
            f"the file has {size:,} bytes; the limit is {max_bytes:,}.",
            code="too_large",
            where=str(path),
            hint="Split it, or import it as JSON lines, which are read line by line.",
        )
    return path.read_bytes()


def _missing(path: Path) -> TraceError:
    kind = "is a folder, not a file" if path.is_dir() else "does not exist"
    return TraceError(f"{kind}.", code="no_such_file", where=str(path), hint="Check the path.")
