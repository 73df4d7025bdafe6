"""Carrying a change request out: every check again under locks, then versions and publishing in one transaction."""

from collections.abc import Sequence
from typing import Any

from rules.core.findings import Finding, has_errors
from rules.models import ChangeRequest, Rule, RuleChange, RuleVersion
from rules.names import ToolNames
from rules.selectors_conflicts import (
    Proposal,
    change_label,
    changes_of,
    proposals_of,
    request_conflicts,
    request_findings,
)
from rules.services import checked_entry, new_rule, next_version, publish_checked, rule_withdraw
from trace_site import audit
from trace_site.lib.errors import TraceError


def check_complete(request: ChangeRequest, changes: Sequence[RuleChange]) -> list[Proposal]:
    """Refuse a request that holds nothing, an unfinished rule, or a change that changes nothing."""
    if not changes:
        raise TraceError(
            "The request holds no change.", code="bad_state", hint="Edit a rule and add it, or cancel it."
        )
    proposals, names = proposals_of(changes), ToolNames()
    for proposal in proposals:
        try:
            checked_entry(proposal.content, proposal.code, proposal.domain, names)
        except TraceError as error:
            code = change_label(proposal.change)
            error.where = f"{code}{error.where}"
            error.extra |= {"change": proposal.change.pk, "label": code}
            raise
        _refuse_nothing(proposal)
    return proposals


def _refuse_nothing(proposal: Proposal) -> None:
    change, base = proposal.change, proposal.change.base
    live = change.rule is not None and base is not None and base.pk == change.rule.published_id
    if base and live and base.content_hash == proposal.content.content_hash():
        raise TraceError(
            f"The change of {change_label(change)} says what v{base.number} says already.",
            code="bad_state",
            hint="Edit it, or remove it from the request.",
            extra={"change": change.pk},
        )


def check_clear(request: ChangeRequest, changes: Sequence[RuleChange]) -> None:
    """Raise TraceError `conflict` or `findings` with the first thing that blocks; extra lists all of them."""
    blocking = [conflict for conflict in request_conflicts(request, changes) if conflict.blocks]
    if blocking:
        raise TraceError(
            blocking[0].sentence,
            code="conflict",
            hint="Open the change, compare it with what is there now, and save it on top of that.",
            extra={"conflicts": [conflict.sentence for conflict in blocking]},
        )
    findings = request_findings(changes)
    for change in changes:
        if has_errors(findings.get(change.pk, [])):
            raise _findings_error(change, findings[change.pk])


def _findings_error(change: RuleChange, findings: Sequence[Finding]) -> TraceError:
    first = next(finding for finding in findings if finding.level == "error")
    return TraceError(
        f"{change_label(change)}: {first.sentence}",
        code="findings",
        hint=first.fix,
        extra={"change": change.pk, "findings": [finding.as_dict() for finding in findings]},
    )


def carry_out(request: ChangeRequest, actor: Any) -> list[RuleVersion]:
    """Make and publish what the request proposes; returns the published versions. The caller holds the catalog and
    the request.

    Raises TraceError `conflict`, `findings`, `bad_rule` or `bad_state`; then nothing is written.
    """
    rules = {change.rule_id for change in request.changes.all() if change.rule_id}
    list(Rule.objects.select_for_update(no_key=True).filter(pk__in=rules).order_by("pk"))
    changes = changes_of(request)
    check_clear(request, changes)
    proposals = check_complete(request, changes)
    detail = {"request": request.pk}
    versions = [_version(proposal, detail) for proposal in proposals]
    publish_checked(versions, actor, detail)
    for change in changes:
        if change.rule and change.action == RuleChange.Action.WITHDRAW:
            rule_withdraw(rule=change.rule, actor=actor, detail=detail)
    return versions


def _version(proposal: Proposal, detail: dict[str, Any]) -> RuleVersion:
    """The version that the change becomes, by whoever wrote it."""
    change = proposal.change
    rule = change.rule or new_rule(checked_entry(proposal.content, proposal.code, proposal.domain))
    note = change.note or f"change request {change.request_id}"
    version, made = next_version(rule, proposal.content, note=note, actor=change.edited_by)
    if made:
        saved = {"version": version.number, "note": note, **detail}
        audit.record(actor=change.edited_by, action="rule.saved", obj=rule, detail=saved)
    version.rule = rule
    change.version = version
    change.save(update_fields=["version"])
    return version


def title_of(changes: Sequence[RuleChange]) -> str:
    """A title made from what is changed, for a request that was given none."""
    parts = [
        f"{'Withdraw ' if change.action == RuleChange.Action.WITHDRAW else ''}{change_label(change)}"
        for change in changes
    ]
    title = ", ".join(parts)
    return title if len(title) <= 200 else f"{title[:199]}…"
