"""Undoing an import: every tool it touched goes back to what it was, while nothing depends on what it brought.

Tools it added are retired, never deleted, and keep their tokens; tools it retired return; changed ones get their
earlier content as a new revision.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Max, Min, Q
from django.urls import reverse
from django.utils import timezone

from catalog.imports.services import ToolContent, chunks, contents_write, import_told, tools_set_active
from catalog.models import CatalogImport, Tool, ToolRevision
from catalog.services import catalog_lock, ledger_update, tools_changed
from trace_site.audit import models as audit_models
from trace_site.impact import Impact, impact_of
from trace_site.lib.errors import TraceError
from trace_site.webhooks.services import emit

LISTED = 20


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an import cannot be undone; `url` leads to what stands in the way."""

    sentence: str
    url: str = ""

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What undoing would do, as tool ids; `reasons` says why it is refused, if it is. `earlier` maps a tool to the
    revision whose content it had before the import.
    """

    retire: list[int]
    earlier: dict[int, int]
    bring_back: list[int]
    reasons: list[Reason]
    impact: list[Impact]

    @property
    def changed(self) -> list[int]:
        """Tools that stay active and get their earlier content back."""
        return sorted(self.earlier.keys() - set(self.retire))

    @property
    def counts(self) -> dict[str, int]:
        return {"retired": len(self.retire), "restored": len(self.changed), "returned": len(self.bring_back)}


def undo_plan(row: CatalogImport) -> UndoPlan:
    """Reads only: what `import_undo` would do now."""
    written = set(row.revisions.values_list("tool_id", flat=True))
    # the newest revision of each tool from before the import; one writer at a time makes their ids a history
    first = row.revisions.aggregate(first=Min("pk"))["first"] or 0
    older = ToolRevision.objects.filter(pk__lt=first, tool__in=row.revisions.values("tool_id"))
    earlier = dict(older.order_by().values_list("tool_id").annotate(Max("pk")))
    retire = sorted((written - earlier.keys()) | (set(row.returned_ids) & written))
    touched = sorted(written | set(row.retired_ids))
    impact = impact_of("tools", touched)
    if row.undone_at is not None:
        reasons = [Reason(f"It was undone on {row.undone_at:%-d %B %Y} at {row.undone_at:%H:%M} UTC.")]
    elif "returned" not in row.counts:
        why = "It was applied before imports kept what undoing needs. Import the earlier file again."
        reasons = [Reason(why)]
    else:
        blocked = impact if retire == touched else impact_of("tools", retire)
        reasons = _later_imports(row, set(touched))
        reasons += [Reason(line.blocks, line.url) for line in blocked if line.blocks and line.count]
    counted = [line for line in impact if line.count]
    return UndoPlan(retire, earlier, sorted(row.retired_ids), reasons, counted)


def import_undo(*, row: CatalogImport, actor: Any) -> CatalogImport:
    """Undo one import in one transaction. Raises TraceError: bad_state when it is undone already, conflict with
    the reasons in `extra` when later imports or rules stand on it."""
    with transaction.atomic():
        catalog_lock()
        row = CatalogImport.objects.select_for_update().get(pk=row.pk)
        # wait for whoever is just writing a rule that leads to one of the tools, and make later ones wait for us
        tools = Tool.objects.filter(pk__in=row.revisions.values("tool_id")).order_by("pk")
        list(tools.select_for_update().values_list("pk"))
        plan = undo_plan(row)
        if plan.reasons:
            told = [reason.sentence for reason in plan.reasons]
            raise TraceError(
                f"the import cannot be undone. {' '.join(told[:LISTED])}",
                code="bad_state" if row.undone_at else "conflict",
                where=f"import {row.pk}",
                extra={"reasons": told},
            )
        retired = set(plan.retire)
        contents = [
            ToolContent(revision.data, revision.content_hash, revision.tool_id not in retired)
            for some in chunks(sorted(plan.earlier.values()))
            for revision in ToolRevision.objects.filter(pk__in=some).order_by("pk")
        ]
        contents_write(contents, undo_of=row)
        tools_set_active(plan.retire, False)
        tools_set_active(plan.bring_back, True)
        ledger_update()
        row.undone_at, row.undone_by = timezone.now(), actor
        row.save(update_fields=["undone_at", "undone_by"])
        audit_models.record(actor=actor, action="catalog.import_undone", obj=row, detail=plan.counts)
        tools_changed([*plan.retire, *plan.earlier, *plan.bring_back])
        emit("catalog.import_undone", {**import_told(row), "undone": plan.counts})
    return row


def _later_imports(row: CatalogImport, touched: set[int]) -> list[Reason]:
    """Imports since then, themselves not undone, that touched one of the same tools."""
    later = CatalogImport.objects.filter(pk__gt=row.pk, undone_at=None)
    same = Q(tool__in=row.revisions.values("tool_id")) | Q(tool__in=row.retired_ids)
    rewritten = ToolRevision.objects.filter(same, catalog_import__in=later)
    both: dict[int, set[int]] = defaultdict(set)
    for other, tool in rewritten.order_by().values_list("catalog_import_id", "tool_id"):
        both[other].add(tool)
    for other, retired in later.values_list("pk", "retired_ids"):
        both[other] |= touched.intersection(retired)
    named = later.filter(pk__in=[pk for pk, tools in both.items() if tools]).order_by("-pk")
    reasons = []
    for pk, name in named.values_list("pk", "filename"):
        said = f"The later import {pk} ({name}) touched {len(both[pk]):,} of the same tools. Undo that one first."
        reasons.append(Reason(said, reverse("catalog:import_detail", args=[pk])))
    return reasons
