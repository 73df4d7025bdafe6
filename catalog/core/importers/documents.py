"""One whole JSON or YAML document, read with limits: size, merged keys, depth. Never runs tags, never fetches."""

from pathlib import Path
from typing import Any

import yaml

from trace_site.lib.errors import TraceError
from trace_site.lib.files import read_json, read_text

MAX_BYTES = 64_000_000
MAX_MERGED = 100_000
MAX_ALIASES = 20_000
Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(Base):
    """Safe YAML without dates (a date in an example need not exist) and with a cap on merged keys."""

    merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        before = len(node.value)
        super().flatten_mapping(node)
        self.merged += max(0, len(node.value) - before)
        if self.merged > MAX_MERGED:
            raise yaml.constructor.ConstructorError(None, None, "too many merged keys", node.start_mark)


DROPPED = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] not in DROPPED]
    for first, pairs in Base.yaml_implicit_resolvers.items()
}


def read_document(path: Path, shown: str) -> Any:
    """Parse a document; raises TraceError naming file and line."""
    try:
        text = read_text(path, MAX_BYTES)
        if text.lstrip().startswith("{"):
            return read_json(path)
    except TraceError as error:
        error.where = error.where.replace(str(path), shown, 1)
        raise
    return _read_yaml(text, shown)


def _read_yaml(text: str, shown: str) -> Any:
    if text.count("*") > MAX_ALIASES and _aliases(text) > MAX_ALIASES:
        raise TraceError(f"more than {MAX_ALIASES:,} YAML aliases.", code="bad_yaml", where=shown)
    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506 - a SafeLoader with fewer tags
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0][:200] or "nested too deeply"
        raise TraceError(
            f"not valid YAML ({reason}).",
            code="bad_yaml",
            where=f"{shown}:{mark.line + 1}" if mark else shown,
            hint="Check that the file is complete.",
        ) from error


def _aliases(text: str) -> int:
    try:
        return sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=Loader))
    except yaml.YAMLError:
        return 0  # the load itself says what is wrong
