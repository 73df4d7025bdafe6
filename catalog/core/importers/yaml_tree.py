"""YAML as dicts, lists and texts, built from parser events: no node graph, so ten megabytes take about sixty.

The core schema of YAML 1.2 without numbers: `on:` stays a key, 1.10 stays 1.10; only true, false and null have a type.
Tags never run. Aliases share what they point to; a document that would unfold beyond a cap is refused while it is read.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import intern
from typing import Any

import yaml

MAX_DEPTH = 400
MAX_VALUES = 10_000_000  # with every alias written out; an honest megabyte holds about 50,000
MAX_MERGED = 100_000
PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TYPED = dict.fromkeys(["", "~", "null", "Null", "NULL"])
TYPED |= dict.fromkeys(["true", "True", "TRUE"], True) | dict.fromkeys(["false", "False", "FALSE"], False)
NO_KEY: Any = object()


class Twice(dict[str, Any]):
    """An object in which a key was written more than once: the last value counts, the earlier ones are here."""

    __slots__ = ("earlier",)

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.earlier: list[tuple[str, Any, int]] = []  # key, lost value, line of the later one (0 unknown)


class YamlProblem(Exception):
    """Why a document cannot be read, and the line (0 unknown)."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(slots=True)
class Frame:
    """An object or list that is still open. `values` counts what is inside with its aliases written out."""

    value: Any
    anchor: str | None
    key: Any = NO_KEY
    values: int = 1
    merged: list[dict[str, Any]] = field(default_factory=list)


class YamlTree:
    def __init__(self) -> None:
        self.frames: list[Frame] = [Frame([], None)]
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.merged = 0
        self.line = 0

    def read(self, text: str) -> Any:
        """The one document of a text; raises YamlProblem."""
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
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 0
            raise YamlProblem(str(error.problem or error.context)[:200], line) from error
        except yaml.YAMLError as error:
            raise YamlProblem(str(error).splitlines()[0][:200]) from error
        documents = self.frames[0].value
        return documents[0] if documents else None

    def _document(self, event: yaml.DocumentStartEvent) -> None:
        documents = self.frames[0].value
        if documents and documents[0] is not None:
            raise YamlProblem("a second document begins here; a catalog file holds one", self.line)
        documents.clear()
        self.anchors.clear()

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        frame = self.frames[-1]
        if frame.key is NO_KEY and isinstance(frame.value, dict):
            frame.key = intern(event.value)
            if event.anchor:
                self.anchors[event.anchor] = event.value, 1
            return
        value: Any = event.value
        if event.implicit[0] and value in TYPED:
            value = TYPED[value]
        self._put(value, 1, event.anchor)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise YamlProblem(
                f"the alias *{event.anchor} points to nothing, or to what it is part of", self.line
            )
        value, values = self.anchors[event.anchor]
        frame = self.frames[-1]
        if frame.key is NO_KEY and isinstance(frame.value, dict):
            self._check_key(isinstance(value, str))
            frame.key = value
        else:
            self._put(value, values, None)

    def _open(self, event: Any) -> None:
        frame = self.frames[-1]
        self._check_key(frame.key is not NO_KEY or isinstance(frame.value, list))
        if len(self.frames) > MAX_DEPTH:
            raise YamlProblem(f"nested deeper than {MAX_DEPTH} levels", self.line)
        self.frames.append(Frame({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))

    def _check_key(self, is_text: bool) -> None:
        if not is_text:
            raise YamlProblem("a key must be text; put quotes around it", self.line)

    def _close(self, event: Any) -> None:
        frame = self.frames.pop()
        value = frame.value
        if frame.merged:
            value = self._merge(frame)
        self._put(value, frame.values, frame.anchor)

    def _put(self, value: Any, values: int, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = value, values
        frame = self.frames[-1]
        frame.values += values
        if frame.values > MAX_VALUES:
            raise YamlProblem(
                f"with its aliases written out it holds more than {MAX_VALUES:,} values", self.line
            )
        if isinstance(frame.value, list):
            frame.value.append(value)
            return
        key, frame.key = frame.key, NO_KEY
        if key == "<<" and (found := _merge_sources(value)) is not None:
            frame.merged += found
        else:
            self._set(frame, key, value)

    def _set(self, frame: Frame, key: str, value: Any) -> None:
        if key in frame.value:
            if not isinstance(frame.value, Twice):
                frame.value = Twice(frame.value)
            frame.value.earlier.append((key, frame.value[key], self.line))
        frame.value[key] = value

    def _merge(self, frame: Frame) -> dict[str, Any]:
        """Keys of the object itself win over merged ones, and earlier merged objects over later ones."""
        for source in frame.merged:
            self.merged += len(source)
            if self.merged > MAX_MERGED:
                raise YamlProblem(f"more than {MAX_MERGED:,} merged keys", self.line)
            for key in source.keys() - frame.value.keys():
                frame.value[key] = source[key]
        return frame.value


def _merge_sources(value: Any) -> list[dict[str, Any]] | None:
    """The objects behind a `<<` key; None when it merges nothing and is a key like others."""
    sources = value if isinstance(value, list) else [value]
    return sources if all(isinstance(source, dict) for source in sources) else None
