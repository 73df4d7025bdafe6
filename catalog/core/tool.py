"""One tool as the catalog knows it, and the difference between a file and the catalog.

In: rows of any importer. Out: checked `ToolRecord`s with a content hash, and a `CatalogDiff`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.core.tokens import split_name
from catalog.core.twins import api_family, newest_first, twin_key
from catalog.core.words import name_words
from trace_site.lib.errors import TraceError
from trace_site.lib.files import content_hash

UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # NUL and halves of surrogate pairs
MAX_NAME = 400
MAX_PART = 300
MAX_DESCRIPTION = 20_000
MAX_VERSION = 60


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """One checked tool. `where` is its place in the file and not part of its content."""

    name: str
    description: str
    permissions: tuple[str, ...] = ()
    deprecated: bool = False
    version: str = ""
    source: str = ""
    where: str = ""

    @property
    def api(self) -> str:
        return split_name(self.name)[0]

    def content(self, domain: str) -> dict[str, Any]:
        """The record format of catalog files and snapshots."""
        return {
            "name": self.name,
            "description": self.description,
            "domain": domain,
            "permissions": list(self.permissions),
            "deprecated": self.deprecated,
            "version": self.version,
        }

    def content_hash(self, domain: str) -> str:
        return content_hash(self.content(domain))


@dataclass(frozen=True, slots=True)
class RowError:
    """Why one row cannot be imported; `name` is kept so that its tool is not taken for removed."""

    where: str
    message: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def parse_tool(row: Mapping[str, Any], where: str) -> ToolRecord:
    """Check one row; raises TraceError (code bad_tool) naming the field."""
    name = _text(row, "name", where, MAX_NAME)
    try:
        parts = split_name(name)
    except TraceError as error:
        raise _bad(where, f"{error.message} {error.hint}") from error
    if any(part != part.strip() for part in parts) or max(map(len, parts)) > MAX_PART:
        raise _bad(
            where,
            f"the two parts of '{name[:80]}' must have no outer spaces and at most {MAX_PART} characters.",
        )
    return ToolRecord(
        name=name,
        description=_text(row, "description", where, MAX_DESCRIPTION),
        permissions=_permissions(row, where),
        deprecated=_flag(row, where),
        version=_optional(row, "version", where, MAX_VERSION),
        source=_optional(row, "source", where, MAX_PART),
        where=where,
    )


def _bad(where: str, message: str) -> TraceError:
    return TraceError(message, code="bad_tool", where=where)


def _text(row: Mapping[str, Any], key: str, where: str, limit: int) -> str:
    if key not in row:
        hint = " It looks like labelled queries, not tools." if "query" in row else ""
        hint = " It looks like a rule, not a tool; use rules_import." if "rule_text" in row else hint
        raise _bad(where, f"'{key}' is missing.{hint}")
    value = row[key]
    if not isinstance(value, str):
        raise _bad(where, f"'{key}' must be text, not {type(value).__name__}.")
    value = value.strip()
    if not value:
        raise _bad(
            where, f"'{key}' is empty; describe what the tool does." if key != "name" else "'name' is empty."
        )
    if len(value) > limit:
        raise _bad(where, f"'{key}' has {len(value):,} characters; the limit is {limit:,}.")
    if unsafe := UNSTORABLE.search(value):
        raise _bad(where, f"'{key}' holds the character {unsafe[0]!r}, which cannot be stored.")
    if key == "name" and not value.isprintable():
        raise _bad(where, "'name' holds a character that cannot be printed.")
    return value


def _optional(row: Mapping[str, Any], key: str, where: str, limit: int) -> str:
    value = row.get(key)
    if value in (None, ""):
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return _text({key: value}, key, where, limit) if value != "" else ""


def _permissions(row: Mapping[str, Any], where: str) -> tuple[str, ...]:
    value = row.get("permissions")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _bad(where, "'permissions' must be a list of texts.")
    for item in value:
        if item.strip():
            _text({"permissions": item}, "permissions", where, MAX_PART)
    return tuple(dict.fromkeys(item.strip() for item in value if item.strip()))


def _flag(row: Mapping[str, Any], where: str) -> bool:
    value = row.get("deprecated", False)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _bad(where, f"'deprecated' must be true or false, not {value!r}.")


def refuse_duplicates(records: Iterable[ToolRecord]) -> tuple[list[ToolRecord], list[RowError]]:
    """Keep the first of each name; every later one is an error that names both places."""
    seen: dict[str, ToolRecord] = {}
    errors: list[RowError] = []
    for record in records:
        first = seen.setdefault(record.name, record)
        if first is not record:
            errors.append(
                RowError(
                    record.where, f"the name '{record.name}' is already used at {first.where}.", record.name
                )
            )
    return list(seen.values()), errors


@dataclass(frozen=True, slots=True)
class StoredTool:
    """What the diff needs to know about a tool in the catalog."""

    name: str
    api: str
    domain: str
    content_hash: str
    deprecated: bool
    active: bool


@dataclass(slots=True)
class CatalogDiff:
    """What applying a file would do. `returning` is the part of `added` that exists as retired tools."""

    added: list[ToolRecord] = field(default_factory=list)
    changed: list[ToolRecord] = field(default_factory=list)
    unchanged: int = 0
    removed: list[str] = field(default_factory=list)
    deprecated: list[str] = field(default_factory=list)
    returning: set[str] = field(default_factory=set)
    errors: list[RowError] = field(default_factory=list)


def diff_catalog(
    records: Iterable[ToolRecord], stored: Mapping[str, StoredTool], domain: str, keep: Iterable[str] = ()
) -> CatalogDiff:
    """Compare a file with the catalog.

    Removed are the active tools of the file's APIs in this domain that the file no longer has; names in `keep`
    (rows that could not be read) are not removed. `deprecated` lists the tools that become deprecated.
    """
    diff = CatalogDiff()
    seen = set(keep)
    apis: set[str] = set()
    for record in records:
        seen.add(record.name)
        apis.add(record.api)
        _place(diff, record, stored.get(record.name), domain)
    diff.removed = sorted(
        tool.name
        for tool in stored.values()
        if tool.active and tool.domain == domain and tool.api in apis and tool.name not in seen
    )
    return diff


def _place(diff: CatalogDiff, record: ToolRecord, tool: StoredTool | None, domain: str) -> None:
    if tool is not None and tool.domain != domain:
        message = f"'{record.name}' already belongs to the domain '{tool.domain}'."
        diff.errors.append(RowError(record.where, message, record.name))
        return
    if tool is None or not tool.active:
        diff.added.append(record)
        if tool is not None:
            diff.returning.add(record.name)
    elif tool.content_hash != record.content_hash(domain):
        diff.changed.append(record)
    else:
        diff.unchanged += 1
    if record.deprecated and not (tool and tool.active and tool.deprecated):
        diff.deprecated.append(record.name)


def search_words(name: str) -> str:
    """The text the search column indexes for a name: the name itself and its parts."""
    return " ".join(dict.fromkeys([name, *name.split("/", 1), *name_words(name)]))


def embedding_text(name: str, description: str) -> str:
    """What the sentence encoder reads of a tool."""
    return f"{' '.join(name_words(name))}: {description}"


# What a new version of an API brings: which endpoints have a twin in its neighbour version, are new, or are gone.
#
# In: tool names. Out: one step for every API that was asked about and has another version.


@dataclass(frozen=True, slots=True)
class VersionStep:
    """`api` beside the version before it, or after it when there is none before. The lists hold tool names."""

    api: str
    other: str
    newer: bool
    twins: int
    new: tuple[str, ...]
    gone: tuple[str, ...]

    def __str__(self) -> str:
        twins = f"{self.twins} endpoint{' has' if self.twins == 1 else 's have'} a twin"
        here, there = len(self.new), len(self.gone)
        if self.newer:
            rest = f"{here} {_be(here)} new, {there} {_be(there)} gone"
        else:
            rest = f"{here} {_be(here)} only here, {there} only there"
        return f"{self.api} is {'a newer' if self.newer else 'an older'} version of {self.other}: {twins}, {rest}."


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def version_steps(apis: Iterable[str], names: Iterable[str]) -> list[VersionStep]:
    """A step for each of `apis` that `names`, the tools of their families, hold in another version too.

    The oldest version is told beside the next one only when that one was not asked about: one sentence a pair.
    """
    endpoints: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    families: dict[str, set[str]] = defaultdict(set)
    for name in names:
        api = split_name(name)[0]
        endpoints[api][twin_key(name)] = name
        families[api_family(api)[0]].add(api)
    steps = []
    asked = set(apis)
    for api in sorted(asked & endpoints.keys()):
        ordered = newest_first(families[api_family(api)[0]])
        place = ordered.index(api)
        older = ordered[place + 1 : place + 2]
        later = [other for other in ordered[:place][-1:] if other not in asked]
        for other in older or later:
            steps.append(_step(api, other, bool(older), endpoints[api], endpoints[other]))
    return steps


def _step(
    api: str, other: str, newer: bool, mine: dict[tuple[str, str], str], theirs: dict[tuple[str, str], str]
) -> VersionStep:
    new, gone = mine.keys() - theirs.keys(), theirs.keys() - mine.keys()
    return VersionStep(
        api,
        other,
        newer,
        len(mine.keys() & theirs.keys()),
        tuple(sorted(mine[key] for key in new)),
        tuple(sorted(theirs[key] for key in gone)),
    )
