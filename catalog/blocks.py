"""Blocking a tool: from the next request on no answer names it, until it is unblocked. Training and rules stay."""

from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from catalog.models import Tool
from trace_site.audit import models as audit_models
from trace_site.lib.errors import TraceError

LONGEST_REASON = 300


def masked_names() -> frozenset[str]:
    """Tools that no answer may name: retired or blocked."""
    masked = Tool.objects.filter(Q(status=Tool.Status.RETIRED) | Q(blocked_at__isnull=False)).order_by()
    return frozenset(masked.values_list("name", flat=True))


def retired_names() -> frozenset[str]:
    retired = Tool.objects.filter(status=Tool.Status.RETIRED).order_by()
    return frozenset(retired.values_list("name", flat=True))


@transaction.atomic
def tool_block(*, tool: Tool, because: str, actor: Any) -> Tool:
    """Raises TraceError: bad_input without a reason, bad_state when it is blocked already."""
    because = because.strip()
    if not 0 < len(because) <= LONGEST_REASON:
        raise TraceError(
            f"a reason of 1 to {LONGEST_REASON} characters is needed.", code="bad_input", where="because"
        )
    tool = _locked(tool)
    if tool.blocked_at is not None:
        raise TraceError(f"{tool.name} is blocked already.", code="bad_state")
    _write(tool, blocked_at=timezone.now(), blocked_by=actor, blocked_because=because)
    audit_models.record(actor=actor, action="tool.blocked", obj=tool, detail={"because": because})
    return tool


@transaction.atomic
def tool_unblock(*, tool: Tool, actor: Any) -> Tool:
    """Raises TraceError bad_state when it is not blocked."""
    tool = _locked(tool)
    if tool.blocked_at is None:
        raise TraceError(f"{tool.name} is not blocked.", code="bad_state")
    detail = {"because": tool.blocked_because, "since": tool.blocked_at.isoformat()}
    _write(tool, blocked_at=None, blocked_by=None, blocked_because="")
    audit_models.record(actor=actor, action="tool.unblocked", obj=tool, detail=detail)
    return tool


def _locked(tool: Tool) -> Tool:
    return Tool.objects.select_for_update().defer("embedding", "search").get(pk=tool.pk)


def _write(tool: Tool, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(tool, name, value)
    tool.save(update_fields=list(fields))
