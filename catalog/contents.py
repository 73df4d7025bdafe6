"""Writes what tools say: their rows, a revision each, and the words a search may mean by them.

Imports and undo share it; call it under `catalog_lock`, in the transaction of the whole change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DataError
from django.utils import timezone

from catalog.core.spelling import trigrams, vocabulary
from catalog.core.tool import search_words
from catalog.core.twins import api_family
from catalog.models import CatalogImport, CatalogWord, Tool, ToolRevision
from trace_site.lib.errors import TraceError

BATCH = 1000
MANY = 5000  # names or ids in one query
CONTENT_FIELDS = [
    "description",
    "permissions",
    "deprecated",
    "version",
    "family",
    "api_version",
    "source",
    "status",
    "content_hash",
    "words",
    "updated_at",
]


@dataclass(frozen=True, slots=True)
class ToolContent:
    """`data` is the record of catalog files and its `source`; the hash leaves the source out."""

    data: dict[str, Any]
    content_hash: str
    active: bool = True


def contents_write(contents: Sequence[ToolContent], **origin: CatalogImport) -> dict[str, int]:
    """Write the tools with one revision each; `origin` is `catalog_import` or `undo_of`. Returns ids by name."""
    tools = [_tool(content) for content in contents]
    known = _known([tool.name for tool in tools])
    try:
        Tool.objects.bulk_create(
            tools,
            batch_size=BATCH,
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=CONTENT_FIELDS,
        )
    except DataError as error:
        where = next((row.filename for row in origin.values()), "")
        raise TraceError(f"a row cannot be stored ({error}).", code="bad_rows", where=where) from error
    ToolRevision.objects.bulk_create(
        [
            ToolRevision(tool=tool, content_hash=tool.content_hash, data=content.data, **origin)
            for tool, content in zip(tools, contents, strict=True)
        ],
        batch_size=BATCH,
    )
    _forget_embeddings(
        [tool.pk for tool in tools if known.get(tool.name) not in (None, (tool.description, tool.status))]
    )
    _keep_words(tools)
    return {tool.name: tool.pk for tool in tools}


def tools_set_active(ids: Sequence[int], active: bool) -> None:
    """Retire tools, or bring retired ones back; their content stays."""
    status = Tool.Status.ACTIVE if active else Tool.Status.RETIRED
    for some in chunks(ids):
        Tool.objects.filter(pk__in=some).update(status=status, updated_at=timezone.now())
    if active:
        _forget_embeddings(ids)


def chunks(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    """At most MANY at a time, for IN (...)."""
    return (values[start : start + MANY] for start in range(0, len(values), MANY))


def _tool(content: ToolContent) -> Tool:
    data = content.data
    api, _, endpoint = data["name"].partition("/")
    family, version = api_family(api)
    return Tool(
        name=data["name"],
        api=api,
        endpoint=endpoint,
        description=data["description"],
        domain_id=data["domain"],
        permissions=data["permissions"],
        deprecated=data["deprecated"],
        version=data["version"],
        family=family,
        api_version=version,
        source=data.get("source", ""),
        status=Tool.Status.ACTIVE if content.active else Tool.Status.RETIRED,
        content_hash=content.content_hash,
        words=search_words(data["name"]),
    )


def _known(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Description and status as they are before the write."""
    known: dict[str, tuple[str, str]] = {}
    for some in chunks(names):
        rows = Tool.objects.filter(name__in=some).values_list("name", "description", "status")
        known |= {name: (description, status) for name, description, status in rows}
    return known


def _forget_embeddings(ids: Sequence[int]) -> None:
    """An empty key says that look-alikes were found for another text, or while the tool was retired."""
    for some in chunks(ids):
        Tool.objects.filter(pk__in=some).update(embedding_key="")


def _keep_words(tools: Iterable[Tool]) -> None:
    words: set[str] = set()
    for tool in tools:
        words |= vocabulary(tool.name, tool.description)
    known: set[str] = set()
    for some in chunks(sorted(words)):
        known |= set(CatalogWord.objects.filter(word__in=some).values_list("word", flat=True))
    rows = [CatalogWord(word=word, trigrams=trigrams(word)) for word in sorted(words - known)]
    CatalogWord.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)
