"""One tool as the catalog knows it, and the difference between a file and the catalog.

In: rows of any importer. Out: checked `ToolRecord`s with a content hash, and a `CatalogDiff`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from catalog.core.tokens import flat_token, split_name
from catalog.core.words import join_words, name_words, plain_words
from trace_site.lib.errors import TraceError
from trace_site.lib.files import UNSTORABLE, content_hash
from trace_site.lib.letters import entered

MAX_NAME = 400
MAX_PART = 300
MAX_TOKEN = 700
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

    where: Annotated[str, "file and line, or a JSON pointer"]
    message: str
    name: Annotated[str, "empty when the row has no readable name"] = ""

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
        limits = f"must have no outer spaces and at most {MAX_PART} characters"
        raise _bad(where, f"the two parts of '{name[:80]}' {limits}.")
    if len(flat_token(name)) > MAX_TOKEN:
        raise _bad(where, f"'name' holds too many backslashes or quotation marks: '{name[:80]}'.")
    granted = row.get("permissions")
    granted = [] if granted is None else granted
    if not isinstance(granted, list) or not all(isinstance(item, str) for item in granted):
        raise _bad(where, "'permissions' must be a list of texts.")
    granted = [_text({"permissions": one}, "permissions", where, MAX_PART) for one in granted if one.strip()]
    deprecated = row.get("deprecated")
    if deprecated is not None and not isinstance(deprecated, bool):
        raise _bad(where, f"'deprecated' must be true or false, not {deprecated!r}.")
    optional = {"version": "", "source": ""}
    for key, limit in (("version", MAX_VERSION), ("source", MAX_PART)):
        value = row.get(key)
        if value not in (None, ""):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            optional[key] = _text({key: str(value) if number else value}, key, where, limit)
    return ToolRecord(
        name=name,
        description=_text(row, "description", where, MAX_DESCRIPTION),
        permissions=tuple(dict.fromkeys(granted)),
        deprecated=bool(deprecated),
        where=where,
        **optional,
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
    value = entered(value).strip()
    if not value:
        what = "" if key == "name" else "; describe what the tool does"
        raise _bad(where, f"'{key}' is empty{what}.")
    if len(value) > limit:
        raise _bad(where, f"'{key}' has {len(value):,} characters; the limit is {limit:,}.")
    if unsafe := UNSTORABLE.search(value):
        raise _bad(where, f"'{key}' holds the character {unsafe[0]!r}, which cannot be stored.")
    if key == "name" and not value.isprintable():
        raise _bad(where, "'name' holds a character that cannot be printed.")
    return value


def refuse_duplicates(records: Iterable[ToolRecord]) -> tuple[list[ToolRecord], list[RowError]]:
    """Keep the first of each name; every later one is an error that names both places."""
    seen: dict[str, ToolRecord] = {}
    errors: list[RowError] = []
    for record in records:
        first = seen.setdefault(record.name, record)
        if first is not record:
            message = f"the name '{record.name}' is already used at {first.where}."
            errors.append(RowError(record.where, message, record.name))
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
        tool = stored.get(record.name)
        if tool is not None and tool.domain != domain:
            message = f"'{record.name}' already belongs to the domain '{tool.domain}'."
            diff.errors.append(RowError(record.where, message, record.name))
            continue
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
    diff.removed = sorted(
        tool.name
        for tool in stored.values()
        if tool.active and tool.domain == domain and tool.api in apis and tool.name not in seen
    )
    return diff


def search_words(name: str, description: str = "") -> str:
    """The text the search column indexes for a name: the name itself and its parts. Of the description the words that
    the database does not see in it: of scripts without spaces, of other forms of letters."""
    seen = set(description.casefold().split())
    unseen = [] if description.isascii() else [one for one in plain_words(description) if one not in seen]
    return " ".join(dict.fromkeys([name, *name.split("/", 1), *name_words(name), *unseen]))


def embedding_text(name: str, description: str) -> str:
    """What the sentence encoder reads of a tool."""
    return f"{join_words(name_words(name))}: {description}"
