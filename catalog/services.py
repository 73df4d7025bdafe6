"""What every writer of the catalog shares: its lock, its token ledger, who hears of changes; and blocking a tool."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

from django.db import transaction
from django.db.models import Max, Model, Q

from catalog.core.ledger import LedgerRow, assign_slots
from catalog.models import TokenUnit, Tool
from trace_site.audit import models as audit_models
from trace_site.database import database_now, hold_lock
from trace_site.impact import functions_named
from trace_site.lib.errors import TraceError

CATALOG_LOCK = 0x7472_6163  # one writer of the catalog at a time
LONGEST_REASON = 300


def catalog_lock() -> None:
    """Hold the catalog for this transaction: two imports must not hand out the same slot."""
    hold_lock(CATALOG_LOCK)


def ledger_update() -> int:
    """Give every active tool's tokens a permanent slot and make tombstones of the rest; returns how many rows changed.
    Call it in the transaction that changed the tools, under `catalog_lock`.
    """
    stored = TokenUnit.objects.values_list("family", "slot", "string", "state")
    before = {LedgerRow(*row) for row in stored}
    names = Tool.objects.filter(status=Tool.Status.ACTIVE).values_list("name", flat=True)
    after = assign_slots(list(before), names.iterator(chunk_size=5000))
    rows = [TokenUnit(**asdict(row)) for row in after if row not in before]
    write_or_update(rows, of=["family", "slot"], fields=["state"])
    return len(rows)


def clause_tokens_add(strings: Sequence[str]) -> list[TokenUnit]:
    """In the next slots, in this order. Call it under `catalog_lock`."""
    if not strings:
        return []
    family = TokenUnit.Family.CLAUSE
    last = TokenUnit.objects.filter(family=family).aggregate(last=Max("slot"))["last"]
    slots = count(0 if last is None else last + 1)
    rows = [TokenUnit(family=family, slot=next(slots), string=string) for string in strings]
    return TokenUnit.objects.bulk_create(rows, batch_size=2000)


def write_or_update(rows: Sequence[Model], *, of: list[str], fields: list[str]) -> None:
    """Create the rows; of one that is there already, by the fields `of`, update these `fields`."""
    if rows:
        type(rows[0])._default_manager.bulk_create(
            rows, batch_size=2000, update_conflicts=True, unique_fields=of, update_fields=fields
        )


def tools_changed(ids: Iterable[int]) -> None:
    """Tell the apps to the right, which name a function in their AppConfig (`tools_changed`), that an import or an undo
    added, changed, retired or brought back these tools. It runs inside the writer's transaction: what it raises undoes
    the write."""
    changed = sorted(set(ids))
    for hear in functions_named("tools_changed") if changed else ():
        hear(changed)


def masked_names() -> frozenset[str]:
    """Tools that no answer may name: retired or blocked."""
    masked = Tool.objects.filter(Q(status=Tool.Status.RETIRED) | Q(blocked_at__isnull=False)).order_by()
    return frozenset(masked.values_list("name", flat=True))


def retired_names() -> frozenset[str]:
    retired = Tool.objects.filter(status=Tool.Status.RETIRED).order_by()
    return frozenset(retired.values_list("name", flat=True))


@transaction.atomic
def tool_block(*, tool: Tool, because: str, actor: Any) -> None:
    """From the next request on no answer names it; training and rules stay. Raises TraceError: bad_input without a
    reason, bad_state when it is blocked already.
    """
    because = because.strip()
    if not 0 < len(because) <= LONGEST_REASON:
        message = f"a reason of 1 to {LONGEST_REASON} characters is needed."
        raise TraceError(message, code="bad_input", where="because")
    tool = Tool.objects.select_for_update().defer("embedding", "search").get(pk=tool.pk)
    if tool.blocked_at is not None:
        raise TraceError(f"{tool.name} is blocked already.", code="bad_state")
    tool.blocked_at, tool.blocked_by, tool.blocked_because = database_now(), actor, because
    tool.save(update_fields=["blocked_at", "blocked_by", "blocked_because"])
    audit_models.record(actor=actor, action="tool.blocked", obj=tool, detail={"because": because})


@transaction.atomic
def tool_unblock(*, tool: Tool, actor: Any) -> None:
    """Raises TraceError bad_state when it is not blocked."""
    tool = Tool.objects.select_for_update().defer("embedding", "search").get(pk=tool.pk)
    if tool.blocked_at is None:
        raise TraceError(f"{tool.name} is not blocked.", code="bad_state")
    detail = {"because": tool.blocked_because, "since": tool.blocked_at.isoformat()}
    tool.blocked_at, tool.blocked_by, tool.blocked_because = None, None, ""
    tool.save(update_fields=["blocked_at", "blocked_by", "blocked_because"])
    audit_models.record(actor=actor, action="tool.unblocked", obj=tool, detail=detail)
