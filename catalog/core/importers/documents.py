"""One whole JSON or YAML document as dicts, lists and texts, read with limits; and files as text at all.

Numbers stay texts as written, so that a version 1.10 does not become 1.1. Nothing is run and nothing is fetched.
A key written twice in one object is kept aside (`Twice`), so that no operation is lost in silence.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

import yaml

from trace_site.lib.errors import TraceError
from trace_site.lib.texts import Twice, decode, json_lines, keep_twice, parse_json

MAX_BYTES = 64_000_000
BAD_JSON = "Check that the file is complete, without comments and without commas before a closing bracket."


def read_document(path: Path, shown: str) -> Any:
    """Parse a document, or several, one a line, into a list; raises TraceError naming file and line."""
    check_size(path, shown)
    text = decode(path.read_bytes(), shown)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _read_json(text, shown)
        except TraceError:
            if lines := json_lines(text):
                return [_read_json(one, f"{shown}:{number}", lines=False) for number, one in lines]
            if Path(shown).suffix.lower() not in {".yaml", ".yml"}:
                raise  # YAML may begin with a brace as well
    return YamlTree(shown).read(text)


def check_size(path: Path, shown: str, limit: int = MAX_BYTES) -> int:
    """The size of a file in bytes; raises TraceError beyond the limit."""
    size = path.stat().st_size
    if size > limit:
        hint = "Split it by API." if limit > MAX_BYTES else "Split it by API, or import it as JSON lines."
        message = f"the file has {size:,} bytes; the limit is {limit:,}."
        raise TraceError(message, code="too_large", where=shown, hint=hint)
    return size


def refusal(shown: str, message: str, hint: str, code: str = "bad_format") -> TraceError:
    return TraceError(message, code=code, where=shown, hint=hint)


def _read_json(text: str, shown: str, *, lines: bool = True) -> Any:
    doubles: list[Twice] = []

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = keep_twice(pairs)
        doubles.extend([found] if isinstance(found, Twice) else ())
        return found

    hooks: dict[str, Any] = {"parse_int": str, "parse_float": str, "parse_constant": str}
    value = parse_json(text, shown, BAD_JSON, lines=lines, object_pairs_hook=build, **hooks)
    for found in doubles[:20]:  # the line of a key is known when the text holds the key exactly twice
        key, lost, _ = found.earlier[0]
        quoted = json.dumps(key, ensure_ascii=False)
        if text.count(quoted) == 2:
            found.earlier[0] = key, lost, text.count("\n", 0, text.rfind(quoted)) + 1
    return value


# YAML is built from parser events, without a node graph: ten megabytes take about sixty. It is the core schema of
# YAML 1.2 without numbers: `on:` stays a key; only true, false and null have a type. Aliases share what they point to.
MAX_DEPTH = 400
MAX_VALUES = 10_000_000  # with every alias written out; an honest megabyte holds about 50,000
MAX_MERGED = 100_000
PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TYPED = dict.fromkeys(["", "~", "null", "Null", "NULL"])
TYPED |= dict.fromkeys(["true", "True", "TRUE"], True) | dict.fromkeys(["false", "False", "FALSE"], False)
NO_KEY: Any = object()


@dataclass(slots=True)
class Frame:
    """An object or list that is still open. `values` counts what is inside with its aliases written out."""

    value: Any
    anchor: str | None
    key: Any = NO_KEY
    values: int = 1
    merged: list[dict[str, Any]] = field(default_factory=list)

    @property
    def wants_key(self) -> bool:
        return self.key is NO_KEY and isinstance(self.value, dict)


class YamlTree:
    """Reads one document; `shown` names the file in errors."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.frames = [Frame([], None)]
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.merged = 0
        self.line = 0

    def read(self, text: str) -> Any:
        steps: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.DocumentStartEvent: self._document,
        }
        try:
            for event in yaml.parse(text, Loader=PARSER):
                if step := steps.get(type(event)):
                    self.line = event.start_mark.line + 1 if event.start_mark else 0
                    step(event)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            self.line = mark.line + 1 if mark else 0
            reason = getattr(error, "problem", None) or getattr(error, "context", None)
            raise self._bad(str(reason or str(error).splitlines()[0])[:200]) from error
        documents = self.frames[0].value
        return documents[0] if documents else None

    def _bad(self, reason: str) -> TraceError:
        where = f"{self.shown}:{self.line}" if self.line else self.shown
        hint = "Check that the file is complete."
        return TraceError(f"not valid YAML ({reason}).", code="bad_yaml", where=where, hint=hint)

    def _document(self, event: yaml.DocumentStartEvent) -> None:
        documents = self.frames[0].value
        if documents and documents[0] is not None:
            raise self._bad("a second document begins here; a catalog file holds one")
        documents.clear()
        self.anchors.clear()

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        frame = self.frames[-1]
        if frame.wants_key:
            frame.key = intern(event.value)
            if event.anchor:
                self.anchors[event.anchor] = event.value, 1
        else:
            typed = event.implicit[0] and event.value in TYPED
            self._put(TYPED[event.value] if typed else event.value, 1, event.anchor)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise self._bad(f"the alias *{event.anchor} points to nothing, or to what it is part of")
        value, values = self.anchors[event.anchor]
        frame = self.frames[-1]
        if not frame.wants_key:
            self._put(value, values, None)
        elif isinstance(value, str):
            frame.key = value
        else:
            raise self._bad("a key must be text; put quotes around it")

    def _open(self, event: Any) -> None:
        if self.frames[-1].wants_key:
            raise self._bad("a key must be text; put quotes around it")
        if len(self.frames) > MAX_DEPTH:
            raise self._bad(f"nested deeper than {MAX_DEPTH} levels")
        self.frames.append(Frame({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))

    def _close(self, event: Any) -> None:
        frame = self.frames.pop()
        for source in frame.merged:  # the object's own keys win, and earlier merged objects over later ones
            self.merged += len(source)
            if self.merged > MAX_MERGED:
                raise self._bad(f"more than {MAX_MERGED:,} merged keys")
            for key in source.keys() - frame.value.keys():
                frame.value[key] = source[key]
        self._put(frame.value, frame.values, frame.anchor)

    def _put(self, value: Any, values: int, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = value, values
        frame = self.frames[-1]
        frame.values += values
        if frame.values > MAX_VALUES:
            raise self._bad(f"with its aliases written out it holds more than {MAX_VALUES:,} values")
        if isinstance(frame.value, list):
            frame.value.append(value)
            return
        key, frame.key = frame.key, NO_KEY
        if key == "<<":  # merges objects; with anything else behind it, it is a key like others
            sources = value if isinstance(value, list) else [value]
            if all(isinstance(source, dict) for source in sources):
                frame.merged += sources
                return
        if key in frame.value:
            if not isinstance(frame.value, Twice):
                frame.value = Twice(frame.value)
            frame.value.earlier.append((key, frame.value[key], self.line))
        frame.value[key] = value
