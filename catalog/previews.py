"""What an import would do, or did, in a form for people and programs: fields before and after, impact, bad rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from django.db.models import Exists, OuterRef

from catalog.core.tool import RowError, ToolRecord
from catalog.imports import ImportResult
from catalog.models import CatalogImport, Tool, ToolRevision
from trace_site.impact import Impact, impact_of

SHOWN = 200  # rows of each kind that are written out; the counts name all
COMPARED = ("description", "permissions", "deprecated", "version")


@dataclass(frozen=True, slots=True)
class FieldChange:
    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class ChangedTool:
    tool: Tool
    changes: list[FieldChange]


@dataclass(frozen=True, slots=True)
class Preview:
    """The first SHOWN rows of every kind; `result.counts` has the whole numbers."""

    result: ImportResult
    added: list[ToolRecord]
    changed: list[ChangedTool]
    returning: list[str]
    removed: list[Tool]
    deprecated: list[str]
    skipped: list[RowError]
    notes: list[RowError]
    impact: list[Impact]

    @property
    def counts(self) -> dict[str, Any]:
        return {**self.result.counts, "returned": len(self.result.diff.returning)}


def preview_of(result: ImportResult) -> Preview:
    """Three queries and what the apps to the right ask for their part of the impact."""
    diff, known = result.diff, result.known
    changed = diff.changed[:SHOWN]
    tools = _tools([known[name] for name in [*(r.name for r in changed), *diff.removed[:SHOWN]]])
    returning = sorted(diff.returning)
    stale = sorted(known[name] for name in [*(r.name for r in diff.changed), *diff.removed])
    return Preview(
        result=result,
        added=[record for record in diff.added if record.name not in diff.returning][:SHOWN],
        changed=[
            ChangedTool(tools[known[r.name]], _changes(_said(tools[known[r.name]]), r.content(result.domain)))
            for r in changed
        ],
        returning=returning[:SHOWN],
        removed=[tools[known[name]] for name in diff.removed[:SHOWN]],
        deprecated=diff.deprecated[:SHOWN],
        skipped=result.errors[:SHOWN],
        notes=result.notes[:SHOWN],
        impact=[line for line in impact_of("tools", stale) if line.count],
    )


def _tools(ids: Iterable[int]) -> dict[int, Tool]:
    return Tool.objects.defer("embedding", "search", "words").in_bulk(list(ids))


def _said(tool: Tool) -> dict[str, Any]:
    return {name: getattr(tool, name) for name in COMPARED}


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    return [
        FieldChange(name, before.get(name), after.get(name))
        for name in COMPARED
        if before.get(name) != after.get(name)
    ]


@dataclass(frozen=True, slots=True)
class AppliedImport:
    """What an applied import did, told by its revisions; at most SHOWN tools of each kind, in the file's order."""

    added: list[Tool]
    changed: list[ChangedTool]
    returned: list[Tool]
    retired: list[Tool]


def applied_import(row: CatalogImport) -> AppliedImport:
    """Six queries, however many tools it touched."""
    own = row.revisions.exclude(tool__in=row.returned_ids).order_by("pk")
    earlier = Exists(ToolRevision.objects.filter(tool=OuterRef("tool"), pk__lt=OuterRef("pk")))
    added = list(own.exclude(earlier).values_list("tool_id", flat=True)[:SHOWN])
    after = list(own.filter(earlier)[:SHOWN]) if row.counts.get("changed") else []
    ids = [revision.tool_id for revision in after]
    older = ToolRevision.objects.filter(tool__in=ids, pk__lt=after[0].pk if after else 0)
    before = {found.tool_id: found for found in older.order_by("tool_id", "-pk").distinct("tool_id")}
    returned, retired = row.returned_ids[:SHOWN], row.retired_ids[:SHOWN]
    tools = _tools([*added, *ids, *returned, *retired])
    return AppliedImport(
        added=[tools[pk] for pk in added],
        changed=[
            ChangedTool(tools[new.tool_id], _changes(before[new.tool_id].data, new.data)) for new in after
        ],
        returned=[tools[pk] for pk in returned],
        retired=[tools[pk] for pk in retired],
    )


def revision_changes(revisions: Sequence[ToolRevision]) -> list[tuple[ToolRevision, list[FieldChange]]]:
    """A tool's history, newest first, each with what it changed against the one before it."""
    return [
        (new, _changes(old.data, new.data) if old else [])
        for new, old in zip_longest(revisions, revisions[1:])
    ]
