"""One whole JSON or YAML document as dicts, lists and texts, read with limits; and files as text at all.

Numbers stay texts as written, so that a version 1.10 does not become 1.1. Nothing is run and nothing is fetched.
A key written twice in one object is kept aside (`Twice`), so that no operation is lost in silence.
"""

import codecs
import json
from pathlib import Path
from typing import Any

from catalog.core.importers.yaml_tree import Twice, YamlProblem, YamlTree
from trace_site.lib.errors import TraceError

MAX_BYTES = 64_000_000
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
YAML_SUFFIXES = {".yaml", ".yml"}


def read_document(path: Path, shown: str) -> Any:
    """Parse a document; raises TraceError naming file and line."""
    check_size(path, shown)
    text = decode(path.read_bytes(), shown)
    if text.lstrip()[:1] not in ("{", "["):
        return _read_yaml(text, shown)
    try:
        return _read_json(text, shown)
    except TraceError:
        if Path(shown).suffix.lower() not in YAML_SUFFIXES:
            raise
    return _read_yaml(text, shown)  # YAML may begin with a brace as well


def check_size(path: Path, shown: str, limit: int = MAX_BYTES) -> int:
    """The size of a file in bytes; raises TraceError beyond the limit."""
    size = path.stat().st_size
    if size > limit:
        raise TraceError(
            f"the file has {size:,} bytes; the limit is {limit:,}.",
            code="too_large",
            where=shown,
            hint="Split it by API." if limit > MAX_BYTES else "Split it by API, or import it as JSON lines.",
        )
    return size


def encoding_of(data: bytes) -> str:
    """The encoding that the first bytes tell: by byte order mark, by the NUL beside each letter, else UTF-8."""
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return encoding
    odd, even = data[1:40:2], data[0:40:2]
    if odd and not odd.strip(b"\0") and b"\0" not in even:
        return "utf-16-le"
    if odd and not even.strip(b"\0") and b"\0" not in odd:
        return "utf-16-be"
    return "utf-8"


def decode(data: bytes, shown: str) -> str:
    """Bytes as text; raises TraceError naming the line of the first byte that is none."""
    encoding = encoding_of(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError(
            f"not {encoding.upper().removesuffix('-SIG')} text (byte 0x{data[error.start]:02X}).",
            code="bad_encoding",
            where=f"{shown}:{line}",
            hint="Save the file as UTF-8.",
        ) from error
    if "\0" in text:
        raise TraceError("a binary file.", code="bad_encoding", where=shown, hint="Save it as UTF-8 text.")
    return text


def _read_json(text: str, shown: str) -> Any:
    doubles: list[Twice] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        return values if len(values) == len(pairs) else _twice(values, pairs, doubles)

    try:
        value = json.loads(text, object_pairs_hook=build, parse_int=str, parse_float=str, parse_constant=str)
    except (json.JSONDecodeError, RecursionError) as error:
        reason = getattr(error, "msg", "nested too deeply")
        raise TraceError(
            f"not valid JSON ({reason}).",
            code="bad_json",
            where=f"{shown}:{getattr(error, 'lineno', 1)}",
            hint="Check that the file is complete, without comments and without commas before a closing bracket.",
        ) from error
    _find_lines(doubles, text)
    return value


def _twice(values: dict[str, Any], pairs: list[tuple[str, Any]], doubles: list[Twice]) -> Twice:
    found = Twice(values)
    last = {key: number for number, (key, _) in enumerate(pairs)}
    found.earlier = [(key, value, 0) for number, (key, value) in enumerate(pairs) if last[key] != number]
    doubles.append(found)
    return found


def _find_lines(doubles: list[Twice], text: str) -> None:
    """Where the first doubled keys stand, when the text holds them exactly twice."""
    for found in doubles[:20]:
        key, value, _ = found.earlier[0]
        quoted = json.dumps(key, ensure_ascii=False)
        if text.count(quoted) == 2:
            found.earlier[0] = key, value, text.count("\n", 0, text.rfind(quoted)) + 1


def _read_yaml(text: str, shown: str) -> Any:
    try:
        return YamlTree().read(text)
    except YamlProblem as problem:
        raise TraceError(
            f"not valid YAML ({problem.message}).",
            code="bad_yaml",
            where=f"{shown}:{problem.line}" if problem.line else shown,
            hint="Check that the file is complete.",
        ) from problem
